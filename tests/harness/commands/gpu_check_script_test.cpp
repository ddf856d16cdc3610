// scripts/gpu-check as far as it goes without a GPU: its drill, and a folder that it packs.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

class GpuCheckScript : public ProgramTest {
 protected:
  Finished check(const std::string& script, const std::string& arguments) const {
    return shell("'" + script + "' " + arguments);
  }
  const std::string script_ = KVSCOPE_SOURCE_DIR "/scripts/gpu-check";
  const std::string program_ = "--program \"$KVSCOPE\" ";
};

TEST_F(GpuCheckScript, TheDrillRunsAndWritesJson) {
  const Finished run = check(script_, program_ + "--drill --json out.json");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("Agrees"), std::string::npos) << run.out;
  const json found = json::parse(read(folder_ / "out.json"));
  EXPECT_EQ(found["bench"]["agrees"], true);
  EXPECT_EQ(found["kernel_tests"]["failed"], 0);
}

TEST_F(GpuCheckScript, APackedFolderRunsByItself) {
  const Finished pack = check(script_, program_ + "--pack packed --without-cublas");  // 600 MB
  ASSERT_EQ(pack.status, 0) << pack.err;
  const std::string packed = (folder_ / "packed").string();
  const Finished run = check(packed + "/gpu-check", "--drill");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("Agrees"), std::string::npos) << run.out;
  // With its own C library, as on a machine whose one is too old.
  const Finished carried = shell("'" + packed + "/lib/c/ld-linux-x86-64.so.2' --library-path '" +
                                 packed + "/lib/c:" + packed + "/lib' '" + packed +
                                 "/bin/kvscope' bench gpu --tiny --backend cpu --no-speed");
  EXPECT_EQ(carried.status, 0) << carried.err;
}

TEST_F(GpuCheckScript, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(check(script_, "--fast").status, 64);
  EXPECT_EQ(check(script_, "--json").status, 64);
  EXPECT_EQ(check(script_, "--program absent").status, 74);
}

}  // namespace
}  // namespace kvscope::testing
