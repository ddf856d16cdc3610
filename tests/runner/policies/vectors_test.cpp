// The vectors of policy-vectors.json through the real policy code, for every policy registered
// here. Not run: `timing=pre` (streaming-evict-for-space*) and the official simulation's rows
// (h2o-sim-*), which are compat modes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "runner/policies/rule_state.h"
#include "runner/policies/snapkv.h"
#include "tests/runner/policies/replay.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

// Scores are sums of at most eight float32 terms below 4: measured error ≤ 2e-7.
constexpr double kScoreTolerance = 1e-6;

const json& document() {
  static const json parsed = json::parse(std::ifstream(
      std::string(KVSCOPE_SOURCE_DIR) + "/tests/runner/policies/policy-vectors.json"));
  return parsed;
}

const json& vector_named(const std::string& id) {
  for (const json& vector : document().at("vectors")) {
    if (vector.at("id") == id) return vector;
  }
  throw std::runtime_error("policy-vectors.json has no vector " + id);
}

// input: "base.A", ["base.A", "base.B"] (one query head each) or inline rows.
AttentionTable table_of(const json& input) {
  std::vector<json> heads;
  if (input.contains("exp_logits_inline")) {
    heads.push_back(input.at("exp_logits_inline"));
  } else {
    const json& names = input.at("exp_logits");
    for (const json& name : names.is_array() ? names : json::array({names})) {
      heads.push_back(document().at("base").at(name.get<std::string>().substr(5)));
    }
  }
  AttentionTable table(static_cast<int>(heads.size()), static_cast<int>(heads[0].size()));
  for (int h = 0; h < table.n_heads; ++h) {
    for (int t = 0; t < table.n_tokens; ++t) {
      for (int i = 0; i <= t; ++i) table.at(h, t, i) = heads[h][t][i].get<double>();
    }
  }
  return table;
}

Positions positions_of(const json& list) { return list.get<Positions>(); }

void expect_scores(const json& step, const std::map<std::int32_t, float>& scores, bool all) {
  if (!step.contains("score")) return;
  EXPECT_FALSE(scores.empty());
  if (all) {
    EXPECT_EQ(step.at("score").size(), scores.size());
  }
  for (const auto& [position, score] : scores) {
    EXPECT_NEAR(score, step.at("score").at(std::to_string(position)).at("val").get<double>(),
                kScoreTolerance)
        << "t=" << step.at("t") << " position " << position;
  }
}

struct StepsCase {
  const char* id;
  const char* policy;
};

// Prompt-end cut, then one selection a decode step, with every score that the vector states.
void run_steps(const json& vector, const json& steps, const std::string& text) {
  const AttentionTable table = table_of(vector.at("input"));
  const int prompt_tokens = vector.at("input").at("prompt_len");
  Replay replay(fitted(text, vector.at("params").at("B"), prompt_tokens), table, 1);
  for (const json& step : steps) {
    const int t = step.at("t");
    SCOPED_TRACE(vector.at("id").get<std::string>() + " t=" + std::to_string(t));
    std::map<std::int32_t, float> scores;
    const bool at_prompt = t == prompt_tokens - 1;
    if (at_prompt) {
      replay.prompt(prompt_tokens);
      const KeptHead& head = replay.cut().front();
      for (std::size_t i = 0; i < head.statistic.size(); ++i) {
        const float rows = head.count.empty() ? 1.0F : static_cast<float>(head.count[i]);
        scores[head.positions[i]] = head.statistic[i] / rows;
      }
    } else {
      // The vector's scores are those before the eviction, so observe alone first.
      Positions visible = replay.kept();
      visible.push_back(t);
      if (replay.state() != nullptr) {
        const auto state = replay.state()->clone();
        const auto a = probabilities(table, 0, table.n_heads, t, visible);
        state->observe({visible, a, table.n_heads});
        const auto values = dynamic_cast<const RuleState&>(*state).scores();
        for (std::size_t i = 0; i < values.size(); ++i) scores[visible[i]] = values[i];
      }
      replay.step(t);
    }
    expect_scores(step, scores, !at_prompt);
    EXPECT_EQ(replay.visible(), positions_of(step.at("visible")));
    EXPECT_EQ(replay.kept(), positions_of(step.at("kept")));
    Positions evicted;
    std::set_difference(replay.visible().begin(), replay.visible().end(), replay.kept().begin(),
                        replay.kept().end(), std::back_inserter(evicted));
    EXPECT_EQ(evicted, positions_of(step.at("evicted")));
    if (step.contains("cache_positions_when_attending")) {
      Positions ranks(replay.visible().size());
      for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<std::int32_t>(i);
      EXPECT_EQ(ranks, positions_of(step.at("cache_positions_when_attending")));
      EXPECT_EQ(ranks.back(), step.at("query_cache_position").get<int>());
    }
  }
}

class StepVectors : public ::testing::TestWithParam<StepsCase> {};

TEST_P(StepVectors, keep_the_stated_sets) {
  const json& vector = vector_named(GetParam().id);
  run_steps(vector, vector.at("expect").at("steps"), GetParam().policy);
}

INSTANTIATE_TEST_SUITE_P(policies, StepVectors,
                         ::testing::Values(StepsCase{"full-1", "full"},
                                           StepsCase{"window-1", "sliding_window"},
                                           StepsCase{"streaming-1", "streaming_llm:sinks=1"},
                                           StepsCase{"random-1", "random:seed=1234"},
                                           StepsCase{"h2o-sum", "h2o:recent=2"},
                                           StepsCase{"h2o-mean", "h2o:norm=mean:recent=2"},
                                           StepsCase{"tova-1head", "tova"},
                                           StepsCase{"tova-2heads", "tova"},
                                           StepsCase{"ties-uniform", "tova"}),
                         [](const auto& info) {
                           std::string name = info.param.id;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(PolicyVectors, random_priorities_are_the_stated_ones) {
  const json& expect = vector_named("random-1").at("expect").at("priority_hex");
  EXPECT_EQ(expect.size(), 8U);
  for (const auto& [position, hex] : expect.items()) {
    EXPECT_EQ(static_priority(1234, {0, 0}, std::stoi(position)),
              std::stoull(hex.get<std::string>(), nullptr, 16));
  }
}

TEST(PolicyVectors, streaming_paper_ranks_positions_within_the_cache) {
  const json& vector = vector_named("streaming-paper");
  const json& expect = vector.at("expect");
  const auto policy = fitted("streaming_llm:sinks=4", 7, 9);
  EXPECT_EQ(policy->positions(), PositionMode::kCacheRelative);
  KeptHead start;
  start.positions = positions_of(vector.at("input").at("resident"));
  const auto state = policy->make_state({0, 0}, start);
  Positions visible = start.positions;
  visible.push_back(vector.at("input").at("incoming"));
  EXPECT_EQ(visible, positions_of(expect.at("visible")));
  EXPECT_EQ(visible.size(), expect.at("cache_positions").size());
  EXPECT_EQ(static_cast<int>(visible.size()) - 1, expect.at("query_cache_position").get<int>());
  const std::vector<float> uniform(visible.size(), 1.0F / static_cast<float>(visible.size()));
  state->observe({visible, uniform, 1});
  Positions kept;
  for (const auto slot : state->select(visible)) kept.push_back(visible[slot]);
  EXPECT_EQ(kept, positions_of(expect.at("kept_after")));
}

std::vector<Positions> kept_after_each(const std::string& text, const json& vector, int n_kv_heads,
                                       int kv_head) {
  const AttentionTable table = table_of(vector.at("input"));
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const int budget = vector.at("params").value("B", 4);
  Replay replay(fitted(text, budget, prompt_tokens), table, n_kv_heads);
  replay.prompt(prompt_tokens);
  std::vector<Positions> sets = {replay.kept(kv_head)};
  for (int t = prompt_tokens; t < table.n_tokens; ++t) {
    replay.step(t);
    sets.push_back(replay.kept(kv_head));
  }
  return sets;
}

TEST(PolicyVectors, h2o_recent_of_the_whole_budget_is_a_window) {
  const json& vector = vector_named("h2o-recent=B");
  EXPECT_EQ(kept_after_each("h2o:recent=4", vector, 1, 0),
            vector.at("expect").at("kept").get<std::vector<Positions>>());
}

TEST(PolicyVectors, h2o_heads_keep_their_own_sets_or_share_the_group_mean) {
  const json& vector = vector_named("h2o-heads");
  const json& expect = vector.at("expect");
  const auto sets = [](const json& list) { return list.get<std::vector<Positions>>(); };
  EXPECT_EQ(kept_after_each("h2o:recent=2", vector, 2, 0), sets(expect.at("per_head").at("A")));
  EXPECT_EQ(kept_after_each("h2o:recent=2", vector, 2, 1), sets(expect.at("per_head").at("B")));
  EXPECT_EQ(kept_after_each("h2o:recent=2", vector, 1, 0), sets(expect.at("head_mean")));
  run_steps(vector, expect.at("steps_head_mean"), "h2o:recent=2");
}

TEST(PolicyVectors, tova_shares_one_set_between_kv_heads) {
  const json& vector = vector_named("tova-2heads");
  std::vector<Positions> expected;
  for (const json& step : vector.at("expect").at("steps")) {
    expected.push_back(positions_of(step.at("kept")));
  }
  EXPECT_EQ(kept_after_each("tova", vector, 2, 0), expected);
  EXPECT_EQ(kept_after_each("tova", vector, 2, 1), expected);
}

TEST(PolicyVectors, h2o_never_hides_what_the_simulation_resurrects) {
  const json& vector = vector_named("h2o-sim-resurrection");
  EXPECT_EQ(kept_after_each("h2o:recent=2", vector, 1, 0),
            vector.at("expect").at("normative_h2o_kept").get<std::vector<Positions>>());
}

TEST(PolicyVectors, h2o_chunked_differs_from_monolithic) {
  const json& vector = vector_named("h2o-chunked");
  const json& expect = vector.at("expect");
  const AttentionTable table = table_of(vector.at("input"));
  const auto policy = fitted("h2o:recent=2:prefill=streaming:chunk=2", 4, 8);
  EXPECT_EQ(policy->prefill(), PrefillMode::kStreaming);
  EXPECT_EQ(policy->chunk(), 2);
  Replay replay(policy, table, 1);
  for (const json& row : expect.at("rows")) {
    replay.chunk(row.at("chunk").front(), row.at("chunk").back());
    EXPECT_EQ(replay.visible(), positions_of(row.at("visible_at_end")));
    EXPECT_EQ(replay.kept(), positions_of(row.at("kept")));
  }
  Replay monolithic(fitted("h2o:recent=2", 4, 8), table, 1);
  monolithic.prompt(8);
  EXPECT_EQ(monolithic.kept(), positions_of(expect.at("monolithic_kept")));
}

void expect_values(const std::vector<float>& values, const json& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], wanted[i].at("val").get<double>(), kScoreTolerance) << i;
  }
}

class SnapKvVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(SnapKvVectors, score_and_keep_as_stated) {
  const json& vector = vector_named(GetParam());
  const json& params = vector.at("params");
  const json& expect = vector.at("expect");
  const AttentionTable table = table_of(vector.at("input"));
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const std::string text = "snapkv:window=" + std::to_string(params.at("window").get<int>()) +
                           ":kernel=" + std::to_string(params.at("kernel").get<int>()) +
                           ":pool=" + params.at("pool").get<std::string>() +
                           ":gqa=" + params.value("gqa_agg", "mean") +
                           ":order=" + params.value("order", "agg_pool");
  const auto policy = fitted(text, params.at("B"), prompt_tokens);
  Replay replay(policy, table, 1);
  replay.prompt(prompt_tokens);
  EXPECT_EQ(replay.kept(), positions_of(expect.at("kept")));

  SnapKvOptions options;
  options.window = params.at("window");
  options.kernel = params.at("kernel");
  if (params.at("pool") == "max") options.pool = SnapKvOptions::Pool::kMax;
  if (params.value("gqa_agg", "mean") == "max") options.gqa = SnapKvOptions::Gqa::kMax;
  options.pool_first = params.value("order", "agg_pool") == "pool_agg";
  const auto weights = column_weights(table, policy->prompt_need(), prompt_tokens);
  expect_values(snapkv_scores(options, weights, table.n_heads, prompt_tokens), expect.at("pooled"));
  if (expect.contains("raw_score")) {
    expect_values({weights.begin(), weights.end() - options.window}, expect.at("raw_score"));
  }
}

INSTANTIATE_TEST_SUITE_P(policies, SnapKvVectors,
                         ::testing::Values("snapkv-avg", "snapkv-max", "snapkv-gqa-agg_pool",
                                           "snapkv-gqa-pool_agg", "snapkv-gqa-max"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Every vector of a registered policy is either run above or one of the two compat modes named
// there.
TEST(PolicyVectors, none_of_a_registered_policy_is_left_out) {
  const std::vector<std::string> run = {"full-1",
                                        "window-1",
                                        "streaming-1",
                                        "streaming-paper",
                                        "random-1",
                                        "h2o-sum",
                                        "h2o-mean",
                                        "h2o-recent=B",
                                        "h2o-heads",
                                        "h2o-chunked",
                                        "h2o-sim-resurrection",
                                        "tova-1head",
                                        "tova-2heads",
                                        "ties-uniform",
                                        "snapkv-avg",
                                        "snapkv-max",
                                        "snapkv-gqa-agg_pool",
                                        "snapkv-gqa-pool_agg",
                                        "snapkv-gqa-max"};
  for (const std::string& id : run) EXPECT_NO_THROW(vector_named(id));
  const std::vector<std::string> pre_timing = {"streaming-evict-for-space",
                                               "streaming-evict-for-space-overflow"};
  for (const json& vector : document().at("vectors")) {
    if (find_policy(vector.at("policy").get<std::string>()) == nullptr) continue;
    const std::string id = vector.at("id");
    EXPECT_TRUE(std::count(run.begin(), run.end(), id) == 1 ||
                std::count(pre_timing.begin(), pre_timing.end(), id) == 1)
        << id << " is not run";
  }
}

}  // namespace
}  // namespace kvscope::testing
