#include "runner/policies/minference_index.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>

#include "runner/policies/top_k.h"

namespace kvscope {
namespace {

std::vector<KeyRange> runs_of(std::span<const int> ascending) {
  std::vector<KeyRange> runs;
  for (const int value : ascending) {
    if (!runs.empty() && runs.back().end == value) {
      ++runs.back().end;
    } else {
      runs.push_back({value, value + 1});
    }
  }
  return runs;
}

// Ranges come by ascending begin; what is outside 0 … limit - 1 is cut off.
void append_range(KeyRange range, int limit, std::vector<KeyRange>& ranges) {
  range.begin = std::max(range.begin, 0);
  range.end = std::min(range.end, limit);
  if (range.begin >= range.end) return;
  if (!ranges.empty() && range.begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, range.end);
  } else {
    ranges.push_back(range);
  }
}

std::vector<int> first_values(int n) {
  std::vector<int> values(std::size_t(std::max(n, 0)));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// The first n_forced indices, then those with the best scores, n in all; ascending. Of equals the
// larger index wins, or the smaller.
std::vector<int> top_with_forced(std::span<const double> scores, int n, int n_forced,
                                 bool prefer_larger) {
  const int n_scores = int(scores.size());
  n_forced = std::min({n_forced, n, n_scores});
  std::vector<int> chosen = first_values(n_forced);
  std::vector<Candidate<float>> others;
  for (int i = n_forced; i < n_scores; ++i) {
    others.push_back({float(scores[std::size_t(i)]), prefer_larger ? i : -i, i});
  }
  const std::vector<std::int32_t> best = top_k(std::move(others), n - n_forced).slots;
  chosen.insert(chosen.end(), best.begin(), best.end());
  return chosen;
}

int block_count(int n_tokens, int block_tokens) {
  return (n_tokens + block_tokens - 1) / block_tokens;
}

// [n_blocks][head_dim] means of [n_tokens][head_dim]
std::vector<double> block_means(std::span<const float> rows, int head_dim, int block_tokens) {
  const auto width = std::size_t(head_dim);
  const int n_tokens = int(rows.size() / width);
  std::vector<double> means(std::size_t(block_count(n_tokens, block_tokens)) * width, 0.0);
  for (int token = 0; token < n_tokens; ++token) {
    const int block = token / block_tokens;
    const int size = std::min(block_tokens, n_tokens - block * block_tokens);
    for (std::size_t j = 0; j < width; ++j) {
      means[std::size_t(block) * width + j] += double(rows[std::size_t(token) * width + j]) / size;
    }
  }
  return means;
}

}  // namespace

std::vector<int> allowed_columns(const PrefillIndex& index, int row) {
  std::vector<KeyRange> ranges;
  index.key_ranges(row, ranges);
  std::vector<int> columns;
  for (const KeyRange& range : ranges) {
    for (int column = range.begin; column < range.end; ++column) columns.push_back(column);
  }
  return columns;
}

double density(const PrefillIndex& index) {
  std::vector<KeyRange> ranges;
  std::int64_t allowed = 0;
  for (int row = 0; row < index.n_tokens(); ++row) {
    index.key_ranges(row, ranges);
    for (const KeyRange& range : ranges) allowed += range.end - range.begin;
  }
  const std::int64_t n = index.n_tokens();
  return n == 0 ? 1.0 : double(allowed) / double(n * (n + 1) / 2);
}

double row_recall(const PrefillIndex& index, int row, std::span<const float> probabilities) {
  std::vector<KeyRange> ranges;
  index.key_ranges(row, ranges);
  double recall = 0;
  for (const KeyRange& range : ranges) {
    for (int column = range.begin; column < range.end; ++column) {
      recall += double(probabilities[std::size_t(column)]);
    }
  }
  return recall;
}

VerticalSlashIndex::VerticalSlashIndex(int n_tokens, std::span<const int> columns,
                                       std::span<const int> offsets, int granularity)
    : PrefillIndex(n_tokens), granularity_(granularity), columns_(runs_of(columns)) {
  if (granularity < 1) throw std::invalid_argument("vertical-slash: granularity is below 1");
  std::vector<int> with_diagonal(offsets.begin(), offsets.end());
  if (offsets.empty() || offsets.front() != 0) with_diagonal.insert(with_diagonal.begin(), 0);
  offsets_ = runs_of(with_diagonal);
}

void VerticalSlashIndex::key_ranges(int row, std::vector<KeyRange>& ranges) const {
  ranges.clear();
  const int block_start = row / granularity_ * granularity_;
  auto column = columns_.begin();
  // Large offsets lie at small keys.
  for (auto run = offsets_.rbegin(); run != offsets_.rend(); ++run) {
    const KeyRange slash{block_start - run->end + 1, block_start - run->begin + granularity_};
    for (; column != columns_.end() && column->begin < slash.begin; ++column) {
      append_range(*column, row + 1, ranges);
    }
    append_range(slash, row + 1, ranges);
  }
  for (; column != columns_.end() && column->begin <= row; ++column) {
    append_range(*column, row + 1, ranges);
  }
}

VerticalSlashIndex a_shape_index(int n_tokens, int n_init, int n_local, int granularity) {
  return {n_tokens, first_values(std::min(n_init, n_tokens)),
          first_values(std::min(n_local, n_tokens)), granularity};
}

VerticalSlashScores vertical_slash_scores(std::span<const float> probabilities, int n_tokens) {
  const auto width = std::size_t(n_tokens);
  if (n_tokens < 1 || probabilities.size() % width != 0 || probabilities.size() / width > width) {
    throw std::invalid_argument("vertical-slash: " + std::to_string(probabilities.size()) +
                                " probabilities are not rows of " + std::to_string(n_tokens));
  }
  const std::size_t n_rows = probabilities.size() / width;
  VerticalSlashScores scores{std::vector<double>(width, 0.0), std::vector<double>(width, 0.0)};
  for (std::size_t r = 0; r < n_rows; ++r) {
    const std::size_t row = width - n_rows + r;
    for (std::size_t column = 0; column <= row; ++column) {
      const double probability = probabilities[r * width + column];
      scores.vertical[column] += probability;
      scores.slash[row - column] += probability;
    }
  }
  return scores;
}

VerticalSlashChoice choose_vertical_slash(const VerticalSlashScores& scores,
                                          const VerticalSlashParams& params) {
  const int n_vertical = std::max(params.n_vertical, params.min_vertical);
  const int n_slash = std::max({params.n_slash, params.min_slash, 1});
  return {top_with_forced(scores.vertical, n_vertical, params.force_vertical, true),
          top_with_forced(scores.slash, n_slash, std::max(params.force_slash, 1), false)};
}

VerticalSlashIndex vertical_slash_index(std::span<const float> probabilities, int n_tokens,
                                        const VerticalSlashParams& params, int granularity) {
  const auto n_rows = std::size_t(std::min(params.last_queries, n_tokens));
  if (probabilities.size() != n_rows * std::size_t(n_tokens)) {
    throw std::invalid_argument("vertical-slash: " + std::to_string(probabilities.size()) +
                                " probabilities, not " + std::to_string(n_rows) + " rows of " +
                                std::to_string(n_tokens));
  }
  const VerticalSlashChoice choice =
      choose_vertical_slash(vertical_slash_scores(probabilities, n_tokens), params);
  return {n_tokens, choice.columns, choice.offsets, granularity};
}

BlockSparseIndex::BlockSparseIndex(int n_tokens, int block_tokens,
                                   std::vector<std::vector<int>> key_blocks)
    : PrefillIndex(n_tokens), block_tokens_(block_tokens), key_blocks_(std::move(key_blocks)) {
  if (block_tokens < 1 || std::ssize(key_blocks_) != block_count(n_tokens, block_tokens)) {
    throw std::invalid_argument("block-sparse: " + std::to_string(key_blocks_.size()) +
                                " blocks of " + std::to_string(block_tokens) + " are not " +
                                std::to_string(n_tokens) + " tokens");
  }
}

void BlockSparseIndex::key_ranges(int row, std::vector<KeyRange>& ranges) const {
  ranges.clear();
  for (const int block : key_blocks(row / block_tokens_)) {
    append_range({block * block_tokens_, (block + 1) * block_tokens_}, row + 1, ranges);
  }
}

std::vector<double> block_scores(std::span<const float> queries, std::span<const float> keys,
                                 int head_dim, int block_tokens) {
  if (head_dim < 1 || block_tokens < 1 || queries.size() != keys.size() ||
      queries.size() % std::size_t(head_dim) != 0) {
    throw std::invalid_argument("block-sparse: queries and keys are not rows of head_dim " +
                                std::to_string(head_dim) + ", in blocks of " +
                                std::to_string(block_tokens));
  }
  const auto width = std::size_t(head_dim);
  const std::vector<double> query_means = block_means(queries, head_dim, block_tokens);
  const std::vector<double> key_means = block_means(keys, head_dim, block_tokens);
  const std::size_t n_blocks = query_means.size() / width;
  std::vector<double> scores(n_blocks * n_blocks, 0.0);
  for (std::size_t q = 0; q < n_blocks; ++q) {
    for (std::size_t k = 0; k <= q; ++k) {
      const double* query = query_means.data() + q * width;
      scores[q * n_blocks + k] =
          std::inner_product(query, query + width, key_means.data() + k * width, 0.0);
    }
  }
  return scores;
}

BlockSparseIndex block_sparse_index(std::span<const float> queries, std::span<const float> keys,
                                    int head_dim, const BlockSparseParams& params) {
  if (params.top_blocks < 1) throw std::invalid_argument("block-sparse: top_blocks is below 1");
  const std::vector<double> scores = block_scores(queries, keys, head_dim, params.block_tokens);
  const int n_tokens = int(queries.size() / std::size_t(head_dim));
  const int n_blocks = block_count(n_tokens, params.block_tokens);
  std::vector<std::vector<int>> key_blocks;
  for (int q = 0; q < n_blocks; ++q) {
    const int n_others = params.force_diagonal ? q : q + 1;
    std::vector<Candidate<float>> candidates;
    for (int k = 0; k < n_others; ++k) {
      candidates.push_back({float(scores[std::size_t(q) * std::size_t(n_blocks) + k]), k, k});
    }
    const int n_wanted = params.force_diagonal ? params.top_blocks - 1 : params.top_blocks;
    key_blocks.push_back(top_k(std::move(candidates), n_wanted).slots);
    if (params.force_diagonal) key_blocks.back().push_back(q);
  }
  return {n_tokens, params.block_tokens, std::move(key_blocks)};
}

}  // namespace kvscope
