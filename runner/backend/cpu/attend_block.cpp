#include "runner/backend/cpu/attend_block.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runner/backend/cpu/attend_block_bf16.h"
#include "runner/cache/page_pool.h"
#include "runner/model/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runner/backend/cpu/attend_block.cpp"
// foreach_target.h includes this file once for every target and must come first.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kvscope::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<Tag>;
using BitsTag = hn::RebindToUnsigned<Tag>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = int(hn::MaxLanes(Tag()));
constexpr int kVectors = kPageSlots / kLanes;  // of one row of a key page
constexpr int kChunk = 64;                     // value dimensions per pass
constexpr int kChunkVectors = kChunk / kLanes;
constexpr int kBlockSlots = kBlockPages * kPageSlots;
constexpr int kQueriesAtOnce = 4;  // × kVectors sums, registers of AVX-512
constexpr int kBatch = 24;         // queries that a page in the first-level cache serves

// How keys and values are held. kPair: elements of a dimension (keys) or slot (values) and the next
// lie side by side, two to a 32-bit lane.
struct F32 {
  using Element = float;
  static constexpr int kPair = 1;
  static Vec load(const float* p, int) { return hn::LoadU(Tag(), p); }
};
struct F16 {
  using Element = hwy::float16_t;
  static constexpr int kPair = 1;
  static Vec load(const Element* p, int) {
    return hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<hwy::float16_t, Tag>(), p));
  }
};
struct BF16 {
  using Element = std::uint16_t;
  static constexpr int kPair = 2;
  static Vec load(const Element* p, int which) {
    const BitsTag bits;
    const auto both = hn::LoadU(bits, reinterpret_cast<const std::uint32_t*>(p));
    return hn::BitCast(
        Tag(), which == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(bits, 0xFFFF0000U)));
  }
};

// Rounded to bf16, ties to even; NaN stays NaN.
HWY_INLINE Vec round_to_bf16(Vec x) {
  const BitsTag bits;
  const auto u = hn::BitCast(bits, x);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(bits, 1));
  const auto rounded =
      hn::And(hn::Add(hn::Add(u, hn::Set(bits, 0x7FFF)), odd), hn::Set(bits, 0xFFFF0000U));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::BitCast(Tag(), rounded));
}

void round_all(const float* x, int n, float* y) {
  const Tag d;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(round_to_bf16(hn::LoadU(d, x + i)), d, y + i);
  if (i == n) return;
  float part[kLanes] = {};
  std::copy(x + i, x + n, part);
  hn::StoreU(round_to_bf16(hn::LoadU(d, part)), d, part);
  std::copy(part, part + (n - i), y + i);
}

// Fetched while a page's logits are computed: the next page's keys and this one's values. Pages lie
// scattered, which the hardware's prefetcher does not foresee.
// Into the second level: its misses are not limited to the few that the first can have under way
// (8 KiB at random: 23 GB/s, not 16).
struct Fetch {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
};

HWY_INLINE void fetch_line(const void* p) {
  constexpr int kToRead = 0;
  constexpr int kSecondLevel = 2;
  __builtin_prefetch(p, kToRead, kSecondLevel);
}

// z[n][0 … kPageSlots) of one page. q: [kQueries] pointers to [head_dim].
template <typename Key, int kQueries, bool kFetch>
HWY_INLINE void logits_of(const float* const* q, const std::byte* page, int head_dim,
                          float (*z)[kBlockSlots], int first, const Fetch& fetch) {
  const auto* keys = reinterpret_cast<const typename Key::Element*>(page);
  constexpr int kPair = Key::kPair;
  const Tag d;
  Vec acc[kQueries][kVectors];
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) acc[n][v] = hn::Zero(d);
  }
  for (int i = 0; i < head_dim; i += kPair) {
    for (int which = 0; which < kPair; ++which) {
      Vec k[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const int offset = i * kPageSlots + v * kLanes * kPair;
        k[v] = Key::load(keys + offset, which);
        if constexpr (kFetch) {
          fetch_line(reinterpret_cast<const typename Key::Element*>(fetch.keys) + offset);
          fetch_line(reinterpret_cast<const typename Key::Element*>(fetch.values) + offset);
        }
      }
      for (int n = 0; n < kQueries; ++n) {
        const Vec qi = hn::Set(d, q[n][i + which]);
        for (int v = 0; v < kVectors; ++v) acc[n][v] = hn::MulAdd(qi, k[v], acc[n][v]);
      }
    }
  }
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[n][v], d, z[n] + first + v * kLanes);
  }
}

HWY_INLINE void hide_unseen(const QueryState& state, float* z) {
  if (state.positions == nullptr) return;
  for (int j = 0; j < state.live; ++j) {
    if (state.positions[j] < state.first_seen) z[j] = kUnseen;
  }
}

HWY_INLINE float exp_one(float x) { return hn::GetLane(hn::Exp(Tag(), hn::Set(Tag(), x))); }

// Logits of one block → softmax weights, in place, zero from live to n_slots (a multiple of
// kPageSlots). Returns the factor for what was accumulated before.
HWY_INLINE float weigh(QueryState& state, float* z, int n_slots) {
  const Tag d;
  const IntTag di;
  const Vec lowest = hn::Set(d, -INFINITY);
  const int whole = state.live / kLanes * kLanes;
  const auto last = hn::RebindMask(d, hn::Lt(hn::Iota(di, 0), hn::Set(di, state.live - whole)));
  Vec largest = lowest;
  for (int j = 0; j < whole; j += kLanes) largest = hn::Max(largest, hn::LoadU(d, z + j));
  if (whole < state.live)
    largest = hn::Max(largest, hn::IfThenElse(last, hn::LoadU(d, z + whole), lowest));
  const float block_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const bool first = state.sum == 0.0F;
  const float new_max = first ? block_max : std::max(state.max, block_max);
  const Vec shift = hn::Set(d, new_max);
  Vec total = hn::Zero(d);
  for (int j = 0; j < whole; j += kLanes) {
    const Vec weight = hn::Exp(d, hn::Sub(hn::LoadU(d, z + j), shift));
    hn::StoreU(weight, d, z + j);
    total = hn::Add(total, weight);
  }
  int j = whole;
  if (whole < state.live) {
    const Vec weight = hn::IfThenElseZero(last, hn::Exp(d, hn::Sub(hn::LoadU(d, z + j), shift)));
    hn::StoreU(weight, d, z + j);
    total = hn::Add(total, weight);
    j += kLanes;
  }
  for (; j < n_slots; j += kLanes) hn::StoreU(hn::Zero(d), d, z + j);
  const float keep = first ? 0.0F : exp_one(state.max - new_max);
  state.sum = state.sum * keep + hn::GetLane(hn::SumOfLanes(d, total));
  state.max = new_max;
  return keep;
}

// Slots of a page that a query of a group sees; those of all are done together.
template <int kQueries>
struct Visible {
  int live[kQueries];
  int all = kPageSlots;
  int any = 0;
  HWY_INLINE Visible(QueryState* const* queries, int first_slot) {
    for (int n = 0; n < kQueries; ++n) {
      live[n] = std::clamp(queries[n]->live - first_slot, 0, kPageSlots);
      all = std::min(all, live[n]);
      any = std::max(any, live[n]);
    }
  }
};

// out = out · keep + Σ_j p_j v_j over the slots of one page that each query sees: what lies beyond
// may be infinite or NaN, which weight 0 would not undo.
template <typename Value, int kQueries>
HWY_INLINE void add_values(QueryState* const* queries, const PageView& page, int first_slot,
                           int head_dim, const float* const* p, const float* keep) {
  const Visible<kQueries> visible(queries, first_slot);
  const auto* values = reinterpret_cast<const typename Value::Element*>(page.values);
  constexpr int kPair = Value::kPair;
  const Tag d;
  int begin = 0;
  for (; begin + kChunk <= head_dim; begin += kChunk) {
    Vec acc[kQueries][kChunkVectors];
    for (int n = 0; n < kQueries; ++n) {
      for (int v = 0; v < kChunkVectors; ++v) {
        acc[n][v] =
            hn::Mul(hn::LoadU(d, queries[n]->out + begin + v * kLanes), hn::Set(d, keep[n]));
      }
    }
    const auto add_slot = [&](int j, bool all) HWY_ATTR {
      const auto* slot = values + (j / kPair * head_dim + begin) * kPair;
      Vec row[kChunkVectors];
      for (int v = 0; v < kChunkVectors; ++v) {
        row[v] = Value::load(slot + v * kLanes * kPair, j % kPair);
      }
      for (int n = 0; n < kQueries; ++n) {
        if (!all && j >= visible.live[n]) continue;
        const Vec weight = hn::Set(d, p[n][j]);
        for (int v = 0; v < kChunkVectors; ++v) acc[n][v] = hn::MulAdd(weight, row[v], acc[n][v]);
      }
    };
    for (int j = 0; j < visible.all; ++j) add_slot(j, true);
    for (int j = visible.all; j < visible.any; ++j) add_slot(j, false);
    for (int n = 0; n < kQueries; ++n) {
      for (int v = 0; v < kChunkVectors; ++v)
        hn::StoreU(acc[n][v], d, queries[n]->out + begin + v * kLanes);
    }
  }
  // Head sizes that are no multiple of the chunk, one vector or element at a time.
  for (; begin < head_dim; begin += kLanes) {
    const int n_left = std::min(kLanes, head_dim - begin);
    for (int n = 0; n < kQueries; ++n) {
      float part[kLanes] = {};
      std::copy_n(queries[n]->out + begin, n_left, part);
      Vec acc = hn::Mul(hn::LoadU(d, part), hn::Set(d, keep[n]));
      for (int j = 0; j < visible.live[n]; ++j) {
        typename Value::Element row[kLanes * kPair] = {};
        std::copy_n(values + (j / kPair * head_dim + begin) * kPair, n_left * kPair, row);
        acc = hn::MulAdd(hn::Set(d, p[n][j]), Value::load(row, j % kPair), acc);
      }
      hn::StoreU(acc, d, part);
      std::copy_n(part, n_left, queries[n]->out + begin);
    }
  }
}

// Calls body.operator()<n>(first) for groups of up to kQueriesAtOnce of n_queries.
template <typename Body>
HWY_INLINE void for_groups(int n_queries, const Body& body) {
  int first = 0;
  for (; first + kQueriesAtOnce <= n_queries; first += kQueriesAtOnce)
    body.template operator()<kQueriesAtOnce>(first);
  switch (n_queries - first) {
    case 3:
      return body.template operator()<3>(first);
    case 2:
      return body.template operator()<2>(first);
    case 1:
      return body.template operator()<1>(first);
    default:
      return;
  }
}

// Queries of a batch as the products want them: rounded where the keys are bf16.
template <typename Key>
struct QueryRows {
  const float* rows[kBatch];
  HWY_INLINE void set(std::span<const QueryState> queries, int head_dim, float* rounded) {
    for (std::size_t n = 0; n < queries.size(); ++n) {
      rows[n] = queries[n].q;
      if constexpr (Key::kPair == 2) {
        round_all(queries[n].q, head_dim, rounded + n * head_dim);
        rows[n] = rounded + n * head_dim;
      }
    }
  }
};

template <typename Key>
HWY_INLINE void logits_of_batch(std::span<const QueryState> queries,
                                std::span<const PageView> pages, int head_dim,
                                float (*z)[kBlockSlots]) {
  QueryRows<Key> q;
  float rounded[Key::kPair == 2 ? kBatch * kMaxHeadDim : 1];
  q.set(queries, head_dim, rounded);
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const PageView& view = pages[page];
    const Fetch fetch{view.next_keys != nullptr ? view.next_keys : view.keys,
                      view.values != nullptr ? view.values : view.keys};
    for_groups(int(queries.size()), [&]<int kQueries>(int first) {
      const int slot = int(page) * kPageSlots;
      if (first == 0) {
        logits_of<Key, kQueries, true>(q.rows, pages[page].keys, head_dim, z, slot, fetch);
      } else {
        logits_of<Key, kQueries, false>(q.rows + first, pages[page].keys, head_dim, z + first, slot,
                                        fetch);
      }
    });
  }
}

template <typename Key, typename Value>
void attend_batch(std::span<QueryState> queries, std::span<const PageView> pages, int head_dim) {
  HWY_ALIGN float z[kBatch][kBlockSlots];
  logits_of_batch<Key>(queries, pages, head_dim, z);
  const int n_slots = int(pages.size()) * kPageSlots;
  float keep[kBatch];
  QueryState* states[kBatch];
  for (std::size_t n = 0; n < queries.size(); ++n) {
    QueryState& state = queries[n];
    states[n] = &state;
    hide_unseen(state, z[n]);
    if (state.logits != nullptr) std::copy_n(z[n], state.live, state.logits);
    keep[n] = weigh(state, z[n], n_slots);
    if (state.weights != nullptr) std::copy_n(z[n], state.live, state.weights);
    if constexpr (Value::kPair == 2) round_all(z[n], n_slots, z[n]);
  }
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const float* p[kBatch];
    for (std::size_t n = 0; n < queries.size(); ++n) p[n] = z[n] + page * kPageSlots;
    for_groups(int(queries.size()), [&]<int kQueries>(int first) {
      add_values<Value, kQueries>(states + first, pages[page], int(page) * kPageSlots, head_dim,
                                  p + first, keep + first);
    });
    std::fill_n(keep, kBatch, 1.0F);
  }
}

template <typename Key, typename Value>
void attend_all(std::span<QueryState> queries, std::span<const PageView> pages, int head_dim) {
  for (std::size_t first = 0; first < queries.size(); first += kBatch) {
    attend_batch<Key, Value>(
        queries.subspan(first, std::min<std::size_t>(kBatch, queries.size() - first)), pages,
        head_dim);
  }
}

void AttendBlock(std::span<QueryState> queries, std::span<const PageView> pages, int head_dim) {
  const bool rotated = pages.front().keys_rotated;
  switch (pages.front().dtype) {
    case DType::kF32:
      return attend_all<F32, F32>(queries, pages, head_dim);
    case DType::kBF16:
      return rotated ? attend_all<F32, BF16>(queries, pages, head_dim)
                     : attend_all<BF16, BF16>(queries, pages, head_dim);
    case DType::kF16:
      return rotated ? attend_all<F32, F16>(queries, pages, head_dim)
                     : attend_all<F16, F16>(queries, pages, head_dim);
  }
}

template <typename Key>
void logits_all(std::span<const QueryState> queries, std::span<const PageView> pages,
                int head_dim) {
  HWY_ALIGN float z[kBatch][kBlockSlots];
  for (std::size_t first = 0; first < queries.size(); first += kBatch) {
    const auto batch =
        queries.subspan(first, std::min<std::size_t>(kBatch, queries.size() - first));
    logits_of_batch<Key>(batch, pages, head_dim, z);
    for (std::size_t n = 0; n < batch.size(); ++n) {
      hide_unseen(batch[n], z[n]);
      std::copy_n(z[n], batch[n].live, batch[n].logits);
    }
  }
}

void BlockLogits(std::span<const QueryState> queries, std::span<const PageView> pages,
                 int head_dim) {
  if (pages.front().keys_rotated) return logits_all<F32>(queries, pages, head_dim);
  switch (pages.front().dtype) {
    case DType::kF32:
      return logits_all<F32>(queries, pages, head_dim);
    case DType::kBF16:
      return logits_all<BF16>(queries, pages, head_dim);
    case DType::kF16:
      return logits_all<F16>(queries, pages, head_dim);
  }
}

}  // namespace kvscope::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvscope::cpu {

HWY_EXPORT(AttendBlock);
HWY_EXPORT(BlockLogits);

namespace {

bool is_native(const PageView& page, int head_dim) {
  return page.dtype == DType::kBF16 && !page.keys_rotated && has_native_bf16_attention(head_dim);
}

}  // namespace

void attend_block(std::span<QueryState> queries, std::span<const PageView> pages, int head_dim) {
  if (is_native(pages.front(), head_dim)) {
    attend_block_bf16(queries.data(), int(queries.size()), pages.data(), int(pages.size()),
                      head_dim);
  } else {
    HWY_DYNAMIC_DISPATCH(AttendBlock)(queries, pages, head_dim);
  }
}

void block_logits(std::span<const QueryState> queries, std::span<const PageView> pages,
                  int head_dim) {
  if (is_native(pages.front(), head_dim)) {
    block_logits_bf16(queries.data(), int(queries.size()), pages.data(), int(pages.size()),
                      head_dim);
  } else {
    HWY_DYNAMIC_DISPATCH(BlockLogits)(queries, pages, head_dim);
  }
}

}  // namespace kvscope::cpu
#endif
