// MInference: which keys a prompt's rows attend to (Jiang et al., NeurIPS 2024, arXiv:2407.02490;
// policies.md 5). Not an eviction: all K and V are stored, decode is dense.
//
//   A-shape(n_init, n_local)  : keys j < n_init or i - j < n_local
//   vertical-slash(nv, ns)    : the nv columns and ns offsets i - j with the largest sums of the
//                               attention of the last 64 rows
//   block-sparse(k)           : for each block of 64 queries the k blocks of keys with the largest
//                               mean(q)·mean(k), unscaled
//
// Needs: the attention probabilities of the last rows (vertical-slash), or post-RoPE Q and K
// (block-sparse), of one query head.
//
// State: none; the index lives as long as the prefill.
//
// Deviations: the diagonal is always in an A-shape and in vertical-slash, and by default the
// diagonal block in block-sparse (the official kernel does not force it); the last block's mean is
// over its own tokens (the official one pads). granularity = 1 is the definition; 64 is what
// kernels do: each offset becomes a diagonal band of 64 × 64 blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

struct KeyRange {
  int begin = 0;
  int end = 0;  // one past the last
  bool operator==(const KeyRange&) const = default;
};

// Keys of each row of an n_tokens × n_tokens causal prefill.
class PrefillIndex {
 public:
  explicit PrefillIndex(int n_tokens) : n_tokens_(n_tokens) {}
  virtual ~PrefillIndex() = default;

  int n_tokens() const { return n_tokens_; }

  // Replaces `ranges` by the keys of a row: ascending, with gaps between them, none beyond the row,
  // at least one.
  virtual void key_ranges(int row, std::vector<KeyRange>& ranges) const = 0;

 private:
  int n_tokens_;
};

// The same as columns, ascending.
std::vector<int> allowed_columns(const PrefillIndex& index, int row);

// Share of the causal entries that the index has, in (0, 1]; 1 for no tokens.
double density(const PrefillIndex& index);

// Share of a dense row's attention that falls on the index. probabilities: [>= row + 1]
double row_recall(const PrefillIndex& index, int row, std::span<const float> probabilities);

// Columns and offsets i - j (0 is always among them), as runs of neighbours.
class VerticalSlashIndex : public PrefillIndex {
 public:
  // columns, offsets: ascending, distinct, >= 0. granularity g: the rows of a block m … m + g - 1
  // share for each offset s the keys m - s … m - s + g - 1.
  VerticalSlashIndex(int n_tokens, std::span<const int> columns, std::span<const int> offsets,
                     int granularity = 1);
  void key_ranges(int row, std::vector<KeyRange>& ranges) const override;

 private:
  int granularity_;
  std::vector<KeyRange> columns_;  // runs, ascending
  std::vector<KeyRange> offsets_;  // runs, ascending
};

VerticalSlashIndex a_shape_index(int n_tokens, int n_init, int n_local, int granularity = 1);

struct VerticalSlashParams {
  int n_vertical = 1000;
  int n_slash = 6096;
  int min_vertical = 30;    // n_vertical is raised to it
  int min_slash = 50;       // n_slash is raised to it
  int force_vertical = 30;  // the first columns come first, whatever they score
  int force_slash = 100;    // the smallest offsets likewise; offset 0 always
  int last_queries = 64;    // rows that are looked at
};

struct VerticalSlashScores {
  std::vector<double> vertical;  // [n_tokens] column sums
  std::vector<double> slash;     // [n_tokens] sums along the offset i - j
};

struct VerticalSlashChoice {
  std::vector<int> columns;  // ascending
  std::vector<int> offsets;  // ascending
};

// probabilities: [n_rows][n_tokens] of the last n_rows rows; what lies beyond a row is not read.
VerticalSlashScores vertical_slash_scores(std::span<const float> probabilities, int n_tokens);

// Of equal columns the newer, of equal offsets the smaller.
VerticalSlashChoice choose_vertical_slash(const VerticalSlashScores& scores,
                                          const VerticalSlashParams& params);

// Scores, choice and index at once. probabilities: [min(last_queries, n_tokens)][n_tokens]
VerticalSlashIndex vertical_slash_index(std::span<const float> probabilities, int n_tokens,
                                        const VerticalSlashParams& params, int granularity = 1);

class BlockSparseIndex : public PrefillIndex {
 public:
  // key_blocks: for each block of queries its blocks of keys, ascending, distinct, none beyond it,
  // at least one
  BlockSparseIndex(int n_tokens, int block_tokens, std::vector<std::vector<int>> key_blocks);
  void key_ranges(int row, std::vector<KeyRange>& ranges) const override;
  const std::vector<int>& key_blocks(int query_block) const { return key_blocks_[query_block]; }

 private:
  int block_tokens_;
  std::vector<std::vector<int>> key_blocks_;  // [n_blocks]
};

struct BlockSparseParams {
  int block_tokens = 64;
  int top_blocks = 100;        // >= 1, the diagonal block included
  bool force_diagonal = true;  // false: the official kernel
};

// mean(q)·mean(k) of each query block with the key blocks up to its own: [n_blocks][n_blocks], only
// the lower triangle is set. queries, keys: [n_tokens][head_dim]
std::vector<double> block_scores(std::span<const float> queries, std::span<const float> keys,
                                 int head_dim, int block_tokens);

// Of equal blocks the newer.
BlockSparseIndex block_sparse_index(std::span<const float> queries, std::span<const float> keys,
                                    int head_dim, const BlockSparseParams& params);

}  // namespace kvscope
