// Arms that see the question and arms that do not: the same tokens, another cut, never one table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "datasets/qa/facts.h"
#include "harness/tasks/answer_task.h"
#include "runner/base/error.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kTwoTasks = "needle:length=300:samples=2,qa:samples=2:people=2:filler=false";
constexpr const char* kHidden = " question=hidden";

class QuestionVisibilityTest : public testing::SweepTest {
 protected:
  SweepOptions asking(const std::string& question, const std::string& database,
                      const std::string& policies = "tova,h2o",
                      const std::string& tasks = kTwoTasks) const {
    SweepOptions o = options(database, policies, policies == "full" ? "" : "0.5", tasks);
    o.arms.question = question;
    return o;
  }

  static int count(Store& store, const std::string& table) {
    Statement rows(store.database(), "SELECT count(*) FROM " + table);
    rows.step();
    return rows.integer(0);
  }

  struct Tokens {
    int prompt = 0;
    int decoded = 0;
    std::string fitted;
  };
  static std::map<std::string, Tokens> tokens_of(Store& store, const std::string& label) {
    Statement rows(store.database(),
                   "SELECT sample_key,r.n_prompt_tokens,n_decode_steps,fitted_params FROM "
                   "sample_result r JOIN sample USING(sample_id) WHERE arm_id=?");
    rows.bind(find_arm(store, label).arm_id);
    std::map<std::string, Tokens> tokens;
    while (rows.step()) tokens[rows.text(0)] = {rows.integer(1), rows.integer(2), rows.text(3)};
    return tokens;
  }
};

// Dense rows and decoded rows of the same tokens have the same bits, so the full cache answers
// alike wherever the prompt is cut. Its rows are still two: lengths, steps and prefill bytes
// differ.
TEST_F(QuestionVisibilityTest, TheFullCacheGivesTheSameBitsAtAnotherCut) {
  run(asking("both", "a.db"));
  Store store = read("a.db");
  const auto visible = arm_results(store, find_arm(store, "full@1.000").arm_id);
  const auto hidden =
      arm_results(store, find_arm(store, std::string("full@1.000") + kHidden).arm_id);
  ASSERT_THAT(visible, SizeIs(4));
  ASSERT_THAT(hidden, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(visible[i].output_text, hidden[i].output_text);
    const std::map<std::string, double> a(visible[i].metrics.begin(), visible[i].metrics.end());
    const std::map<std::string, double> b(hidden[i].metrics.begin(), hidden[i].metrics.end());
    EXPECT_EQ(a.at("gold_nll_nats"), b.at("gold_nll_nats"));  // no tolerance: bit for bit
    EXPECT_EQ(a.at("kl_full_nats"), b.at("kl_full_nats"));
  }
  const auto seen = tokens_of(store, "full@1.000");
  const auto unseen = tokens_of(store, std::string("full@1.000") + kHidden);
  for (const auto& [key, tokens] : seen) {
    EXPECT_LT(unseen.at(key).prompt, tokens.prompt) << key;
    EXPECT_EQ(unseen.at(key).prompt + unseen.at(key).decoded, tokens.prompt + tokens.decoded)
        << key;
  }
}

TEST_F(QuestionVisibilityTest, SelectionAndBudgetFollowTheShorterPrompt) {
  run(asking("both", "a.db"));
  Store store = read("a.db");
  const auto seen = tokens_of(store, "h2o@0.500");
  const auto unseen = tokens_of(store, std::string("h2o@0.500") + kHidden);
  ASSERT_THAT(seen, SizeIs(4));
  for (const auto& [key, tokens] : seen) {
    EXPECT_LT(unseen.at(key).prompt, tokens.prompt) << key;
    // Half of half of the prompt is recent.
    EXPECT_THAT(tokens.fitted,
                HasSubstr("\"recent\":\"" + std::to_string(tokens.prompt / 2 / 2) + "\""));
    EXPECT_THAT(unseen.at(key).fitted,
                HasSubstr("\"recent\":\"" + std::to_string(unseen.at(key).prompt / 2 / 2) + "\""));
  }
  EXPECT_NE(fingerprint(store, "tova@0.500"),
            fingerprint(store, std::string("tova@0.500") + kHidden));
  for (const ResultRow& row :
       arm_results(store, find_arm(store, std::string("tova@0.500") + kHidden).arm_id)) {
    const std::map<std::string, double> metrics(row.metrics.begin(), row.metrics.end());
    EXPECT_GT(metrics.at("kl_full_nats"), 0.0) << row.sample_key;
    EXPECT_GT(metrics.at("rebound_mass"), 0.0) << row.sample_key;
  }
}

TEST_F(QuestionVisibilityTest, ANumberIsTheSameAloneAndBesideTheOtherVisibility) {
  run(asking("both", "both.db"));
  run(asking("visible", "visible.db"));
  run(asking("hidden", "hidden.db"));
  Store both = read("both.db");
  Store visible = read("visible.db");
  Store hidden = read("hidden.db");
  EXPECT_THAT(list_arms(both), SizeIs(6));
  EXPECT_THAT(list_arms(hidden), SizeIs(3));
  for (const char* label : {"full@1.000", "tova@0.500", "h2o@0.500"}) {
    EXPECT_EQ(fingerprint(both, label), fingerprint(visible, label)) << label;
    const std::string other = std::string(label) + kHidden;
    EXPECT_EQ(fingerprint(both, other), fingerprint(hidden, other)) << label;
    // Where every arm is hidden the short name is enough.
    EXPECT_EQ(find_arm(hidden, label).label, other);
  }
}

TEST_F(QuestionVisibilityTest, TheOtherVisibilityAddsRowsToTheSameSamples) {
  run(asking("visible", "a.db"));
  std::string before;
  {
    Store store = read("a.db");
    before = fingerprint(store, "tova@0.500");
    EXPECT_EQ(count(store, "sample_result"), 3 * 4);
    EXPECT_EQ(count(store, "sample"), 4);
  }
  run(asking("hidden", "a.db"));
  Store store = read("a.db");
  EXPECT_EQ(count(store, "sample_result"), 6 * 4);
  EXPECT_EQ(count(store, "sample"), 4);
  EXPECT_EQ(count(store, "arm WHERE question_visibility='hidden'"), 3);
  EXPECT_EQ(fingerprint(store, "tova@0.500"), before);
  // Both plans are finished: nothing runs again.
  run(asking("visible", "a.db"));
  run(asking("hidden", "a.db"));
  EXPECT_THAT(list_runs(store), SizeIs(2));
}

TEST_F(QuestionVisibilityTest, WhatIsMissingIsComparedWithItsOwnFullArm) {
  const SweepOptions o = asking("both", "a.db");
  run(o);
  const std::string hidden = std::string("tova@0.500") + kHidden;
  std::string whole;
  {
    Store store = Store::open(o.database, StoreAccess::kCreate);
    whole = fingerprint(store, hidden);
    const std::string arm = std::to_string(find_arm(store, hidden).arm_id);
    store.database().execute("DELETE FROM sample_result WHERE arm_id=" + arm +
                             "; UPDATE arm SET status='running' WHERE arm_id=" + arm +
                             "; UPDATE sweep SET status='running'");
    EXPECT_NE(fingerprint(store, hidden), whole);
  }
  run(o);
  Store store = read("a.db");
  EXPECT_THAT(list_runs(store), SizeIs(2));
  EXPECT_EQ(fingerprint(store, hidden), whole);
}

TEST_F(QuestionVisibilityTest, NoTableHoldsBoth) {
  SweepOptions o = asking("both", "a.db");
  const auto out = nlohmann::json::parse(run(o));
  ASSERT_EQ(out["tasks"].size(), 4U);  // two data sets × two visibilities
  Store store = read("a.db");
  for (const auto& task : out["tasks"]) {
    const std::string visibility = task["question_visibility"];
    ASSERT_EQ(task["arms"].size(), 3U);
    for (const auto& arm : task["arms"]) {
      const ArmRow row = find_arm(store, arm["arm_id"].dump());
      EXPECT_EQ(row.question_visibility, visibility);
    }
  }
  // Differences are to the full arm of the same visibility: the shorter prompt's bytes tell them
  // apart.
  const std::string hidden = std::string("tova@0.500") + kHidden;
  const auto mean = [&](const std::string& label, const std::string& dataset) {
    for (const ArmMetricRow& row : arm_metrics(store, find_arm(store, label).arm_id)) {
      if (row.metric == "kv_prefill_peak_bytes" && row.dataset == dataset) return row.mean;
    }
    return 0.0;
  };
  const auto& task = out["tasks"][1];
  ASSERT_EQ(task["question_visibility"], "hidden");
  const std::string dataset = task["dataset"];
  const double full = mean(std::string("full@1.000") + kHidden, dataset);
  ASSERT_NE(full, mean("full@1.000", dataset));
  // Sums of a few whole numbers below 2^53.
  EXPECT_DOUBLE_EQ(task["arms"][1]["metrics"]["kv_prefill_peak_bytes"]["difference_to_full"],
                   mean(hidden, dataset) - full);

  o.json = false;
  const std::string text = run(o);
  EXPECT_THAT(text, HasSubstr("\nneedle, question hidden\n"));
  EXPECT_THAT(text, HasSubstr("Question visible: At the smallest budget (0.500)"));
  EXPECT_THAT(text, HasSubstr("\nQuestion hidden: At the smallest budget (0.500)"));
  // A block of lines is a table: none has rows of both kinds.
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    const std::string block = text.substr(at, end - at);
    at = end + 2;
    if (block.find("minus full") == std::string::npos) continue;
    const bool is_hidden = block.find("question hidden\n") != std::string::npos;
    std::size_t rows = 0;
    for (std::size_t row = block.find("@"); row != std::string::npos;
         row = block.find("@", row + 1)) {
      const std::string line = block.substr(row, block.find('\n', row) - row);
      if (line.starts_with("@32")) continue;  // the heading hit@32
      EXPECT_EQ(line.find(kHidden) != std::string::npos, is_hidden) << block;
      ++rows;
    }
    EXPECT_EQ(rows, 3U) << block;
  }
}

TEST_F(QuestionVisibilityTest, NamesInAPairMeanOneVisibility) {
  run(asking("both", "a.db"));
  Store store = read("a.db");
  const std::string hidden = std::string("tova@0.5") + kHidden;
  EXPECT_EQ(find_arm_pair(store, "full", hidden).first.label, std::string("full@1.000") + kHidden);
  EXPECT_EQ(find_arm_pair(store, hidden, "full").second.label, std::string("full@1.000") + kHidden);
  EXPECT_EQ(find_arm_pair(store, "full", "tova@0.5").first.label, "full@1.000");
  EXPECT_EQ(find_arm_pair(store, "h2o question=hidden", "full").first.label,
            std::string("h2o@0.500") + kHidden);
  EXPECT_THROW(find_arm(store, "full"), UsageError);  // which of the two?
  EXPECT_THROW(find_arm_pair(store, "full", "tova"), UsageError);
}

TEST_F(QuestionVisibilityTest, AQuestionThatIsNotFoundIsASkippedRow) {
  const OpenedModel opened = open_model(options("a.db", "full", "", "qa").model, {});
  Dataset data = make_qa({.samples = 2, .people = 1, .filler = false}, *opened.tokenizer);
  data.samples[0].question_begin = -1;
  const auto task = make_answer_task(data, [](std::string_view, const Sample&, SampleOutcome&) {});
  const auto arms = expand_arms({"full", "", "", "both"});
  const TaskRun run{*opened.engine, *opened.tokenizer, arms, ProbeLevel::kOff, false, {}};
  const std::vector<SampleWork> work = {{0, {0, 1}}, {1, {0, 1}}};
  const auto outcomes = task->run(run, work);
  ASSERT_TRUE(outcomes);
  EXPECT_EQ((*outcomes)[0][0].status, OutcomeStatus::kOk);
  EXPECT_EQ((*outcomes)[0][1].status, OutcomeStatus::kSkipped);
  EXPECT_EQ((*outcomes)[0][1].error_kind, "no_question");
  EXPECT_EQ((*outcomes)[1][1].status, OutcomeStatus::kOk);
  EXPECT_EQ((*outcomes)[1][1].n_prompt_tokens, data.samples[1].question_begin);
}

TEST_F(QuestionVisibilityTest, ATextHasNoQuestionToHide) {
  const std::string tasks = std::string(kTwoTasks) + ",perplexity:context=64:windows=2";
  SweepOptions o = asking("both", "a.db", "tova", tasks);
  o.json = false;
  const std::string text = run(o);
  Store store = read("a.db");
  EXPECT_EQ(find_arm(store, "tova@0.500").n_ok, 6);
  for (const char* label : {"full@1.000", "tova@0.500"}) {
    const ArmRow arm = find_arm(store, std::string(label) + kHidden);
    EXPECT_EQ(arm.n_ok, 4);
    EXPECT_EQ(arm.n_skipped, 2);
    EXPECT_EQ(arm.status, "finished");
  }
  // One line instead of a table without numbers.
  EXPECT_THAT(text,
              HasSubstr("question hidden\n  4 results without numbers: a text has no question "
                        "to hide\n"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  run(asking("hidden", "b.db", "tova", "perplexity:context=64:windows=2"), ExitCode::kNotEvaluable);
}

}  // namespace
}  // namespace kvscope
