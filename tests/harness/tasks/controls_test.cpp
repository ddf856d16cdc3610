// Dialogues, a user's prompts, floors and traps, as whole sweeps of a tiny model.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/plan/lint.h"
#include "harness/report/cells.h"
#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/load.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope::testing {
namespace {

class Controls : public SweepTest {
 protected:
  std::unique_ptr<Tokenizer> tokenizer() const {
    return load_tokenizer(*GgufFile::open(folder_.path / "tiny.gguf"));
  }
  // Turns go beyond the tiny model's context, as its tokens are little more than bytes.
  SweepOptions talk(const std::string& database, const std::string& policies,
                    const std::string& budgets, const std::string& tasks) const {
    SweepOptions o = options(database, policies, budgets, tasks);
    o.model.beyond_context = true;
    return o;
  }
  Dataset dataset(const std::string& tasks) const {
    const TaskSpec spec = parse_tasks(tasks).front();
    return find_task(spec.name)->make(spec, {}, *tokenizer())->dataset();
  }
};

TEST_F(Controls, an_arm_hears_its_own_answers_the_same_alone_and_beside_others) {
  const std::string tasks = "dialogue:length=400:turns=3:samples=1:feed=own:kind=topic_switch";
  run(talk("alone.db", "h2o", "0.3", tasks));
  run(talk("beside.db", "tova,h2o", "0.3", tasks));
  Store alone = read("alone.db");
  Store beside = read("beside.db");
  EXPECT_EQ(fingerprint(alone, "h2o@0.300"), fingerprint(beside, "h2o@0.300"));
  const auto rows = arm_results(alone, find_arm(alone, "h2o@0.300").arm_id);
  ASSERT_EQ(rows.size(), 3U);
  for (const ResultRow& row : rows) EXPECT_EQ(row.status, "ok") << row.error;
}

TEST_F(Controls, a_turn_alone_is_the_turn_of_the_whole_dialogue) {
  const TaskSpec spec = parse_tasks("dialogue:length=400:turns=3:samples=1:feed=own").front();
  ModelOptions model;
  model.file = (folder_.path / "tiny.gguf").string();
  model.threads = 1;
  model.beyond_context = true;
  const OpenedModel opened = open_model(model, {});
  const auto task = find_task(spec.name)->make(spec, {}, *opened.tokenizer);
  const auto arms = expand_arms({"tova", "0.3", ""});
  const TaskRun run{*opened.engine, *opened.tokenizer, arms, ProbeLevel::kOff, true, {}};
  const std::vector<SampleWork> all = {{0, {0, 1}}, {1, {0, 1}}, {2, {0, 1}}};
  const auto whole = task->run(run, all);
  const std::vector<SampleWork> last = {{2, {1}}};
  const auto alone = task->run(run, last);
  ASSERT_TRUE(whole && alone);
  EXPECT_EQ((*alone)[0][0].output_ids, (*whole)[2][1].output_ids);
  EXPECT_EQ((*alone)[0][0].metrics, (*whole)[2][1].metrics);
}

TEST_F(Controls, turns_with_right_answers_have_their_recall_by_turn) {
  const auto json = nlohmann::json::parse(
      run(talk("gold.db", "h2o", "0.3", "dialogue:length=400:turns=3:samples=2")));
  const auto& task = json["tasks"][0];
  EXPECT_EQ(task["primary_metric"], "recall");
  const auto& cells = task["arms"][1]["cells"];
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[2]["cell"], "length=400 turn=2");
  EXPECT_EQ(cells[2]["n"], 2);
  // A random model recalls nothing, and is told so.
  ASSERT_EQ(task["baseline"].size(), 3U);
  EXPECT_EQ(task["baseline"][0]["clears"], false);
  EXPECT_EQ(task["baseline"][0]["least"], 0.8);
}

TEST_F(Controls, own_prompts_are_held_against_the_full_cache) {
  SweepOptions o = options("mine.db", "h2o,sliding_window", "0.1,1.0", "replay:new_tokens=12");
  o.files.prompts = folder_.path / "mine.jsonl";
  std::ofstream(o.files.prompts) << "{\"prompt\": \"The cat sat on the mat and saw nine rats.\"}\n"
                                 << "{\"prompt\": \"Another line about a dog and seven birds.\"}\n";
  const auto json = nlohmann::json::parse(run(o));
  const auto& arms = json["tasks"][0]["arms"];
  EXPECT_EQ(json["tasks"][0]["primary_metric"], "kl_full_nats");
  const auto mean = [&](std::size_t arm, const char* metric) {
    return arms[arm]["metrics"][metric]["mean"].get<double>();
  };
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    EXPECT_GE(mean(arm, "answer_agreement"), 0.0);
    EXPECT_GE(mean(arm, "first_divergence_step"), 0.0);
    EXPECT_LE(mean(arm, "first_divergence_step"), 12.0);
    EXPECT_FALSE(arms[arm]["metrics"].contains("gold_nll_nats"));
  }
  EXPECT_EQ(mean(0, "answer_agreement"), 1.0);
  EXPECT_EQ(mean(0, "kl_full_nats"), 0.0);
  o.files.prompts.clear();
  EXPECT_THROW(run(o), UsageError);
}

TEST_F(Controls, floors_know_what_the_questions_alone_give) {
  SweepOptions o = options("floors.db", "full", "", "qa:samples=4:people=2:filler=false");
  o.floors = true;
  const auto json = nlohmann::json::parse(run(o));
  ASSERT_EQ(json["tasks"].size(), 2U);
  EXPECT_EQ(json["tasks"][1]["dataset"], "qa_no_context");
  const auto& cell = json["tasks"][0]["baseline"][0];
  EXPECT_EQ(cell["metric"], "token_f1");
  EXPECT_TRUE(cell["no_context"].is_number());
  EXPECT_GE(cell["least"].get<double>(), 0.1);
  o.json = false;
  const std::string table = run(o);
  EXPECT_NE(table.find("baseline too weak"), std::string::npos) << table;
  EXPECT_EQ(table.find("qa_no_context"), std::string::npos);
  // A sweep into the same file knows it too, and says so.
  SweepOptions later = options("floors.db", "h2o", "0.5", "qa:samples=4:people=2:filler=false");
  const auto after = nlohmann::json::parse(run(later));
  EXPECT_TRUE(after["tasks"][0]["baseline"][0]["least"].is_number());
}

TEST_F(Controls, a_text_has_its_perplexity_by_token_word_and_byte) {
  const auto json = nlohmann::json::parse(
      run(options("text.db", "streaming_llm", "0.5", "perplexity:stride=32:context=64:windows=3")));
  const auto& arm = json["tasks"][0]["arms"][0];
  const double nats = arm["metrics"]["nll_nats"]["mean"];
  const double bits = arm["text"]["bits_per_byte"];
  EXPECT_NEAR(std::log(arm["text"]["byte_perplexity"].get<double>()), bits * std::log(2.0), 1e-9);
  EXPECT_GT(arm["text"]["word_perplexity"].get<double>(),
            arm["text"]["byte_perplexity"].get<double>());
  EXPECT_GT(nats, 0);
  EXPECT_TRUE(arm["metrics"].contains("bits_per_byte"));
  Store store = read("text.db");
  Statement steps(store.database(),
                  "SELECT count(*) FROM step_stat JOIN metric USING(metric_id) WHERE "
                  "name='nll_nats'");
  steps.step();
  EXPECT_GT(steps.integer(0), 0);
}

TEST_F(Controls, what_perplexity_scores_is_said_once) {
  for (const char* tasks : {"perplexity:stride=32:stream=64", "perplexity:stream=64:context=32",
                            "perplexity:stride=64:context=64"}) {
    EXPECT_THROW(run(options("no.db", "h2o", "0.5", tasks)), UsageError) << tasks;
  }
  SweepOptions o = options("no.db", "h2o", "0.5", "perplexity");
  o.files.corpus = "none";
  EXPECT_THROW(run(o), UsageError);
}

TEST_F(Controls, traps_of_a_data_set_are_found) {
  const auto has = [](const std::vector<std::string>& lines, std::string_view what) {
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  const auto t = tokenizer();
  const auto grid = lint_dataset(dataset("niah:min_length=400:max_length=800:lengths=2"), *t, 500);
  EXPECT_TRUE(has(grid, "10 of 10 cells have one sample"));
  EXPECT_TRUE(has(grid, "exceed the model's context of 500"));
  Dataset data = dataset("needle:length=400:samples=4:depth=50");
  EXPECT_FALSE(has(lint_dataset(data, *t, 0), "one sample"));
  EXPECT_FALSE(has(lint_dataset(data, *t, 0), "hold none"));
  data.samples[1].prompt_ids.resize(40);  // cut off before the number
  data.samples[2].max_new_tokens = 1;
  data.samples[3].input_sha256 = data.samples[0].input_sha256;
  for (Sample& sample : data.samples) sample.gold_ids.front() = data.samples[0].gold_ids.front();
  const auto found = lint_dataset(data, *t, 0);
  EXPECT_TRUE(has(found, "1 of 4 prompts hold none of their answers"));
  EXPECT_TRUE(has(found, "1 of 4 answers are longer than max_new_tokens"));
  EXPECT_TRUE(has(found, "1 of 4 samples repeat"));
  EXPECT_TRUE(has(found, "it is free"));
}

TEST_F(Controls, two_data_sets_of_one_name_are_a_trap) {
  run(options("two.db", "h2o", "0.3", "needle:length=300:samples=2"));
  run(options("two.db", "h2o", "0.3", "needle:length=300:samples=2:seed=2"));
  Store store = read("two.db");
  const auto found = lint_database(store, *tokenizer());
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].starts_with("needle: 2 different data sets")) << found[0];
}

TEST_F(Controls, where_nothing_is_evicted_nothing_changes) {
  ModelOptions model;
  model.file = (folder_.path / "tiny.gguf").string();
  model.threads = 1;
  const OpenedModel opened = open_model(model, {});
  const TaskSpec spec = parse_tasks("needle:length=300:samples=2").front();
  const auto task = find_task(spec.name)->make(spec, {}, *opened.tokenizer);
  const auto check = [&](const char* policies, const char* tokens) {
    const auto arms = expand_arms({policies, "", tokens});
    return lint_identity({*opened.engine, *opened.tokenizer, arms, ProbeLevel::kOff, false, {}},
                         *task);
  };
  const auto findings =
      check("h2o,tova,snapkv,streaming_llm,sliding_window,random,knorm,keydiff,lru", "4096");
  EXPECT_TRUE(findings.empty()) << findings.front();
  // The check sees what does change.
  EXPECT_FALSE(check("streaming_llm", "16").empty());
}

}  // namespace
}  // namespace kvscope::testing
