// kvscope gate, kvscope power and scripts/nightly, on a tiny model.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

class GateCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write_model();
    // KL of the next-token distribution: 0.25 nats at the larger budget, more than 1 at four
    // tokens.
    write("gate.json", R"({"name": "night", "checks": [
      {"candidate": "streaming_llm", "task": "qa", "metric": "kl_full_nats", "max": 0.6}]})");
    write(
        "good.json",
        R"({"policies": ["streaming_llm"], "budgets": [0.95], "tasks": ["qa:samples=40:people=1:filler=false:seed={seed}"]})");
    write(
        "planted.json",
        R"({"policies": ["streaming_llm"], "budget_tokens": [4], "tasks": ["qa:samples=40:people=1:filler=false:seed={seed}"]})");
  }
  Finished nightly(const std::string& suite, const std::string& night) const {
    return shell("'" KVSCOPE_SOURCE_DIR "/scripts/nightly' --db n.db --gate gate.json --suite " +
                 suite + " --night " + night +
                 " --out out -- --model \"$PWD/tiny.gguf\" --probe off");
  }
};

TEST_F(GateCommand, ANightPassesAndAPlantedRegressionFails) {
  const Finished good = nightly("good.json", "1");
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  EXPECT_EQ(json::parse(read(folder_ / "out/gate.json"))["verdict"], "pass");
  EXPECT_NE(read(folder_ / "out/gate.xml").find("failures=\"0\""), std::string::npos);
  EXPECT_GT(std::filesystem::file_size(folder_ / "out/published.db"), 0U);

  const Finished planted = nightly("planted.json", "2");
  EXPECT_EQ(planted.status, 1) << planted.out << planted.err;
  const json report = json::parse(read(folder_ / "out/gate.json"));
  EXPECT_EQ(report["verdict"], "fail");
  EXPECT_GT(report["checks"][0]["candidate_mean"], 1.0);
  EXPECT_NE(report["checks"][0]["reason"].get<std::string>().find("confirmed on fresh samples"),
            std::string::npos)
      << report;
  EXPECT_EQ(report["checks"][0]["history"]["nights"], 2);
}

TEST_F(GateCommand, RefusesInOneLine) {
  expect_refused("gate", 64, "name a SUITE.json");
  expect_refused("gate absent.json", 74, "absent.json");
  expect_refused("gate gate.json --db absent.db", 74, "absent.db");
  expect_refused("gate --self-test", 64, "--arms A B");
  write("bad.json", "{\"checks\": []}");
  expect_refused("gate bad.json --db absent.db", 64, "would always pass");
  expect_refused("power full h2o --db absent.db", 74, "absent.db");
}

TEST_F(GateCommand, PowerAndSelfTestReadRecordedPairs) {
  ASSERT_EQ(kvscope("run --model tiny.gguf --policy streaming_llm --budget-tokens 8 --probe off "
                    "--tasks qa:samples=30:people=1:filler=false --db a.db")
                .status,
            0);
  const Finished power =
      kvscope("power full streaming_llm --db a.db --metrics gold_nll_nats --margin 0.001 --json");
  ASSERT_EQ(power.status, 0) << power.err;
  const json needs = json::parse(power.out)["metrics"][0];
  EXPECT_EQ(needs["metric"], "gold_nll_nats");
  EXPECT_GE(needs["clusters_needed"], 2);
  EXPECT_GT(needs["samples_unpaired_per_paired"], 0.0);
  EXPECT_EQ(kvscope("power full streaming_llm --db a.db --margin 0").status, 64);

  const Finished test = kvscope(
      "gate --self-test --arms full streaming_llm --db a.db --metrics gold_nll_nats --runs 200 "
      "--json");
  EXPECT_TRUE(test.status == 0 || test.status == 1) << test.err;
  EXPECT_EQ(json::parse(test.out)["tests"][0]["runs"], 200);
}

}  // namespace
}  // namespace kvscope::testing
