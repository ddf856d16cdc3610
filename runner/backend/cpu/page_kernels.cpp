#include "runner/backend/cpu/page_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runner/cache/page_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runner/backend/cpu/page_kernels.cpp"
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
using Vec = hn::Vec<Tag>;
constexpr int kLanes = int(hn::MaxLanes(Tag()));
constexpr int kVectors = kPageSlots / kLanes;  // of one row of a key page
constexpr int kChunk = 64;                     // value dimensions per pass
constexpr int kChunkVectors = kChunk / kLanes;

// Loads kLanes elements as float32.
struct F32 {
  using Element = float;
  static Vec load(const float* p) { return hn::LoadU(Tag(), p); }
};
struct BF16 {
  using Element = hwy::bfloat16_t;
  static Vec load(const Element* p) {
    return hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<hwy::bfloat16_t, Tag>(), p));
  }
};
struct F16 {
  using Element = hwy::float16_t;
  static Vec load(const Element* p) {
    return hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<hwy::float16_t, Tag>(), p));
  }
};

template <typename Key, int kQueries>
HWY_INLINE void logits_of(QueryState* const* queries, const std::byte* page, int head_dim,
                          float (*z)[kPageSlots]) {
  const auto* keys = reinterpret_cast<const typename Key::Element*>(page);
  const Tag d;
  Vec acc[kQueries][kVectors];
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) acc[n][v] = hn::Zero(d);
  }
  for (int i = 0; i < head_dim; ++i) {
    Vec k[kVectors];
    for (int v = 0; v < kVectors; ++v) k[v] = Key::load(keys + i * kPageSlots + v * kLanes);
    for (int n = 0; n < kQueries; ++n) {
      const Vec q = hn::Set(d, queries[n]->q[i]);
      for (int v = 0; v < kVectors; ++v) acc[n][v] = hn::MulAdd(q, k[v], acc[n][v]);
    }
  }
  for (int n = 0; n < kQueries; ++n) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[n][v], d, z[n] + v * kLanes);
  }
}

HWY_INLINE float exp_one(float x) { return hn::GetLane(hn::Exp(Tag(), hn::Set(Tag(), x))); }

// Softmax weights of one page into p (zero beyond live); returns the factor for what was
// accumulated before.
HWY_INLINE float weigh_page(QueryState& state, const float* z, int live, float* p) {
  const Tag d;
  const IntTag di;
  const Vec lowest = hn::Set(d, -INFINITY);
  const auto limit = hn::Set(di, live);
  hn::Mask<Tag> valid[kVectors];
  Vec logit[kVectors];
  Vec largest = lowest;
  for (int v = 0; v < kVectors; ++v) {
    valid[v] = hn::RebindMask(d, hn::Lt(hn::Iota(di, v * kLanes), limit));
    logit[v] = hn::LoadU(d, z + v * kLanes);
    largest = hn::Max(largest, hn::IfThenElse(valid[v], logit[v], lowest));
  }
  const float page_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const bool first = state.sum == 0.0F;
  const float new_max = first ? page_max : std::max(state.max, page_max);
  Vec total = hn::Zero(d);
  const Vec shift = hn::Set(d, new_max);
  for (int v = 0; v < kVectors; ++v) {
    const Vec weight = hn::IfThenElseZero(valid[v], hn::Exp(d, hn::Sub(logit[v], shift)));
    hn::StoreU(weight, d, p + v * kLanes);
    total = hn::Add(total, weight);
  }
  const float page_sum = hn::GetLane(hn::SumOfLanes(d, total));
  const float keep = first ? 0.0F : exp_one(state.max - new_max);
  state.sum = state.sum * keep + page_sum;
  state.max = new_max;
  return keep;
}

template <typename Value, int kQueries>
HWY_INLINE void add_values(QueryState* const* queries, const std::byte* page, int head_dim,
                           int live, const float (*p)[kPageSlots], const float* keep) {
  const auto* values = reinterpret_cast<const typename Value::Element*>(page);
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
    for (int j = 0; j < live; ++j) {
      Vec row[kChunkVectors];
      for (int v = 0; v < kChunkVectors; ++v) {
        row[v] = Value::load(values + j * head_dim + begin + v * kLanes);
      }
      for (int n = 0; n < kQueries; ++n) {
        const Vec weight = hn::Set(d, p[n][j]);
        for (int v = 0; v < kChunkVectors; ++v) acc[n][v] = hn::MulAdd(weight, row[v], acc[n][v]);
      }
    }
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
      for (int j = 0; j < live; ++j) {
        typename Value::Element row[kLanes] = {};
        std::copy_n(values + j * head_dim + begin, n_left, row);
        acc = hn::MulAdd(hn::Set(d, p[n][j]), Value::load(row), acc);
      }
      hn::StoreU(acc, d, part);
      std::copy_n(part, n_left, queries[n]->out + begin);
    }
  }
}

template <typename Key, typename Value, int kQueries>
HWY_INLINE void attend_some(QueryState* const* queries, const PageView& page, int head_dim) {
  HWY_ALIGN float z[kQueries][kPageSlots];
  HWY_ALIGN float p[kQueries][kPageSlots];
  float keep[kQueries];
  logits_of<Key, kQueries>(queries, page.keys, head_dim, z);
  for (int n = 0; n < kQueries; ++n) {
    if (queries[n]->logits != nullptr) std::copy_n(z[n], page.live, queries[n]->logits);
    keep[n] = weigh_page(*queries[n], z[n], page.live, p[n]);
  }
  add_values<Value, kQueries>(queries, page.values, head_dim, page.live, p, keep);
}

template <typename Key, typename Value>
void attend(std::span<QueryState> queries, const PageView& page, int head_dim) {
  std::size_t i = 0;
  QueryState* group[4];
  while (i < queries.size()) {
    const std::size_t n = std::min<std::size_t>(4, queries.size() - i);
    for (std::size_t k = 0; k < n; ++k) group[k] = &queries[i + k];
    switch (n) {
      case 4:
        attend_some<Key, Value, 4>(group, page, head_dim);
        break;
      case 3:
        attend_some<Key, Value, 3>(group, page, head_dim);
        break;
      case 2:
        attend_some<Key, Value, 2>(group, page, head_dim);
        break;
      default:
        attend_some<Key, Value, 1>(group, page, head_dim);
        break;
    }
    i += n;
  }
}

// Keys and values have one type, except that keys rotated at read (cache-relative positions) are
// float32.
void AttendPage(std::span<QueryState> queries, const PageView& page, int head_dim) {
  const bool wide_keys = page.key_dtype == DType::kF32;
  switch (page.value_dtype) {
    case DType::kF32:
      attend<F32, F32>(queries, page, head_dim);
      break;
    case DType::kBF16:
      wide_keys ? attend<F32, BF16>(queries, page, head_dim)
                : attend<BF16, BF16>(queries, page, head_dim);
      break;
    case DType::kF16:
      wide_keys ? attend<F32, F16>(queries, page, head_dim)
                : attend<F16, F16>(queries, page, head_dim);
      break;
  }
}

template <typename Key>
void logits_all(std::span<QueryState> queries, const PageView& page, int head_dim) {
  HWY_ALIGN float z[4][kPageSlots];
  QueryState* group[4];
  for (std::size_t i = 0; i < queries.size();) {
    const std::size_t n = std::min<std::size_t>(4, queries.size() - i);
    for (std::size_t k = 0; k < n; ++k) group[k] = &queries[i + k];
    switch (n) {
      case 4:
        logits_of<Key, 4>(group, page.keys, head_dim, z);
        break;
      case 3:
        logits_of<Key, 3>(group, page.keys, head_dim, z);
        break;
      case 2:
        logits_of<Key, 2>(group, page.keys, head_dim, z);
        break;
      default:
        logits_of<Key, 1>(group, page.keys, head_dim, z);
        break;
    }
    for (std::size_t k = 0; k < n; ++k) std::copy_n(z[k], page.live, group[k]->logits);
    i += n;
  }
}

void PageLogits(std::span<QueryState> queries, const PageView& page, int head_dim) {
  switch (page.key_dtype) {
    case DType::kF32:
      logits_all<F32>(queries, page, head_dim);
      break;
    case DType::kBF16:
      logits_all<BF16>(queries, page, head_dim);
      break;
    case DType::kF16:
      logits_all<F16>(queries, page, head_dim);
      break;
  }
}

// exp of every logit minus shift; full vectors, then one padded vector, so that an element's bits
// do not depend on its place.
template <typename Store>
HWY_INLINE void for_each_weight(std::span<const float> logits, float shift, const Store& store) {
  const Tag d;
  const Vec s = hn::Set(d, shift);
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    store(i, std::size_t(kLanes), hn::Exp(d, hn::Sub(hn::LoadU(d, logits.data() + i), s)));
  }
  if (i < logits.size()) {
    float part[kLanes] = {};
    std::copy(logits.begin() + i, logits.end(), part);
    store(i, logits.size() - i, hn::Exp(d, hn::Sub(hn::LoadU(d, part), s)));
  }
}

void Probabilities(std::span<const float> logits, float max, float sum, float* out) {
  const Tag d;
  const Vec inverse = hn::Set(d, 1.0F / sum);
  for_each_weight(logits, max, [&](std::size_t i, std::size_t n, Vec weight) {
    const Vec p = hn::Mul(weight, inverse);
    if (n == std::size_t(kLanes)) {
      hn::StoreU(p, d, out + i);
    } else {
      float part[kLanes];
      hn::StoreU(p, d, part);
      std::copy_n(part, n, out + i);
    }
  });
}

void AccumulateWeights(std::span<const float> logits, float lse, float weight, float* acc) {
  const Tag d;
  const Vec w = hn::Set(d, weight);
  for_each_weight(logits, lse, [&](std::size_t i, std::size_t n, Vec a) {
    const Vec product = hn::Mul(w, a);
    if (n == std::size_t(kLanes)) {
      hn::StoreU(hn::Add(hn::LoadU(d, acc + i), product), d, acc + i);
    } else {
      float part[kLanes];
      hn::StoreU(product, d, part);
      for (std::size_t k = 0; k < n; ++k) acc[i + k] += part[k];
    }
  });
}

void ScaleRow(float* x, int n, float s) {
  const Tag d;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, s)), d, x + i);
  }
  for (; i < n; ++i) x[i] *= s;
}

template <typename Key>
void rotate(const std::byte* page, int head_dim, const float* cos, const float* sin,
            int n_positions, const int* ranks, float* out) {
  const auto* keys = reinterpret_cast<const typename Key::Element*>(page);
  const Tag d;
  const IntTag di;
  for (int v = 0; v < kVectors; ++v) {
    const auto rank = hn::LoadU(di, ranks + v * kLanes);
    for (int i = 0; i < head_dim / 2; ++i) {
      const Vec c = hn::GatherIndex(d, cos + std::size_t(i) * n_positions, rank);
      const Vec s = hn::GatherIndex(d, sin + std::size_t(i) * n_positions, rank);
      const Vec x = Key::load(keys + 2 * i * kPageSlots + v * kLanes);
      const Vec y = Key::load(keys + (2 * i + 1) * kPageSlots + v * kLanes);
      hn::StoreU(hn::Sub(hn::Mul(x, c), hn::Mul(y, s)), d, out + 2 * i * kPageSlots + v * kLanes);
      hn::StoreU(hn::Add(hn::Mul(x, s), hn::Mul(y, c)), d,
                 out + (2 * i + 1) * kPageSlots + v * kLanes);
    }
  }
}

void RotatePage(const std::byte* keys, DType dtype, int head_dim, const float* cos,
                const float* sin, int n_positions, const int* ranks, int live, float* out) {
  HWY_ALIGN int padded[kPageSlots] = {};
  std::copy_n(ranks, live, padded);
  switch (dtype) {
    case DType::kF32:
      rotate<F32>(keys, head_dim, cos, sin, n_positions, padded, out);
      break;
    case DType::kBF16:
      rotate<BF16>(keys, head_dim, cos, sin, n_positions, padded, out);
      break;
    case DType::kF16:
      rotate<F16>(keys, head_dim, cos, sin, n_positions, padded, out);
      break;
  }
}

const char* PageTargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace kvscope::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvscope::cpu {

HWY_EXPORT(AttendPage);
HWY_EXPORT(PageLogits);
HWY_EXPORT(Probabilities);
HWY_EXPORT(AccumulateWeights);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(RotatePage);
HWY_EXPORT(PageTargetName);

void attend_page(std::span<QueryState> queries, const PageView& page, int head_dim) {
  HWY_DYNAMIC_DISPATCH(AttendPage)(queries, page, head_dim);
}
void page_logits(std::span<QueryState> queries, const PageView& page, int head_dim) {
  HWY_DYNAMIC_DISPATCH(PageLogits)(queries, page, head_dim);
}
void probabilities(std::span<const float> logits, float max, float sum, float* out) {
  HWY_DYNAMIC_DISPATCH(Probabilities)(logits, max, sum, out);
}
void accumulate_weights(std::span<const float> logits, float lse, float weight, float* acc) {
  HWY_DYNAMIC_DISPATCH(AccumulateWeights)(logits, lse, weight, acc);
}
void scale_row(float* x, int n, float s) { HWY_DYNAMIC_DISPATCH(ScaleRow)(x, n, s); }
void rotate_page(const std::byte* keys, DType dtype, int head_dim, const float* cos,
                 const float* sin, int n_positions, const int* ranks, int live, float* out) {
  HWY_DYNAMIC_DISPATCH(RotatePage)(keys, dtype, head_dim, cos, sin, n_positions, ranks, live, out);
}
std::string vector_target() { return HWY_DYNAMIC_DISPATCH(PageTargetName)(); }

}  // namespace kvscope::cpu
#endif
