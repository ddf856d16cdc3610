// What kvscope conform prints; the checks themselves are tested in tests/runner/policies.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using Conform = ProgramTest;

TEST_F(Conform, HelpHasAnExample) {
  const Finished help = kvscope("conform --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("Example"), std::string::npos);
  EXPECT_NE(help.out.find("Exit status 1"), std::string::npos);
}

TEST_F(Conform, JsonOfAPolicy) {
  const Finished run = kvscope("conform tova --cases 20 --json");
  ASSERT_EQ(run.status, 0) << run.err;
  const json found = json::parse(run.out);
  EXPECT_EQ(found["conforms"], true);
  ASSERT_EQ(found["policies"].size(), 1U);
  const json& tova = found["policies"][0];
  EXPECT_EQ(tova["policy"], "tova");
  EXPECT_EQ(tova["vectors"].size(), 3U);
  for (const json& property : tova["properties"]) EXPECT_EQ(property["cases"], 60) << property;
  EXPECT_GE(tova["mutants"].size(), 5U);
  for (const json& mutant : tova["mutants"]) EXPECT_EQ(mutant["caught"], true) << mutant;
}

TEST_F(Conform, AVariantHasPropertiesAlone) {
  const Finished run = kvscope("conform snapkv+adakv --cases 5");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("snapkv+adakv  "), std::string::npos) << run.out;
}

TEST_F(Conform, ListsDefectsAndWhatCaughtThem) {
  const Finished run = kvscope("conform sliding_window --cases 5 --list-mutants");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("position taken from the slot number"), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("nothing caught"), std::string::npos) << run.out;
}

TEST_F(Conform, UnknownPolicyIsUsage) {
  const Finished run = kvscope("conform h20");
  EXPECT_EQ(run.status, 64);
  EXPECT_NE(run.err.find("did you mean \"h2o\"?"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvscope::testing
