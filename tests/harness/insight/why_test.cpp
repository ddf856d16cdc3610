// `why` on recorded sweeps of a tiny model: what it computes is the record's, and what cannot be
// rebuilt is refused.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/commands/program.h"
#include "harness/insight/explain_answers.h"
#include "harness/insight/rebuild.h"
#include "runner/base/error.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kTasks =
    "needle:length=300:samples=2,qa:samples=2:people=2:filler=false,perplexity:context=64:windows="
    "2";
constexpr const char* kNeedle = "magic_number:length=300:depth=0.0:sample=0";

struct Why : testing::SweepTest {
  struct Result {
    int status;
    std::string out;
    std::string err;
  };
  Result why(std::vector<std::string> arguments) const {
    std::vector<std::string> words{"kvscope", "why"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--db", database(), "--threads", "1"});
    if (std::ranges::find(words, "--model") == words.end())
      words.insert(words.end(), {"--model", (folder_.path / "tiny.gguf").string()});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStderr();
    std::ostringstream out;
    std::streambuf* before = std::cout.rdbuf(out.rdbuf());
    const int status = run_kvscope(int(argv.size()), argv.data(), {});
    std::cout.rdbuf(before);
    return {status, out.str(), ::testing::internal::GetCapturedStderr()};
  }
  std::string database() const { return (folder_.path / "a.db").string(); }
  void sweep(const std::string& policies = "h2o,streaming_llm,snapkv,cake",
             const std::string& tasks = kTasks) {
    SweepOptions o = options("a.db", policies, "0.2", tasks);
    o.arms.question = "both";
    run(o);
  }
};

TEST_F(Why, ExplainsARecordedAnswer) {
  sweep();
  Store store = read("a.db");
  for (const std::string arm : {"h2o@0.200", "streaming_llm@0.200", "snapkv@0.200", "cake@0.200",
                                "h2o@0.200 question=hidden"}) {
    const Result result = why({"newest", kNeedle, arm, "--json", "--controls", "2"});
    ASSERT_EQ(result.status, 0) << arm << result.err;
    EXPECT_EQ(result.err, "") << arm;  // no note: the record's answer came out again
    const json out = json::parse(result.out);
    const ArmRow row = find_arm(store, arm);
    EXPECT_EQ(out["arm_key"], row.arm_key);
    for (const ResultRow& recorded : arm_results(store, row.arm_id)) {
      if (recorded.sample_key != kNeedle) continue;
      EXPECT_EQ(out["arm"]["text"], recorded.output_text) << arm;
      for (const auto& [name, value] : recorded.metrics) {
        if (name == "gold_nll_nats") {
          EXPECT_EQ(out["arm"]["gold_nll_nats"], value) << arm;
        }
        if (name == "evidence_survival") {
          EXPECT_NEAR(out["evidence"]["survival_at_end"], value, 1e-12);
        }
      }
    }
    EXPECT_EQ(out["kl_full_nats"].size(), out["full"]["ids"].size());
    const int n = int(out["evidence"]["end"]) - int(out["evidence"]["begin"]);
    // No local frame where positions are relative to the cache.
    const bool local = arm != "streaming_llm@0.200";
    ASSERT_EQ(out["missed"].size(), local ? 2U : 1U) << arm;
    for (const json& top : out["missed"]) {
      EXPECT_LE(top["tokens"].size(), std::size_t(n));
      double before = 1e9;
      for (const json& token : top["tokens"]) {
        EXPECT_LE(double(token["mass"]), before);
        before = token["mass"];
        EXPECT_EQ(bool(token["is_evidence"]), token["position"] >= out["evidence"]["begin"] &&
                                                  token["position"] < out["evidence"]["end"]);
      }
    }
    ASSERT_EQ(out["restorations"].size(), (local ? 2U : 1U) + 1 + 2) << arm;
    for (const json& trial : out["restorations"]) {
      EXPECT_EQ(trial["error"], "") << arm;
      EXPECT_GT(int(trial["more_kv_bytes"]), 0) << arm << trial["what"];
      if (trial["what"] == "evidence") {
        EXPECT_EQ(trial["n_evidence"], n);
      }
    }
  }
}

TEST_F(Why, TheSameQuestionHasTheSameAnswer) {
  sweep("h2o", "qa:samples=2:people=2:filler=false");
  const std::vector<std::string> ask{"newest", "document=1", "h2o@0.2", "--json"};
  EXPECT_EQ(why(ask).out, why(ask).out);
  const Result text = why({"newest", "document=1", "h2o@0.2"});
  for (const char* part : {"gold: ", "full: ", "KL from full", "Evidence (tokens", "local frame",
                           "paired frame", "random, seed 1"})
    EXPECT_THAT(text.out, HasSubstr(part));
}

TEST_F(Why, ExplainsATextsWorstTokens) {
  sweep();
  Store store = read("a.db");
  std::string window;
  const ArmRow arm = find_arm(store, "h2o@0.200");
  double nll = 0.0;
  for (const ResultRow& row : arm_results(store, arm.arm_id)) {
    if (row.task != "perplexity" || !window.empty()) continue;
    window = row.sample_key;
    for (const auto& [name, value] : row.metrics) {
      if (name == "nll_nats") nll = value;
    }
  }
  for (const char* label : {"h2o@0.200", "streaming_llm@0.200", "snapkv@0.200"}) {
    const Result result = why({"newest", window, label, "--json", "--top", "3"});
    ASSERT_EQ(result.status, 0) << result.err;
    const json out = json::parse(result.out);
    EXPECT_EQ(out["worst"].size(), 8U);
    EXPECT_EQ(out["missed"][0]["tokens"].size(), 3U);
    EXPECT_EQ(out["restorations"].size(), 4U);
    for (const json& trial : out["restorations"]) {
      EXPECT_EQ(trial["error"], "");
      EXPECT_EQ(trial["positions"].size(), 3U);
    }
    if (std::string_view(label) == "h2o@0.200") {
      EXPECT_EQ(out["arm_nll_nats"], nll);
    }
  }
  EXPECT_THAT(why({"newest", window, "h2o@0.200"}).out, HasSubstr("Kept from leaving"));
}

TEST_F(Why, RestoringWithinTheBudgetCostsNoKeysAndValues) {
  sweep("h2o", "needle:length=300:samples=2");
  const Result result =
      why({"newest", kNeedle, "h2o@0.200", "--json", "--room", "within", "--top", "4"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const json& trial : json::parse(result.out)["restorations"]) {
    EXPECT_EQ(trial["error"], "");
    EXPECT_LE(int(trial["more_kv_bytes"]), 0) << trial["what"];
  }
}

TEST_F(Why, NamesThatFitNothingOrSeveralAreUsageErrors) {
  sweep("h2o", "needle:length=300:samples=2");
  const auto refused = [&](std::vector<std::string> arguments, const char* part) {
    const Result result = why(std::move(arguments));
    EXPECT_EQ(result.status, 64) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  refused({"nosuchrun", kNeedle, "h2o@0.200"}, "no run 'nosuchrun'");
  refused({"newest", "nosuchsample", "h2o@0.200"}, "no sample 'nosuchsample'");
  refused({"newest", "magic", "h2o@0.200"}, "could be the samples");
  refused({"newest", kNeedle, "tova@0.200"}, "no arm 'tova@0.200'");
  refused({"newest", kNeedle, "full@1.000"}, "name an arm that evicts");
  refused({"newest", kNeedle}, "name a RUN");
  refused({"newest", kNeedle, "h2o@0.200", "--planted", "3"}, "not both");
}

TEST_F(Why, ADatabaseOrModelThatIsAnotherIsRefused) {
  SweepOptions o = options("a.db", "h2o", "0.2", "perplexity:context=64:windows=2");
  run(o);
  Store store = read("a.db");
  const std::string window =
      arm_results(store, find_arm(store, "h2o@0.200").arm_id).front().sample_key;
  const auto refused = [&](std::vector<std::string> arguments, int status, const char* part) {
    const Result result = why(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  testing::write_tiny_model(folder_.path / "other.gguf", {}, 99);
  refused({"newest", window, "h2o@0.200", "--model", (folder_.path / "other.gguf").string()}, 65,
          "was run on another model");
  std::ofstream(folder_.path / "text.txt", std::ios::app) << "One more sentence. ";
  EXPECT_EQ(why({"newest", window, "h2o@0.200"}).status, 0);  // the windows are the same
  std::ofstream(folder_.path / "text.txt") << std::string(2000, 'x') + " another text entirely";
  refused({"newest", window, "h2o@0.200"}, 65, "has changed");
}

TEST_F(Why, PlantedFailuresOfAModelThatNeverPassesAreNotEvaluable) {
  const Result result = why({"--planted", "1", "--length", "300", "--json"});
  EXPECT_EQ(result.status, 3) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["failures"], 0);
  EXPECT_EQ(out["samples"], 8);
}

}  // namespace
}  // namespace kvscope
