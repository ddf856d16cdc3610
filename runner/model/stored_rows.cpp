#include "runner/model/stored_rows.h"

namespace kvscope {
namespace {

// Where dimension i of a head is stored: the pair (2i, 2i+1) as (i, i + n/2) of the n that turn.
int turned(int i, const ModelConfig& c) {
  const int n = c.rotary_dim > 0 ? c.rotary_dim : c.head_dim;
  if (i >= n) return i;
  return i / 2 + (i % 2) * (n / 2);
}

}  // namespace

std::vector<std::int32_t> stored_rows(StoredRows kind, int n_out, const ModelConfig& c) {
  if (kind == StoredRows::kAll) return {};
  const int d = c.head_dim;
  const int d_query = c.n_heads * d;
  const int d_kv = c.n_kv_heads * d;
  const auto row = [&](int i) {
    const int head = i / d;
    const int within = i % d;
    switch (kind) {
      case StoredRows::kAll:
        break;
      case StoredRows::kTurned:
      case StoredRows::kStackedQuery:
        return head * d + turned(within, c);
      case StoredRows::kStackedKey:
        return d_query + head * d + turned(within, c);
      case StoredRows::kStackedValue:
        return d_query + d_kv + i;
      case StoredRows::kHeadQuery:
        return 3 * head * d + turned(within, c);
      case StoredRows::kHeadKey:
        return (3 * head + 1) * d + turned(within, c);
      case StoredRows::kHeadValue:
        return (3 * head + 2) * d + within;
      case StoredRows::kFirstHalf:
        return i;
      case StoredRows::kSecondHalf:
        return n_out + i;
      case StoredRows::kAfterTwo:
        return i + 2;
    }
    return i;
  };
  std::vector<std::int32_t> rows(static_cast<std::size_t>(n_out));
  for (int i = 0; i < n_out; ++i) rows[static_cast<std::size_t>(i)] = row(i);
  return rows;
}

int stored_out(StoredRows kind, int n_out, const ModelConfig& c) {
  switch (kind) {
    case StoredRows::kAll:
    case StoredRows::kTurned:
      break;
    case StoredRows::kStackedQuery:
    case StoredRows::kStackedKey:
    case StoredRows::kStackedValue:
    case StoredRows::kHeadQuery:
    case StoredRows::kHeadKey:
    case StoredRows::kHeadValue:
      return (c.n_heads + 2 * c.n_kv_heads) * c.head_dim;
    case StoredRows::kFirstHalf:
    case StoredRows::kSecondHalf:
      return 2 * n_out;
    case StoredRows::kAfterTwo:
      return n_out + 2;
  }
  return n_out;
}

}  // namespace kvscope
