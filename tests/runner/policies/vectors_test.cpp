// The vectors of policy-vectors.json through the real policy code, and the scores behind those that
// a state does not show.
#include "runner/conform/vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/conform/vector_tools.h"
#include "runner/policies/rule_state.h"
#include "runner/policies/snapkv.h"

namespace kvscope::conform {
namespace {

// Scores are sums of at most eight float32 terms below 4: measured error ≤ 2e-7.
constexpr double kScoreTolerance = 1e-6;

class PolicyVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(PolicyVectors, are_as_stated) {
  for (const VectorResult& vector : run_vectors(GetParam()))
    EXPECT_EQ(vector.failure, "") << vector.id;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(registry, PolicyVectors, ::testing::ValuesIn(policy_names()),
                         [](const auto& info) { return info.param; });

TEST(RandomVector, priorities_are_the_stated_ones) {
  const Json& expect = vector_named("random-1").at("expect").at("priority_hex");
  EXPECT_EQ(expect.size(), 8U);
  for (const auto& [position, hex] : expect.items()) {
    EXPECT_EQ(static_priority(1234, {0, 0}, std::stoi(position)),
              std::stoull(hex.get<std::string>(), nullptr, 16));
  }
}

// streaming_llm ranks what is visible, in stream and after a prompt.
TEST(StreamingVectors, positions_within_the_cache_are_ranks) {
  for (const char* id : {"streaming-1", "streaming-paper"}) {
    const Json& expect = vector_named(id).at("expect");
    const auto check = [&](const Json& step, const char* ranks) {
      Positions wanted(step.at("visible").size());
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int32_t>(i);
      EXPECT_EQ(step.at(ranks).get<Positions>(), wanted) << id;
      EXPECT_EQ(step.at("query_cache_position").get<int>(), wanted.back()) << id;
    };
    if (!expect.contains("steps")) {
      check(expect, "cache_positions");
      continue;
    }
    for (const Json& step : expect.at("steps")) check(step, "cache_positions_when_attending");
  }
}

void expect_values(const std::vector<float>& values, const Json& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], wanted[i].at("val").get<double>(), kScoreTolerance) << i;
  }
}

class SnapKvVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(SnapKvVectors, score_as_stated) {
  const Json& vector = vector_named(GetParam());
  const Json& params = vector.at("params");
  const SyntheticLayer layer = layer_of(vector.at("input"));
  const int prompt_tokens = vector.at("input").at("prompt_len");
  SnapKvOptions options;
  options.window = params.at("window");
  options.kernel = params.at("kernel");
  if (params.at("pool") == "max") options.pool = SnapKvOptions::Pool::kMax;
  if (params.value("gqa_agg", "mean") == "max") options.gqa = SnapKvOptions::Gqa::kMax;
  options.pool_first = params.value("order", "agg_pool") == "pool_agg";
  const PromptNeed need{.rows = PromptNeed::Rows::kLast, .last_rows = options.window, .mean = true};
  const auto weights = column_weights(layer.table, need, prompt_tokens);
  expect_values(snapkv_scores(options, weights, layer.table.n_heads, prompt_tokens),
                vector.at("expect").at("pooled"));
  if (vector.at("expect").contains("raw_score")) {
    expect_values({weights.begin(), weights.end() - options.window},
                  vector.at("expect").at("raw_score"));
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

}  // namespace
}  // namespace kvscope::conform
