// minference-* of policy-vectors.json and policies.md 9.19.
#include "runner/policies/minference_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/runner/policies/random_cases.h"
#include "tests/runner/policies/vector_file.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;

// Probabilities rounded to float, sums of at most 8 of them: 8 relative errors of 6e-8.
constexpr double kFloat = 1e-6;

// [n_rows][n] of the last rows, softmax of e^logit rows.
std::vector<float> last_probabilities(const std::vector<std::vector<double>>& exp_logits,
                                      int n_rows) {
  const int n = int(exp_logits.size());
  std::vector<float> probabilities;
  for (int t = n - n_rows; t < n; ++t) {
    double sum = 0;
    for (const double weight : exp_logits[t]) sum += weight;
    for (const double weight : exp_logits[t]) probabilities.push_back(float(weight / sum));
    probabilities.resize(std::size_t(t - n + n_rows + 1) * n);
  }
  return probabilities;
}

void expect_mask(const PrefillIndex& index, const json& mask) {
  ASSERT_EQ(index.n_tokens(), int(mask.size()));
  for (int t = 0; t < index.n_tokens(); ++t) {
    std::vector<int> row(mask.size(), 0);
    for (const int column : allowed_columns(index, t)) row[column] = 1;
    EXPECT_EQ(row, mask[t].get<std::vector<int>>()) << "row " << t;
  }
}

TEST(MinferenceVectors, minference_vs) {
  const json& vector = policy_vector("minference-vs");
  const json& given = vector.at("params");
  const json& expect = vector.at("expect");
  const VerticalSlashParams params{.n_vertical = given.at("n_vertical"),
                                   .n_slash = given.at("n_slash"),
                                   .min_vertical = 0,
                                   .min_slash = 0,
                                   .force_vertical = given.at("force_vertical"),
                                   .force_slash = given.at("force_slash"),
                                   .last_queries = given.at("last_q")};
  const auto rows = exp_logits(vector.at("input"));
  const int n = vector.at("input").at("n");
  const std::vector<float> last = last_probabilities(rows, params.last_queries);

  const VerticalSlashScores scores = vertical_slash_scores(last, n);
  for (int i = 0; i < n; ++i) {
    const std::string at = std::to_string(i);
    EXPECT_NEAR(scores.vertical[i], expect.at("vertical_score").at(at).at("val"), kFloat) << at;
    EXPECT_NEAR(scores.slash[i], expect.at("slash_score").at(at).at("val"), kFloat) << at;
  }
  const VerticalSlashChoice choice = choose_vertical_slash(scores, params);
  EXPECT_EQ(choice.columns, expect.at("vertical").get<std::vector<int>>());
  EXPECT_EQ(choice.offsets, expect.at("slash_offsets").get<std::vector<int>>());

  const VerticalSlashIndex index = vertical_slash_index(last, n, params);
  expect_mask(index, expect.at("mask"));
  const std::vector<float> all = last_probabilities(rows, n);
  int allowed = 0;
  for (int t = 0; t < n; ++t) {
    const std::span<const float> row = std::span(all).subspan(std::size_t(t) * n, n);
    EXPECT_NEAR(row_recall(index, t, row), expect.at("row_recall")[t].at("val"), kFloat) << t;
    for (const json& entry : expect.at("mask")[t]) allowed += entry.get<int>();
  }
  EXPECT_DOUBLE_EQ(density(index), allowed / 36.0);
}

TEST(MinferenceVectors, minference_ashape) {
  const json& vector = policy_vector("minference-ashape");
  const json& params = vector.at("params");
  expect_mask(a_shape_index(vector.at("input").at("n"), params.at("n_init"), params.at("n_local")),
              vector.at("expect").at("mask"));
}

TEST(MinferenceVectors, minference_block) {
  const json& vector = policy_vector("minference-block");
  const json& expect = vector.at("expect");
  std::vector<float> queries;
  std::vector<float> keys;
  for (const json& row : vector.at("input").at("Q"))
    queries.insert(queries.end(), {row[0], row[1]});
  for (const json& row : vector.at("input").at("K")) keys.insert(keys.end(), {row[0], row[1]});
  BlockSparseParams params{.block_tokens = vector.at("params").at("block"),
                           .top_blocks = vector.at("params").at("topk_blocks")};

  const std::vector<double> scores = block_scores(queries, keys, 2, params.block_tokens);
  const int n_blocks = int(expect.at("pooled_scores").size());
  for (int q = 0; q < n_blocks; ++q) {
    for (int k = 0; k <= q; ++k) {
      EXPECT_DOUBLE_EQ(scores[std::size_t(q) * n_blocks + k], expect.at("pooled_scores")[q][k]);
    }
  }
  for (const bool force_diagonal : {true, false}) {
    params.force_diagonal = force_diagonal;
    const BlockSparseIndex index = block_sparse_index(queries, keys, 2, params);
    for (int q = 0; q < n_blocks; ++q) {
      EXPECT_EQ(index.key_blocks(q),
                expect.at(force_diagonal ? "selected_force_diag" : "selected_official")[q]
                    .get<std::vector<int>>());
    }
  }
}

TEST(VerticalSlash, counts_are_raised_to_their_minimum_and_forced_ones_come_first) {
  VerticalSlashScores scores{{0, 0, 0, 9, 8, 7}, {0, 0, 0, 9, 8, 7}};
  VerticalSlashParams params{.n_vertical = 1,
                             .n_slash = 1,
                             .min_vertical = 3,
                             .min_slash = 2,
                             .force_vertical = 2,
                             .force_slash = 4};
  const VerticalSlashChoice choice = choose_vertical_slash(scores, params);
  EXPECT_EQ(choice.columns, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(choice.offsets, (std::vector<int>{0, 1}));
}

TEST(VerticalSlash, of_equals_the_newer_column_and_the_smaller_offset_win) {
  const VerticalSlashScores scores{{1, 1, 1, 1}, {1, 1, 1, 1}};
  const VerticalSlashChoice choice = choose_vertical_slash(scores, {.n_vertical = 2,
                                                                    .n_slash = 2,
                                                                    .min_vertical = 0,
                                                                    .min_slash = 0,
                                                                    .force_vertical = 0,
                                                                    .force_slash = 0});
  EXPECT_EQ(choice.columns, (std::vector<int>{2, 3}));
  EXPECT_EQ(choice.offsets, (std::vector<int>{0, 1}));
}

TEST(VerticalSlash, an_offset_is_a_band_at_the_granularity_of_kernels) {
  const std::vector<int> columns = {0};
  const std::vector<int> offsets = {5};
  const VerticalSlashIndex index(16, columns, offsets, 4);
  // Rows 8 … 11 share keys 3 … 6; the diagonal band is 8 … 11.
  EXPECT_EQ(allowed_columns(index, 8), (std::vector<int>{0, 3, 4, 5, 6, 8}));
  EXPECT_EQ(allowed_columns(index, 11), (std::vector<int>{0, 3, 4, 5, 6, 8, 9, 10, 11}));
  EXPECT_EQ(allowed_columns(index, 5), (std::vector<int>{0, 1, 2, 4, 5}));
}

TEST(BlockSparse, the_last_block_is_the_mean_of_its_own_tokens) {
  const std::vector<float> queries = {1, 1, 1};
  const std::vector<float> keys = {1, 3, 5};
  EXPECT_EQ(block_scores(queries, keys, 1, 2), (std::vector<double>{2, 0, 2, 5}));
}

TEST(MinferenceIndex, refuses_what_does_not_fit) {
  const std::vector<float> seven(7, 0.1F);
  EXPECT_THROW(vertical_slash_scores(seven, 4), std::invalid_argument);
  EXPECT_THROW(vertical_slash_index(seven, 7, {}), std::invalid_argument);  // one row of seven
  EXPECT_THROW(block_scores(seven, seven, 2, 2), std::invalid_argument);
  EXPECT_THROW(block_sparse_index(seven, seven, 1, {.top_blocks = 0}), std::invalid_argument);
  EXPECT_THROW(a_shape_index(4, 1, 1, 0), std::invalid_argument);
}

// Sum of 90 float probabilities in double.
constexpr double kRecallRounding = 1e-12;

struct RandomPrefill {
  int n = 0;
  int head_dim = 3;
  std::vector<float> queries;        // [n][head_dim]
  std::vector<float> keys;           // [n][head_dim]
  std::vector<float> probabilities;  // [n][n]

  explicit RandomPrefill(Random& random) : n(random.between(1, 90)) {
    for (int i = 0; i < n * head_dim; ++i) {
      queries.push_back(float(4 * random.uniform() - 2));
      keys.push_back(float(4 * random.uniform() - 2));
    }
    std::vector<std::vector<double>> rows(n);
    for (int t = 0; t < n; ++t) {
      for (int i = 0; i <= t; ++i) {
        double logit = 0;
        for (int j = 0; j < head_dim; ++j) {
          logit += queries[t * head_dim + j] * keys[i * head_dim + j];
        }
        rows[t].push_back(std::exp(logit / std::sqrt(head_dim)));
      }
    }
    probabilities = last_probabilities(rows, n);
  }
  std::span<const float> row(int t) const {
    return std::span(probabilities).subspan(std::size_t(t) * n, n);
  }
  std::span<const float> last(int rows) const {
    return std::span(probabilities).last(std::size_t(std::min(rows, n)) * n);
  }
};

void expect_sound(const PrefillIndex& index) {
  std::vector<KeyRange> ranges;
  for (int t = 0; t < index.n_tokens(); ++t) {
    index.key_ranges(t, ranges);
    ASSERT_FALSE(ranges.empty());
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      EXPECT_LT(ranges[r].begin, ranges[r].end);
      EXPECT_GT(ranges[r].begin, r == 0 ? -1 : ranges[r - 1].end);
    }
    EXPECT_EQ(ranges.back().end, t + 1);  // causal, and the diagonal is in it
  }
  EXPECT_GT(density(index), 0);
  EXPECT_LE(density(index), 1);
}

TEST(MinferenceProperties, item_19_causal_with_the_diagonal_and_recall_grows_with_granularity) {
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const RandomPrefill p(random);
    const VerticalSlashParams params{.n_vertical = random.between(0, p.n),
                                     .n_slash = random.between(0, p.n),
                                     .min_vertical = 0,
                                     .min_slash = 0,
                                     .force_vertical = random.between(0, 3),
                                     .force_slash = random.between(0, 3),
                                     .last_queries = random.between(1, 64)};
    const auto last = p.last(params.last_queries);
    const VerticalSlashIndex fine = vertical_slash_index(last, p.n, params);
    const VerticalSlashIndex coarse = vertical_slash_index(last, p.n, params, 64);
    const int n_init = random.between(0, p.n);
    const int n_local = random.between(1, p.n);
    const VerticalSlashIndex a_shape = a_shape_index(p.n, n_init, n_local);
    const BlockSparseIndex blocks = block_sparse_index(
        p.queries, p.keys, p.head_dim,
        {.block_tokens = random.between(1, 20), .top_blocks = random.between(1, 4)});
    for (const PrefillIndex* index :
         {static_cast<const PrefillIndex*>(&fine), static_cast<const PrefillIndex*>(&coarse),
          static_cast<const PrefillIndex*>(&a_shape), static_cast<const PrefillIndex*>(&blocks)}) {
      expect_sound(*index);
    }
    const VerticalSlashChoice choice =
        choose_vertical_slash(vertical_slash_scores(last, p.n), params);
    for (int t = 0; t < p.n; ++t) {
      std::vector<int> by_offset;
      std::vector<int> by_definition;
      for (int i = 0; i <= t; ++i) {
        if (i < n_init || t - i < n_local) by_definition.push_back(i);
        if (std::ranges::binary_search(choice.columns, i) ||
            std::ranges::binary_search(choice.offsets, t - i)) {
          by_offset.push_back(i);
        }
      }
      EXPECT_EQ(allowed_columns(fine, t), by_offset);
      EXPECT_EQ(allowed_columns(a_shape, t), by_definition);
      EXPECT_TRUE(std::ranges::includes(allowed_columns(coarse, t), by_offset));
      const double recall = row_recall(fine, t, p.row(t));
      EXPECT_GE(row_recall(coarse, t, p.row(t)), recall - kRecallRounding);
      EXPECT_LE(recall, 1 + kFloat);
    }
    EXPECT_GE(density(coarse), density(fine));
  }
}

TEST(MinferenceProperties, item_19_dense_when_everything_fits) {
  for (int seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const RandomPrefill p(random);
    VerticalSlashParams verticals{.n_vertical = p.n, .n_slash = 0, .min_slash = 0};
    VerticalSlashParams slashes{.n_vertical = 0, .n_slash = p.n, .min_vertical = 0};
    EXPECT_EQ(density(vertical_slash_index(p.last(64), p.n, verticals)), 1);
    EXPECT_EQ(density(vertical_slash_index(p.last(64), p.n, slashes)), 1);
    EXPECT_EQ(density(a_shape_index(p.n, 0, p.n)), 1);
    EXPECT_EQ(density(a_shape_index(p.n, p.n, 1)), 1);
    EXPECT_EQ(density(block_sparse_index(p.queries, p.keys, p.head_dim, {})), 1);
  }
}

}  // namespace
}  // namespace kvscope::testing
