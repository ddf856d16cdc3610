// The vectors of policy-vectors.json through the arithmetic of budgets and scores, without a
// policy around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runner/policies/cake_scores.h"
#include "runner/policies/expected_attention_score.h"
#include "runner/policies/head_budgets.h"
#include "runner/policies/key_scores.h"
#include "runner/policies/page_scores.h"
#include "runner/policies/protect.h"
#include "runner/policies/pyramid_budgets.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using Positions = std::vector<std::int32_t>;

// Short sums of float32 terms of order one: measured error ≤ 8.1e-8.
constexpr double kFloatTolerance = 5e-7;
// Doubles from float32 inputs, which the vectors state in decimals: measured ≤ 1.8e-8.
constexpr double kDoubleTolerance = 1e-7;

const json& document() {
  static const json parsed = json::parse(std::ifstream(
      std::string(KVSCOPE_SOURCE_DIR) + "/tests/runner/policies/policy-vectors.json"));
  return parsed;
}

// At least `expected` of them, so that a renamed vector is noticed.
std::vector<json> vectors_with_prefix(const std::string& prefix, std::size_t expected) {
  std::vector<json> found;
  for (const json& vector : document().at("vectors")) {
    if (vector.at("id").get<std::string>().starts_with(prefix)) found.push_back(vector);
  }
  EXPECT_EQ(found.size(), expected) << prefix;
  return found;
}

json vector_named(const std::string& id) { return vectors_with_prefix(id, 1).at(0); }

double number(const json& value) {
  return value.is_object() ? value.at("val").get<double>() : value.get<double>();
}

std::vector<double> numbers(const json& list) {
  std::vector<double> values;
  for (const json& value : list) values.push_back(number(value));
  return values;
}

// Row-major [n][columns] → flat
std::vector<float> flat(const json& rows) {
  std::vector<float> values;
  for (const json& row : rows) {
    for (const json& value : row) values.push_back(static_cast<float>(number(value)));
  }
  return values;
}

template <class Values>
void expect_near(const Values& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
  }
}

Positions first_positions(std::size_t n) {
  Positions positions(n);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

Positions kept_by(std::span<const float> scores, const Protection& protection, int budget) {
  return keep_protected_and_best(protection, first_positions(scores.size()), scores, budget).slots;
}

// ---- PyramidKV ----------------------------------------------------------------------------------

// The official integer steps, for the side of the vectors that states them.
std::vector<int> official_pyramid(int n_layers, int budget, int window, int prompt_tokens,
                                  int beta) {
  const int prefix = budget - window;
  if (prompt_tokens < budget) return std::vector<int>(n_layers, prompt_tokens);
  if (prompt_tokens < 2 * prefix) return std::vector<int>(n_layers, budget);
  int low = prefix / beta;
  int high = 2 * prefix - low;
  if (high >= prompt_tokens - window) {
    high = prompt_tokens - window;
    low = 2 * prefix - high;
  }
  const int step = (high - low) / (n_layers - 1);
  std::vector<int> budgets;
  for (int layer = 0; layer < n_layers; ++layer) budgets.push_back(high - layer * step + window);
  return budgets;
}

TEST(ScoreVectors, PyramidBudgets) {
  for (const json& vector : vectors_with_prefix("pyramid-L", 6)) {
    SCOPED_TRACE(vector.at("id"));
    const json& params = vector.at("params");
    const int layers = params.at("layers");
    const int budget = params.at("cap_per_layer_incl_window");
    const int window = params.at("window");
    const int prompt_tokens = params.at("prompt_len");
    const json& expect = vector.at("expect");
    const auto budgets =
        pyramid_budgets(layers, budget, window, prompt_tokens, params.at("beta").get<double>());
    EXPECT_EQ(budgets, expect.at("spec").get<std::vector<int>>());
    EXPECT_EQ(std::accumulate(budgets.begin(), budgets.end(), 0),
              expect.at("spec_total").get<int>());
    const auto official =
        official_pyramid(layers, budget, window, prompt_tokens, params.at("beta"));
    EXPECT_EQ(official, expect.at("official").get<std::vector<int>>());
    EXPECT_EQ(std::accumulate(official.begin(), official.end(), 0),
              expect.at("official_total").get<int>());
  }
}

TEST(ScoreVectors, PyramidBudgetsOfKvpress) {
  for (const json& vector : vectors_with_prefix("pyramid-kvpress-", 2)) {
    SCOPED_TRACE(vector.at("id"));
    const json& params = vector.at("params");
    const int prompt_tokens = params.at("prompt_len");
    const double budget = prompt_tokens * (1.0 - params.at("compression_ratio").get<double>());
    EXPECT_EQ(pyramid_budgets_kvpress(params.at("layers"), budget, params.at("window"),
                                      prompt_tokens, params.at("beta").get<double>()),
              vector.at("expect").at("budgets").get<std::vector<int>>());
  }
}

// ---- Ada-KV -------------------------------------------------------------------------------------

struct OfficialAdaKv {
  std::vector<int> raw_counts;
  std::vector<int> capacity;
  std::vector<Positions> kept;
};

// The official rounding: global winners by head, mixed with the floor, half to even. It takes the
// global selection from alpha = 0, and each head's best from alpha = 1.
OfficialAdaKv official_adakv(std::span<const float> scores, int n_kv_heads, int base, double alpha,
                             bool normalize) {
  const auto winners =
      adakv_selection({.alpha = 0.0, .normalize = normalize}, scores, n_kv_heads, base);
  const std::size_t n_prefix = scores.size() / n_kv_heads;
  OfficialAdaKv official;
  for (int head = 0; head < n_kv_heads; ++head) {
    const auto raw = static_cast<int>(winners.kept[head].size());
    const auto capacity =
        static_cast<int>(std::nearbyint(raw * (1.0 - alpha) + std::floor(alpha * base)));
    const auto row = scores.subspan(n_prefix * head, n_prefix);
    official.raw_counts.push_back(raw);
    official.capacity.push_back(capacity);
    official.kept.push_back(adakv_selection({.alpha = 1.0}, row, 1, capacity).kept.front());
  }
  return official;
}

TEST(ScoreVectors, AdaKvSelection) {
  for (const json& vector : vectors_with_prefix("adakv-", 9)) {
    SCOPED_TRACE(vector.at("id"));
    const json& params = vector.at("params");
    const json& expect = vector.at("expect");
    const std::vector<float> scores = flat(vector.at("input").at("scores"));
    const auto heads = static_cast<int>(vector.at("input").at("scores").size());
    const int base = params.at("base_per_head_excl_window");
    const double alpha = params.at("alpha");
    const bool normalize = params.value("normalize", false);

    const HeadSelection selection =
        adakv_selection({.alpha = alpha, .normalize = normalize}, scores, heads, base);
    std::vector<int> capacity;
    for (const Positions& kept : selection.kept) capacity.push_back(static_cast<int>(kept.size()));
    EXPECT_EQ(std::accumulate(capacity.begin(), capacity.end(), 0), heads * base);
    EXPECT_EQ(selection.nan_scores, 0);
    if (expect.contains("spec_kept")) {
      EXPECT_EQ(selection.kept, expect.at("spec_kept").get<std::vector<Positions>>());
      EXPECT_EQ(capacity, expect.at("spec_capacity").get<std::vector<int>>());
    }

    const OfficialAdaKv official = official_adakv(scores, heads, base, alpha, normalize);
    EXPECT_EQ(official.raw_counts, expect.at("official_raw_counts").get<std::vector<int>>());
    EXPECT_EQ(official.capacity, expect.at("official_capacity").get<std::vector<int>>());
    EXPECT_EQ(official.kept, expect.at("official_kept").get<std::vector<Positions>>());
  }
}

// ---- CAKE ---------------------------------------------------------------------------------------

// Rows of exp(logit), of which the prefix columns are fed.
CakeWindow cake_window_of(const json& rows, int prefix) {
  CakeWindow window(1, prefix);
  for (const json& row : rows) {
    const std::vector<double> weights = numbers(row);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<float> probabilities;
    for (int i = 0; i < prefix; ++i) probabilities.push_back(static_cast<float>(weights[i] / sum));
    window.add_row(0, probabilities);
  }
  return window;
}

TEST(ScoreVectors, CakeStatisticsBudgetsAndCascade) {
  const json vector = vector_named("cake-1");
  const json& params = vector.at("params");
  const json& expect = vector.at("expect");
  const json& layers = vector.at("input").at("window_exp_logits");
  const int window = params.at("window");
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const int prefix = prompt_tokens - window;
  const CakeOptions options{.gamma = params.at("gamma"),
                            .kernel = params.at("kernel"),
                            .tau1 = params.at("tau1"),
                            .tau2 = params.at("tau2")};

  std::vector<double> preferences;
  std::vector<std::vector<float>> indicators;
  std::vector<Positions> kept;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    const CakeWindow statistics = cake_window_of(layers[layer], prefix);
    const double entropy = statistics.entropy_nats();
    EXPECT_NEAR(entropy, number(expect.at("entropy")[layer]), kDoubleTolerance);
    EXPECT_NEAR(statistics.variance(), number(expect.at("variance")[layer]), kDoubleTolerance);
    preferences.push_back(cake_preference(options, entropy, statistics.variance()));
    EXPECT_NEAR(preferences.back(), number(expect.at("preference")[layer]), kDoubleTolerance);
    indicators.push_back(statistics.indicator(options));
    expect_near(indicators.back(), numbers(expect.at("indicator_pooled")[layer]), kFloatTolerance);

    kept.push_back(first_positions(prefix));
    const auto budgets =
        cake_prefix_budgets(preferences, static_cast<int>(layers.size()),
                            params.at("B_mean_incl_window"), window, prompt_tokens);
    const json& stage = expect.at("stages").at(layer);
    ASSERT_EQ(stage.at("layers_seen"), layer + 1);
    EXPECT_EQ(budgets, stage.at("spec_budget_excl_window").get<std::vector<int>>());
    for (std::size_t seen = 0; seen <= layer; ++seen) {
      std::vector<Candidate<float>> left;
      for (const std::int32_t i : kept[seen]) left.push_back({indicators[seen][i], i, i});
      kept[seen] = top_k(left, budgets[seen]).slots;
    }
    EXPECT_EQ(kept, stage.at("kept").get<std::vector<Positions>>());
  }
  EXPECT_EQ(kept, expect.at("final_kept_prefix").get<std::vector<Positions>>());
}

TEST(ScoreVectors, CakeDecodeStep) {
  const json vector = vector_named("cake-decode");
  const json& params = vector.at("params");
  const auto t = vector.at("input").at("t").get<std::size_t>();
  const std::vector<double> weights = numbers(document().at("base").at("A").at(t));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<float> row;
  for (const double weight : weights) row.push_back(static_cast<float>(weight / sum));
  const Positions positions = vector.at("input").at("visible").get<Positions>();
  const int window = params.at("window");
  const CakeOptions options{.kernel = params.at("kernel")};

  const auto scores = cake_decode_scores(options, row, positions, 1, window);
  for (const auto& [position, score] : vector.at("expect").at("score").items()) {
    EXPECT_NEAR(scores.at(std::stoul(position)), number(score), kFloatTolerance) << position;
  }
  EXPECT_EQ(kept_by(scores, {.recent = window}, params.at("hh").get<int>() + window),
            vector.at("expect").at("kept").get<Positions>());

  // The same cache with its slots the other way round: the same score by position.
  const std::vector<float> row_reversed(row.rbegin(), row.rend());
  const Positions positions_reversed(positions.rbegin(), positions.rend());
  auto scores_reversed = cake_decode_scores(options, row_reversed, positions_reversed, 1, window);
  std::reverse(scores_reversed.begin(), scores_reversed.end());
  EXPECT_EQ(scores_reversed, scores);
}

// ---- Keys ---------------------------------------------------------------------------------------

TEST(ScoreVectors, Knorm) {
  const json vector = vector_named("knorm-1");
  const json& expect = vector.at("expect");
  const int budget = vector.at("params").at("B");
  const auto scores = knorm_scores(flat(vector.at("input").at("keys")), 2);
  expect_near(scores, numbers(expect.at("score")), kFloatTolerance);
  EXPECT_EQ(kept_by(scores, {.last = false}, budget), expect.at("kept").get<Positions>());
  EXPECT_EQ(kept_by(scores, {}, budget), expect.at("kept_protect_last").get<Positions>());
}

TEST(ScoreVectors, KeyDiff) {
  const json vector = vector_named("keydiff-1");
  const json& expect = vector.at("expect");
  const std::vector<float> keys = flat(vector.at("input").at("keys"));
  expect_near(keydiff_anchor(keys, 2), numbers(expect.at("anchor")), kFloatTolerance);
  const auto scores = keydiff_scores(keys, 2);
  expect_near(scores, numbers(expect.at("score")), kFloatTolerance);
  EXPECT_EQ(kept_by(scores, {.last = false}, vector.at("params").at("B")),
            expect.at("kept").get<Positions>());
}

// ---- Expected Attention -------------------------------------------------------------------------

TEST(ScoreVectors, ExpectedAttention) {
  for (const json& vector : vectors_with_prefix("expected-attention-", 2)) {
    SCOPED_TRACE(vector.at("id"));
    const json& params = vector.at("params");
    const json& input = vector.at("input");
    const json& expect = vector.at("expect");
    const std::vector<float> queries = flat(input.at("prerope_queries"));
    const int n_sink = params.at("n_sink");
    const ExpectedAttentionOptions options{.n_sink = n_sink,
                                           .use_covariance = params.at("use_cov"),
                                           .use_value_norm = params.at("use_vnorm"),
                                           .epsilon = params.at("epsilon")};
    const MeanRotation rotation{.cos = {number(params.at("R")[0][0])},
                                .sin = {number(params.at("R")[1][0])}};

    QueryStatistics statistics =
        query_statistics(std::span(queries).subspan(2 * n_sink), 2, /*with_covariance=*/true);
    rotate(rotation, statistics);
    expect_near(statistics.mean, numbers(expect.at("mu")), kDoubleTolerance);
    std::vector<double> covariance = numbers(expect.at("cov")[0]);
    for (const double value : numbers(expect.at("cov")[1])) covariance.push_back(value);
    expect_near(statistics.covariance, covariance, kDoubleTolerance);

    const auto scores = expected_attention_scores(
        options, rotation, queries, 1, flat(input.at("keys")), flat(input.at("values")), 2);
    const std::vector<double> expected = numbers(expect.at("score_nonsink"));
    expect_near(std::span(scores).subspan(n_sink), expected, kFloatTolerance);
    EXPECT_NEAR(scores[0], 1.0 + *std::max_element(expected.begin(), expected.end()),
                kFloatTolerance);
    EXPECT_EQ(kept_by(scores, {.last = false}, params.at("B")), expect.at("kept").get<Positions>());
  }
}

// ---- Pages --------------------------------------------------------------------------------------

TEST(ScoreVectors, PagesLeaveWhenTheNewestIsFull) {
  const json vector = vector_named("paged-eviction-1");
  const json& params = vector.at("params");
  const json& expect = vector.at("expect");
  const int budget = params.at("B");
  const auto block = params.at("block").get<std::size_t>();
  const int sink_tokens = params.at("sink_blocks").get<int>() * static_cast<int>(block);
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const auto scores = value_key_norm_ratios(flat(vector.at("input").at("keys")),
                                            flat(vector.at("input").at("values")), 2);
  EXPECT_EQ(scores, expect.at("token_score").get<std::vector<float>>());

  // The prompt is cut token by token before it is laid out in pages.
  const auto prompt_scores = std::span(scores).first(prompt_tokens);
  Positions resident =
      kept_by(prompt_scores, {.sinks = sink_tokens, .recent = static_cast<int>(block)}, budget);
  std::vector<Positions> pages;
  for (std::size_t i = 0; i < resident.size(); i += block) {
    pages.emplace_back(resident.begin() + i, resident.begin() + i + block);
  }
  for (const json& row : expect.at("rows")) {
    const std::int32_t t = row.at("t");
    SCOPED_TRACE(t);
    if (t >= prompt_tokens) {
      if (pages.back().size() == block) pages.emplace_back();
      pages.back().push_back(t);
      resident.push_back(t);
      json evicted;
      if (pages.back().size() == block && static_cast<int>(resident.size()) > budget) {
        std::vector<float> token_scores;
        Positions positions;
        Positions page_of_slot;
        for (std::size_t page = 0; page < pages.size(); ++page) {
          for (const std::int32_t position : pages[page]) {
            token_scores.push_back(scores[position]);
            positions.push_back(position);
            page_of_slot.push_back(static_cast<std::int32_t>(page));
          }
        }
        const auto victim = page_to_evict(page_scores(PageReduction::kMean, token_scores, positions,
                                                      page_of_slot, static_cast<int>(pages.size())),
                                          sink_tokens);
        ASSERT_TRUE(victim.has_value());
        evicted = pages[*victim];
        for (const std::int32_t position : pages[*victim]) std::erase(resident, position);
        pages.erase(pages.begin() + *victim);
      }
      EXPECT_EQ(evicted, row.at("evicted_page"));
      EXPECT_EQ(resident.size(), row.at("resident").get<std::size_t>());
    }
    EXPECT_EQ(pages, row.at("pages").get<std::vector<Positions>>());
  }
}

}  // namespace
}  // namespace kvscope::testing
