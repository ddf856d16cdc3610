// Data sets from the outside: looked at, asked, scored, exported.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using DatasetCommands = ProgramTest;

const std::string kFixtures = KVSCOPE_SOURCE_DIR "/tests/datasets/fixtures/";

TEST_F(DatasetCommands, InspectsWithoutAModel) {
  const Finished run = kvscope("dataset inspect " + kFixtures + "leval/quality.jsonl --json");
  ASSERT_EQ(run.status, 0) << run.err;
  const json found = json::parse(run.out);
  EXPECT_EQ(found["format"], "leval");
  EXPECT_EQ(found["samples"], 2);
  EXPECT_EQ(found["documents"], 1);
  EXPECT_EQ(found["skipped"], json::array());
  EXPECT_FALSE(found.contains("token_lengths"));
  EXPECT_NE(
      kvscope("dataset inspect " + kFixtures + "qasper/qasper-dev-v0.3.json").out.find("qasper"),
      std::string::npos);
}

TEST_F(DatasetCommands, InspectsTokenLengthsAndSkippedRecords) {
  write_model();
  write("a.jsonl",
        "{\"input\":\"q\",\"context\":\"cc\",\"answers\":\"c\"}\r\n{\"input\":\n"
        "{\"input\":\"qq\",\"context\":\"cc\",\"answers\":[7]}");
  const json found = json::parse(
      kvscope("dataset inspect a.jsonl --model tiny.gguf --windows 163,164 --json").out);
  EXPECT_EQ(found["samples"], 2);
  EXPECT_EQ(found["documents"], 1);
  EXPECT_EQ(found["skipped"], json::parse(R"([{"line": 2, "reason": "not valid JSON"}])"));
  EXPECT_EQ(found["token_lengths"]["min"], 3);
  EXPECT_EQ(found["token_lengths"]["max"], 4);
  EXPECT_EQ(found["token_lengths"]["fits"], json::parse(R"({"163": 1, "164": 2})"));
}

TEST_F(DatasetCommands, RefuseWhatIsNoDataSet) {
  write("a.json", "{\"x\": 1}");
  expect_refused("dataset inspect a.json", 65, "a.json: no known format; the first record has x");
  expect_refused("dataset inspect none.json", 74, "none.json");
  expect_refused("dataset inspect .", 65, "a folder of no known layout");
  write("b.jsonl", "{\"pred\": \"a\", \"ref\": \"a\"}");
  expect_refused("score-answers b.jsonl", 64, "line 1: the row names no \"metric\"");
  expect_refused("score-answers b.jsonl --metric token_f2", 64, "did you mean \"token_f1\"?");
}

TEST_F(DatasetCommands, ScoreAnswersOfVectorsAndOfBenchmarks) {
  const Finished run = kvscope("score-answers " KVSCOPE_SOURCE_DIR
                               "/tests/metrics/quality/metric_vectors.jsonl --json");
  ASSERT_EQ(run.status, 0) << run.err;
  const json scored = json::parse(run.out);
  ASSERT_EQ(scored["rows"].size(), 195U);
  EXPECT_EQ(scored["rows"][0]["metric"], "longbench.qa_f1");
  EXPECT_DOUBLE_EQ(scored["rows"][0]["score"].get<double>(), 2.0 / 3);
  const json longbench = json::parse(
      kvscope("score-answers " + kFixtures +
              "longbench/pred/model-a/multifieldqa_en.jsonl --metric longbench.qa_f1 --json")
          .out);
  EXPECT_EQ(longbench["metrics"][0]["mean"], 0.5);  // as its result.json says
  const json kvpress =
      json::parse(kvscope("score-answers " + kFixtures +
                          "kvpress/ruler__4096__model-a__snapkv__0.50/predictions.csv "
                          "--metric ruler.string_match_all --json")
                      .out);
  EXPECT_EQ(kvpress["metrics"][0]["mean"], 100);
  EXPECT_EQ(json::parse(kvscope("score-answers " + kFixtures +
                                "lm_eval/model-a/samples_niah_single_1_2026-01-02T03-04-05.000001."
                                "jsonl --metric string_match_all --json")
                            .out)["metrics"][0]["mean"],
            1);
  EXPECT_EQ(json::parse(kvscope("score-answers " + kFixtures +
                                "longbench_v2/pred/model-a.jsonl --metric stated_choice --json")
                            .out)["metrics"][0]["mean"],
            1);
}

TEST_F(DatasetCommands, AskAFileAndExportItInLmEvalsLayout) {
  write_model();
  const std::string sweep =
      "sweep --model tiny.gguf --policies h2o --budgets 0.5 --tasks qa --data " + kFixtures +
      "squad/dev-v2.0.json --db a.db --json";
  const Finished run = kvscope(sweep);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.err.find("1 questions that the text does not answer are left out"),
            std::string::npos)
      << run.err;
  const json task = json::parse(run.out)["tasks"][0];
  EXPECT_EQ(task["primary_metric"], "token_f1");
  EXPECT_EQ(task["dataset"], "dev-v2.0");

  const Finished exported = kvscope("export --lm-eval out h2o@0.500 --db a.db --json");
  ASSERT_EQ(exported.status, 0) << exported.err;
  const json files = json::parse(exported.out)["files"];
  ASSERT_EQ(files.size(), 2U);
  const json results = json::parse(read(folder_ / files[0].get<std::string>()));
  EXPECT_TRUE(results["results"]["dev-v2.0"].contains("token_f1,none"));
  EXPECT_EQ(results["results"]["dev-v2.0"]["token_f1_stderr,none"], "N/A");  // of one sample
  EXPECT_EQ(results["n-samples"]["dev-v2.0"], json::parse(R"({"original": 1, "effective": 1})"));
  EXPECT_EQ(results["higher_is_better"]["dev-v2.0"]["gold_nll_nats"], false);
  const json sample = json::parse(read(folder_ / files[1].get<std::string>()));
  EXPECT_EQ(sample["target"], "1902");
  EXPECT_EQ(sample["doc"]["sample_key"], "s1");
  EXPECT_EQ(sample["prompt_hash"].get<std::string>().size(), 64U);
  EXPECT_EQ(sample["metrics"].size(), results["higher_is_better"]["dev-v2.0"].size());
}

TEST_F(DatasetCommands, ListFormatsAndScorers) {
  const json formats = json::parse(kvscope("list formats --json").out);
  EXPECT_EQ(formats.size(), 24U);
  const json scorers = json::parse(kvscope("list scorers --json").out);
  EXPECT_GT(scorers.size(), 30U);
}

}  // namespace
}  // namespace kvscope::testing
