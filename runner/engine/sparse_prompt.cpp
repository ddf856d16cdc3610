#include "runner/engine/sparse_prompt.h"

#include <algorithm>

#include "runner/engine/rope_table.h"

namespace kvscope {
namespace {

constexpr int kIndexRows = 64;

// [n_rows][head_dim] of one head of every row, turned to its position.
std::vector<float> rotated_head(const AttentionShape& shape, const RopeTable& rope,
                                const float* qkv, int n_rows, int first) {
  const int d = shape.head_dim;
  std::vector<float> rows(std::size_t(n_rows) * d);
  for (int u = 0; u < n_rows; ++u)
    rotate_to(rope, qkv + u * shape.row_floats() + first, u, rows.data() + std::size_t(u) * d);
  return rows;
}

}  // namespace

void attend_sparse_prompt(Backend& backend, const AttentionShape& shape, const RopeTable& rope,
                          const SparsePrefill& sparse, HeadCache* heads, const float* qkv,
                          int n_rows, float* out, float* lse, SparseMeasure& measure) {
  backend.attend_dense(shape, rope, {heads, qkv, out, n_rows, 0, lse});
  const int first = std::max(0, n_rows - kIndexRows);
  std::vector<float> last(std::size_t(n_rows - first) * shape.n_heads * n_rows);
  backend.attention_rows(shape, rope,
                         {heads, qkv, lse, n_rows, first, n_rows - first, last.data()});
  backend.sync();  // projections are read
  std::vector<std::unique_ptr<PrefillIndex>> index(shape.n_heads);
  bool everything = true;
  for (int h = 0; h < shape.n_heads; ++h) {
    std::vector<float> rows;  // [n_rows - first][n_rows] of this head
    for (int u = first; u < n_rows; ++u) {
      const float* row = last.data() + (std::size_t(u - first) * shape.n_heads + h) * n_rows;
      rows.insert(rows.end(), row, row + n_rows);
    }
    switch (sparse.pattern) {
      case SparsePrefill::Pattern::kAShape:
        index[h] = std::make_unique<VerticalSlashIndex>(
            a_shape_index(n_rows, sparse.n_init, sparse.n_local));
        break;
      case SparsePrefill::Pattern::kVerticalSlash:
        index[h] = std::make_unique<VerticalSlashIndex>(vertical_slash_index(
            rows, n_rows, {.n_vertical = sparse.n_vertical, .n_slash = sparse.n_slash},
            sparse.granularity));
        break;
      case SparsePrefill::Pattern::kBlockSparse: {
        const int d = shape.head_dim;
        const std::vector<float> queries = rotated_head(shape, rope, qkv, n_rows, h * d);
        const std::vector<float> keys =
            rotated_head(shape, rope, qkv, n_rows, (shape.n_heads + h / shape.group()) * d);
        index[h] = std::make_unique<BlockSparseIndex>(
            block_sparse_index(queries, keys, d, {.top_blocks = sparse.top_blocks}));
        break;
      }
    }
    const double share = density(*index[h]);
    everything = everything && share == 1.0;
    measure.density_sum += share;
    double recall = 0.0;
    for (int u = first; u < n_rows; ++u) {
      recall += row_recall(*index[h], u,
                           std::span(rows).subspan(std::size_t(u - first) * n_rows, n_rows));
    }
    measure.recall_sum += recall / (n_rows - first);
    ++measure.n_heads;
  }
  if (!everything) backend.attend_sparse(shape, rope, {heads, qkv, out, n_rows, index});
}

}  // namespace kvscope
