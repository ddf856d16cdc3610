// Compiled for AVX-512-BF16 where the compiler knows it (runner/backend/CMakeLists.txt); uses no
// inline function of the standard library, which could leak that instruction set into other files.
#include "runner/backend/cpu/attend_block_bf16.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

#include "runner/cache/page_pool.h"
#include "runner/model/config.h"

namespace kvscope::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kBlockSlots = kBlockPages * kPageSlots;
constexpr int kBatch = 24;  // queries that a page in the first-level cache serves
constexpr int kChunkVectors = 4;

using Half = unsigned short;

inline int smaller(int a, int b) { return a < b ? a : b; }

inline __m512 broadcast_pair(const Half* p) {
  return _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(p)));
}
inline __m512 dot_pairs(__m512 sum, __m512 a, __m512 b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

void round_row(const float* x, int n, Half* y) {  // n: a multiple of kLanes
  for (int i = 0; i < n; i += kLanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i))));
  }
}

// e^x for x ≤ 0, relative error below 3e-6 where e^x > 1e-6: 2^f by its series to degree 5, |f| ≤
// 1/2. NaN stays NaN.
inline __m512 exp_below(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0F);  // 1.5 · 2^23: a sum's low bits are an integer
  const __m512 log2e = _mm512_set1_ps(1.44269504F);
  x = _mm512_max_ps(_mm512_set1_ps(-87.0F), x);  // in this order NaN passes
  const __m512 shifted = _mm512_fmadd_ps(x, log2e, magic);
  const __m512 n = _mm512_sub_ps(shifted, magic);
  const __m512 f = _mm512_fmsub_ps(x, log2e, n);
  __m512 p = _mm512_set1_ps(1.3333558e-3F);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0F));
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p),
                                              _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

// Fetched while a page's logits are computed: the next page's keys and this one's values. Pages lie
// scattered, which the hardware's prefetcher does not foresee. Into the second level: its misses
// are not limited to the few that the first can have under way (8 KiB at random: 23 GB/s, not 16).
struct Fetch {
  const std::byte* keys;
  const std::byte* values;
};

// keys: [head_dim / 2][kPageSlots][2]; q: kQueries rows of head_dim.
template <int kQueries, bool kFetch>
inline void logits_of(const Half* q, int head_dim, const Half* keys, float (*z)[kBlockSlots],
                      int first, const Fetch& fetch) {
  constexpr int kVectors = kPageSlots / kLanes;
  __m512 sum[kQueries][kVectors];
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) sum[n][v] = _mm512_setzero_ps();
  }
  for (int i = 0; i < head_dim; i += 2) {
    __m512 k[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int offset = i * kPageSlots + v * kLanes * 2;
      k[v] = _mm512_loadu_ps(keys + offset);
      if constexpr (kFetch) {
        _mm_prefetch(reinterpret_cast<const Half*>(fetch.keys) + offset, _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const Half*>(fetch.values) + offset, _MM_HINT_T1);
      }
    }
    for (int n = 0; n < kQueries; ++n) {
      const __m512 pair = broadcast_pair(q + n * head_dim + i);
      for (int v = 0; v < kVectors; ++v) sum[n][v] = dot_pairs(sum[n][v], pair, k[v]);
    }
  }
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(z[n] + first + v * kLanes, sum[n][v]);
  }
}

// As weigh() of attend_block.cpp; the weights rounded to bf16 go to p, as they are to
// state.weights.
inline float weigh(QueryState& state, float* z, int n_slots, Half* p) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  const int whole = state.live / kLanes * kLanes;
  const auto last = __mmask16((1U << (state.live - whole)) - 1U);
  __m512 largest = lowest;
  for (int j = 0; j < whole; j += kLanes) largest = _mm512_max_ps(largest, _mm512_loadu_ps(z + j));
  if (last != 0) largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, last, z + whole));
  const float block_max = _mm512_reduce_max_ps(largest);
  const bool first = state.sum == 0.0F;
  const float new_max = first || block_max > state.max ? block_max : state.max;
  const __m512 shift = _mm512_set1_ps(new_max);
  __m512 total = _mm512_setzero_ps();
  const auto weigh_some = [&](int j, __mmask16 mask) {
    const __m512 weight =
        _mm512_maskz_mov_ps(mask, exp_below(_mm512_sub_ps(_mm512_loadu_ps(z + j), shift)));
    total = _mm512_add_ps(total, weight);
    if (state.weights != nullptr) _mm512_mask_storeu_ps(state.weights + j, mask, weight);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + j),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
  };
  int j = 0;
  for (; j < whole; j += kLanes) weigh_some(j, 0xFFFF);
  if (last != 0) {
    weigh_some(j, last);
    j += kLanes;
  }
  for (; j < n_slots; j += kLanes)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + j), _mm256_setzero_si256());
  const float keep =
      first ? 0.0F : _mm512_cvtss_f32(exp_below(_mm512_set1_ps(state.max - new_max)));
  state.sum = state.sum * keep + _mm512_reduce_add_ps(total);
  state.max = new_max;
  return keep;
}

// Slots of a page that a query of a group sees; pairs that all see whole are done together.
template <int kQueries>
struct Visible {
  int live[kQueries];
  int all_pairs = kPageSlots / 2;
  int any_pairs = 0;
  Visible(const QueryState* queries, int first_slot) {
    for (int n = 0; n < kQueries; ++n) {
      const int left = queries[n].live - first_slot;
      live[n] = left < 0 ? 0 : smaller(left, kPageSlots);
      all_pairs = smaller(all_pairs, live[n] / 2);
      any_pairs = any_pairs > (live[n] + 1) / 2 ? any_pairs : (live[n] + 1) / 2;
    }
  }
};

// out = out · keep + Σ_j p_j v_j over the slots of one page that each query sees: what lies beyond
// may be infinite or NaN, which weight 0 would not undo. values: [kPageSlots / 2][head_dim][2],
// from dimension `begin` on.
template <int kQueries, int kVectors>
inline void add_values(QueryState* queries, const PageView& page, int head_dim, int begin,
                       const Half (*p)[kBlockSlots], int first_slot, const float* keep) {
  const auto* values = reinterpret_cast<const Half*>(page.values) + begin * 2;
  __m512 sum[kQueries][kVectors];
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) {
      sum[n][v] = _mm512_mul_ps(_mm512_loadu_ps(queries[n].out + begin + v * kLanes),
                                _mm512_set1_ps(keep[n]));
    }
  }
  const Visible<kQueries> visible(queries, first_slot);
  for (int j = 0; j < visible.all_pairs; ++j) {
    __m512 row[kVectors];
    for (int v = 0; v < kVectors; ++v)
      row[v] = _mm512_loadu_ps(values + (j * head_dim + v * kLanes) * 2);
    for (int n = 0; n < kQueries; ++n) {
      const __m512 pair = broadcast_pair(p[n] + first_slot + 2 * j);
      for (int v = 0; v < kVectors; ++v) sum[n][v] = dot_pairs(sum[n][v], pair, row[v]);
    }
  }
  for (int j = visible.all_pairs; j < visible.any_pairs; ++j) {
    for (int n = 0; n < kQueries; ++n) {
      const int left = visible.live[n] - 2 * j;
      if (left <= 0) continue;
      const __m512i seen = _mm512_set1_epi32(left == 1 ? 0x0000FFFF : -1);
      const __m512 pair = broadcast_pair(p[n] + first_slot + 2 * j);
      for (int v = 0; v < kVectors; ++v) {
        const __m512i row = _mm512_loadu_si512(values + (j * head_dim + v * kLanes) * 2);
        sum[n][v] = dot_pairs(sum[n][v], pair, _mm512_castsi512_ps(_mm512_and_si512(row, seen)));
      }
    }
  }
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(queries[n].out + begin + v * kLanes, sum[n][v]);
  }
}

template <int kQueries>
inline void add_all_values(QueryState* queries, const PageView& page, int head_dim,
                           const Half (*p)[kBlockSlots], int first_slot, const float* keep) {
  int begin = 0;
  for (; begin + kChunkVectors * kLanes <= head_dim; begin += kChunkVectors * kLanes)
    add_values<kQueries, kChunkVectors>(queries, page, head_dim, begin, p, first_slot, keep);
  for (; begin < head_dim; begin += kLanes)
    add_values<kQueries, 1>(queries, page, head_dim, begin, p, first_slot, keep);
}

// Calls body.run<n>(first) for groups of up to four of n_queries.
template <typename Body>
inline void for_groups(int n_queries, const Body& body) {
  int first = 0;
  for (; first + 4 <= n_queries; first += 4) body.template run<4>(first);
  switch (n_queries - first) {
    case 3:
      return body.template run<3>(first);
    case 2:
      return body.template run<2>(first);
    case 1:
      return body.template run<1>(first);
    default:
      return;
  }
}

struct LogitsOfPage {
  const Half* q;
  int head_dim;
  const PageView& page;
  float (*z)[kBlockSlots];
  int first_slot;
  Fetch fetch;
  template <int kQueries>
  void run(int first) const {
    const auto* keys = reinterpret_cast<const Half*>(page.keys);
    if (first == 0) {
      logits_of<kQueries, true>(q, head_dim, keys, z, first_slot, fetch);
    } else {
      logits_of<kQueries, false>(q + first * head_dim, head_dim, keys, z + first, first_slot,
                                 fetch);
    }
  }
};

struct ValuesOfPage {
  QueryState* queries;
  int head_dim;
  const PageView& page;
  const Half (*p)[kBlockSlots];
  int first_slot;
  const float* keep;
  template <int kQueries>
  void run(int first) const {
    add_all_values<kQueries>(queries + first, page, head_dim, p + first, first_slot, keep + first);
  }
};

void logits_of_batch(const QueryState* queries, int n, const PageView* pages, int n_pages,
                     int head_dim, float (*z)[kBlockSlots]) {
  Half q[kBatch * kMaxHeadDim];
  for (int i = 0; i < n; ++i) round_row(queries[i].q, head_dim, q + i * head_dim);
  for (int page = 0; page < n_pages; ++page) {
    const Fetch fetch{pages[page].next_keys != nullptr ? pages[page].next_keys : pages[page].keys,
                      pages[page].values != nullptr ? pages[page].values : pages[page].keys};
    for_groups(n, LogitsOfPage{q, head_dim, pages[page], z, page * kPageSlots, fetch});
  }
}

void hide_unseen(const QueryState& state, float* z) {
  if (state.positions == nullptr) return;
  for (int j = 0; j < state.live; ++j) {
    if (state.positions[j] < state.first_seen) z[j] = kUnseen;
  }
}

// exp_below ends at e^-87, which is not 0; a sum that holds a 1 does not feel it.
void weigh_unseen(const QueryState& state, Half* p) {
  if (state.positions == nullptr) return;
  for (int j = 0; j < state.live; ++j) {
    if (state.positions[j] >= state.first_seen) continue;
    p[j] = 0;
    if (state.weights != nullptr) state.weights[j] = 0.0F;
  }
}

}  // namespace

bool has_native_bf16_attention(int head_dim) {
  return head_dim % kLanes == 0 && head_dim <= kMaxHeadDim &&
         __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512dq");
}

void attend_block_bf16(QueryState* queries, int n_queries, const PageView* pages, int n_pages,
                       int head_dim) {
  alignas(64) float z[kBatch][kBlockSlots];
  alignas(64) Half p[kBatch][kBlockSlots];
  float keep[kBatch];
  for (; n_queries > 0; n_queries -= kBatch, queries += kBatch) {
    const int n = smaller(n_queries, kBatch);
    logits_of_batch(queries, n, pages, n_pages, head_dim, z);
    for (int i = 0; i < n; ++i) {
      QueryState& state = queries[i];
      hide_unseen(state, z[i]);
      if (state.logits != nullptr) __builtin_memcpy(state.logits, z[i], sizeof(float) * state.live);
      keep[i] = weigh(state, z[i], n_pages * kPageSlots, p[i]);
      weigh_unseen(state, p[i]);
    }
    for (int page = 0; page < n_pages; ++page) {
      for_groups(n, ValuesOfPage{queries, head_dim, pages[page], p, page * kPageSlots, keep});
      for (float& k : keep) k = 1.0F;
    }
  }
}

void block_logits_bf16(const QueryState* queries, int n_queries, const PageView* pages, int n_pages,
                       int head_dim) {
  alignas(64) float z[kBatch][kBlockSlots];
  for (; n_queries > 0; n_queries -= kBatch, queries += kBatch) {
    const int n = smaller(n_queries, kBatch);
    logits_of_batch(queries, n, pages, n_pages, head_dim, z);
    for (int i = 0; i < n; ++i) {
      hide_unseen(queries[i], z[i]);
      __builtin_memcpy(queries[i].logits, z[i], sizeof(float) * queries[i].live);
    }
  }
}

}  // namespace kvscope::cpu
#else
namespace kvscope::cpu {

bool has_native_bf16_attention(int) { return false; }
void attend_block_bf16(QueryState*, int, const PageView*, int, int) {}
void block_logits_bf16(const QueryState*, int, const PageView*, int, int) {}

}  // namespace kvscope::cpu
#endif
