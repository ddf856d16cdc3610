// Sweeps with plug-ins: a faulty one leaves error rows and nothing else; builds do not mix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "harness/commands/sweep_run.h"
#include "harness/store/queries.h"
#include "runner/base/error.h"
#include "tests/harness/store/store_fixture.h"
#include "tests/runner/model/gguf_writer.h"

namespace kvscope {
namespace {

using ::testing::HasSubstr;

std::string plugin(const std::string& name) { return KVSCOPE_PLUGIN_DIR "/" + name + ".so"; }

class PluginSweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_tiny_model(folder_.path / "tiny.gguf");
    std::ofstream text(folder_.path / "text.txt");
    for (int i = 0; i < 200; ++i)
      text << "The cat " << i << " sat on the mat and saw " << i * 7 % 13 << " rats. ";
  }

  Store sweep(const std::string& database, const std::string& policies,
              const std::vector<std::string>& plugins) {
    SweepOptions o;
    o.model.file = (folder_.path / "tiny.gguf").string();
    o.model.threads = 1;
    o.arms = {policies, "0.5", ""};
    o.arms.plugins = plugins;
    o.tasks = "needle:length=300:samples=2,perplexity:context=64:windows=2";
    o.database = (folder_.path / database).string();
    o.files.text = folder_.path / "text.txt";
    o.json = true;
    std::ostringstream out;
    std::streambuf* before = std::cout.rdbuf(out.rdbuf());
    const ExitCode code = run_sweep(o, {});
    std::cout.rdbuf(before);
    EXPECT_EQ(code, ExitCode::kOk);
    return Store::open(folder_.path / database, StoreAccess::kReadOnly);
  }

  static std::string metrics(Store& store, const std::string& label) {
    std::ostringstream out;
    out << std::hexfloat;
    for (const ResultRow& row : arm_results(store, find_arm(store, label).arm_id)) {
      out << row.sample_key << ' ' << row.status << ' ' << row.output_text;
      for (const auto& [name, value] : row.metrics) out << ' ' << name << '=' << value;
      out << '\n';
    }
    return out.str();
  }

  testing::TempFolder folder_;
};

TEST_F(PluginSweepTest, AFaultIsAnErrorRowAndOtherArmsKeepTheirBits) {
  Store alone = sweep("alone.db", "h2o", {});
  Store both = sweep("both.db", "misbehaving:fault=duplicate,h2o", {plugin("misbehaving")});
  for (const char* label : {"full@1.000", "h2o@0.500"})
    EXPECT_EQ(metrics(both, label), metrics(alone, label)) << label;
  const ArmRow faulty = find_arm(both, "misbehaving:fault=duplicate@0.500");
  EXPECT_EQ(faulty.n_ok, 0);
  EXPECT_EQ(faulty.n_error, 4);
  for (const ResultRow& row : arm_results(both, faulty.arm_id))
    EXPECT_THAT(row.error, HasSubstr("plug-in misbehaving, layer 0, KV head 0: select kept slot"));
}

TEST_F(PluginSweepTest, ResultsOfTwoBuildsAreTwoArms) {
  const std::string file = (folder_.path / "rule.so").string();
  std::filesystem::copy_file(plugin("newest"), file);
  sweep("a.db", "newest", {file});
  // Bytes behind the last section change the file and not what it does.
  std::ofstream(file, std::ios::app | std::ios::binary) << "another build";
  Store store = sweep("a.db", "newest", {file});
  std::set<std::string> keys;
  for (const ArmRow& arm : list_arms(store)) {
    if (arm.policy == "newest") keys.insert(arm.arm_key);
  }
  EXPECT_EQ(keys.size(), 2U);
  // The same build again is the same plan: nothing new.
  Store again = sweep("a.db", "newest", {file});
  EXPECT_EQ(list_arms(again).size(), list_arms(store).size());
}

}  // namespace
}  // namespace kvscope
