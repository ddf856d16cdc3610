// kvscope trace record and kvscope simulate, on a tiny random model.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

class Simulate : public ProgramTest {
 protected:
  void record(const std::string& more = "") {
    write_model();
    std::string ids = "[10";
    for (int i = 1; i < 60; ++i) ids += "," + std::to_string(10 + i * 37 % 200);
    write("ids.json", ids + "]");
    const Finished run = kvscope(
        "trace record --ids ids.json --model tiny.gguf --prompt-tokens 40 --out a.trace " + more);
    ASSERT_EQ(run.status, 0) << run.err;
    ASSERT_NE(run.out.find("60 tokens"), std::string::npos) << run.out;
  }
};

TEST_F(Simulate, Layer0KeepsTheMassThatScoreMeasures) {
  record();
  const json out =
      json::parse(kvscope("simulate a.trace --policies h2o,tova --budget-tokens 10,20 --json").out);
  EXPECT_EQ(out["frame"], "replay");
  EXPECT_EQ(out["trace"]["tokens"], 60);
  EXPECT_EQ(out["prompt_tokens"], 40);
  EXPECT_EQ(out["rows"], 20);
  ASSERT_EQ(out["arms"].size(), 4U);
  for (const json& arm : out["arms"]) {
    EXPECT_EQ(arm["layers"].size(), 2U);
    EXPECT_GT(arm["mass_hit"], 0.0);
    EXPECT_LT(arm["mass_hit"], 1.0);
    // Every row after the prompt has ghosts, so lost mass and hit ratio are two forms of one sum.
    EXPECT_NEAR(double(arm["lost_mass"]), 20 * (1 - double(arm["mass_hit"])), 1e-9);
  }
  EXPECT_EQ(out["arms"][0]["policy"], "h2o");
  EXPECT_EQ(out["arms"][0]["budget_tokens"], 10);
  EXPECT_LT(out["arms"][0]["mass_hit"], out["arms"][1]["mass_hit"]);
  EXPECT_FALSE(out["arms"][0].contains("regret"));
}

TEST_F(Simulate, OraclesBoundWhatPoliciesLose) {
  record("--store bf16");
  const json out = json::parse(
      kvscope("simulate a.trace --policies sliding_window,random,snapkv,pyramidkv --budgets 0.25 "
              "--oracles --json")
          .out);
  for (const json& arm : out["arms"]) {
    EXPECT_LE(arm["o_step_lost_mass"], arm["o_opt_lost_mass"]) << arm["policy"];
    EXPECT_LE(arm["o_opt_lost_mass"], arm["o_greedy_lost_mass"]) << arm["policy"];
    EXPECT_GE(arm["regret"], -1e-6) << arm["policy"];
    EXPECT_LE(arm["share"], 1.0) << arm["policy"];
  }
  EXPECT_EQ(out["random_seeds"], 5);
  EXPECT_EQ(out["arms"][0]["bound"], "o_opt");
  EXPECT_TRUE(out["arms"][0]["skill"].is_number());
  EXPECT_TRUE(out["arms"][3]["skill"].is_null());  // chance has no pyramid
}

TEST_F(Simulate, PrintsACurveATableAndACsv) {
  record("--layers 1");
  const Finished run = kvscope(
      "simulate a.trace --policies h2o,streaming_llm --budget-tokens 8,16,32 --prompt-tokens 0 "
      "--by-layer --csv a.csv");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("in stream; replay of 1 of 2 layers"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("mass hit by budget"), std::string::npos);
  EXPECT_NE(run.out.find("h2o@16tok"), std::string::npos);
  const std::string csv = read(folder_ / "a.csv");
  EXPECT_TRUE(
      csv.starts_with("policy,budget,budget_tokens,layer,mass_hit,hit_at_32,"
                      "hit_at_90_percent_mass,lost_mass\nh2o,8tok,8,all,"))
      << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 6 * 2);
}

TEST_F(Simulate, BadInputIsOneLine) {
  record("--layers 0");
  const std::string h2o = " --policies h2o --budget-tokens 8";
  expect_refused("trace", 64, "subcommand");
  expect_refused("trace record --ids ids.json --model tiny.gguf", 64, "--out");
  expect_refused("trace record --out b --model tiny.gguf", 64, "one of");
  const std::string record = "trace record --ids ids.json --model tiny.gguf --out b.trace ";
  expect_refused(record + "--layers 2", 64, "no layer");
  expect_refused(record + "--layers 0,0", 64, "twice");
  expect_refused(record + "--layers all,", 64, "no layer");
  expect_refused(record + "--tokens 61", 64, "60 tokens");
  expect_refused(record + "--prompt-tokens 60", 64, "must follow");
  expect_refused(record + "--store q4", 64, "--store");
  expect_refused("trace record --ids ids.json --model tiny.gguf --out no/b.trace", 74,
                 "no/b.trace");
  expect_refused("simulate none.trace" + h2o, 74, "none.trace");
  expect_refused("simulate ids.json" + h2o, 65, "not a trace");
  expect_refused("simulate a.trace --policies full", 64, "nothing is evicted");
  expect_refused("simulate a.trace --policies h2o", 64, "budget");
  expect_refused("simulate a.trace --policies cake --budgets 0.5", 64, "--layers all");
  expect_refused("simulate a.trace --policies h2o+kv_int8 --budgets 0.5", 64, "storage");
  expect_refused("simulate a.trace --prompt-tokens 60" + h2o, 64, "--prompt-tokens");
  expect_refused("simulate a.trace --random-seeds 2" + h2o, 64, "--random-seeds");
  expect_refused("simulate a.trace --csv no/a.csv" + h2o, 74, "no folder");
  shell("head -c 3000 a.trace > cut.trace");
  expect_refused("simulate cut.trace" + h2o, 65, "cut.trace");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.trace"));
}

}  // namespace
}  // namespace kvscope::testing
