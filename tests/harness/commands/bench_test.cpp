// The benchmarks run and say what they measured. How long anything takes is nobody's promise here.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

class Bench : public ProgramTest {
 protected:
  json bench(const std::string& arguments) const {
    write_model();
    const Finished run =
        kvscope("bench " + arguments + " --model tiny.gguf --repetitions 2 --json");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 1) << run.out;
    return json::parse(run.out, nullptr, false);
  }
  static void expect_samples(const json& samples) {
    ASSERT_EQ(samples["values"].size(), 2U) << samples;
    EXPECT_GT(samples["min"], 0.0);
    EXPECT_LE(samples["min"], samples["median"]);
    EXPECT_LE(samples["median"], samples["max"]);
  }
};

TEST_F(Bench, EngineTimesPrefillAndRows) {
  const json out = bench("engine --prefill 8,32 --rows 1,4 --prompt 16 --steps 4");
  EXPECT_EQ(out["bench"], "engine");
  EXPECT_EQ(out["dtype"], "f32");
  ASSERT_EQ(out["prefill"].size(), 2U);
  EXPECT_EQ(out["prefill"][1]["prompt_tokens"], 32);
  expect_samples(out["prefill"][1]["tokens_per_second"]);
  ASSERT_EQ(out["decode"].size(), 2U);
  EXPECT_EQ(out["decode"][1]["rows"], 4);
  expect_samples(out["decode"][1]["tokens_per_second"]);
}

TEST_F(Bench, EngineMeasuresOneKindAlone) {
  const json out = bench("engine --prefill 0 --rows 2 --prompt 16 --steps 2 --dtype bf16");
  EXPECT_EQ(out["prefill"].size(), 0U);
  EXPECT_EQ(out["decode"].size(), 1U);
  EXPECT_EQ(out["dtype"], "bf16");
  EXPECT_EQ(out["kv_dtype"], "bf16");
}

TEST_F(Bench, SweepComparesArmsWithFullAlone) {
  const json out =
      bench("sweep --policies tova,h2o --budgets 0.5,0.2 --prompt 300 --answer 2 --rows 1");
  EXPECT_EQ(out["arms"], 5);
  expect_samples(out["full_seconds"]);
  expect_samples(out["sweep_seconds"]);
  EXPECT_TRUE(out["ratio_to_full"].is_number());
}

TEST_F(Bench, ScoreComparesThePolicyWithFullAndWithTheLoop) {
  const json out = bench("score --policy h2o --budget-tokens 8 --tokens 64 --token-major-tokens 4");
  expect_samples(out["full_tokens_per_second"]);
  expect_samples(out["policy_tokens_per_second"]);
  expect_samples(out["loop_tokens_per_second"]);
  EXPECT_TRUE(out["policy_to_full"].is_number());
  EXPECT_TRUE(out["policy_to_loop"].is_number());
}

TEST_F(Bench, ScoreOfFullAloneComparesNothing) {
  const json out = bench("score --policy full --tokens 64 --first-scored 33");
  expect_samples(out["full_tokens_per_second"]);
  EXPECT_EQ(out["first_scored"], 33);
  EXPECT_FALSE(out.contains("policy_to_full"));
}

TEST_F(Bench, ScoreAtLengthsBeyondTheContextKeepsItsCacheSmall) {
  const json out = bench("score --policy tova --budget-tokens 8 --lengths 128,1024");
  ASSERT_EQ(out["lengths"].size(), 2U);
  EXPECT_EQ(out["lengths"][1]["tokens"], 1024);  // the tiny model was made for 512
  expect_samples(out["lengths"][1]["tokens_per_second"]);
  EXPECT_GT(out["lengths"][0]["kv_peak_bytes"], 0);
  EXPECT_EQ(out["lengths"][0]["kv_peak_bytes"], out["lengths"][1]["kv_peak_bytes"]);
}

TEST_F(Bench, LoadSplitsTheTime) {
  const json out = bench("load");
  EXPECT_EQ(out["file"], "tiny.gguf");
  for (const char* key : {"file_seconds", "tokenizer_seconds", "sha256_seconds", "weights_seconds",
                          "total_seconds"}) {
    expect_samples(out[key]);
  }
  EXPECT_GT(out["packed_matrix_bytes"], 0);
}

TEST_F(Bench, PrintsTablesForPeople) {
  write_model();
  const Finished engine =
      kvscope("bench engine --model tiny.gguf --prefill 8 --rows 2 --prompt 8 --steps 2");
  EXPECT_EQ(engine.status, 0) << engine.err;
  EXPECT_NE(engine.out.find("prefill 8"), std::string::npos) << engine.out;
  EXPECT_NE(engine.out.find("decode, rows 2"), std::string::npos) << engine.out;
  const Finished score =
      kvscope("bench score --model tiny.gguf --budget-tokens 8 --tokens 32 --token-major-tokens 2");
  EXPECT_NE(score.out.find("h2o@8, layer-major"), std::string::npos) << score.out;
  EXPECT_NE(score.out.find("token by token"), std::string::npos);
}

TEST_F(Bench, RefusesWhatItCannotMeasure) {
  write_model();
  write("short.txt", "a short text");
  expect_refused("bench", 64, "subcommand");
  expect_refused("bench score --policy snapkv --model tiny.gguf", 64, "acts in stream");
  expect_refused("bench score --model tiny.gguf --text short.txt", 65, "fewer than");
  expect_refused("bench engine --prefill 1 --model tiny.gguf", 64, "one token");
  expect_refused("bench sweep --policies full --model tiny.gguf", 64, "beside full");
}

}  // namespace
}  // namespace kvscope::testing
