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

// Dimensions 2i and 2i + 1 of kLanes keys from slot `first` on.
struct KeyPairsF32 {
  static void load(const std::byte* keys, int i, int first, Vec& x, Vec& y) {
    const float* p = reinterpret_cast<const float*>(keys) + 2 * i * kPageSlots + first;
    x = hn::LoadU(Tag(), p);
    y = hn::LoadU(Tag(), p + kPageSlots);
  }
};
struct KeyPairsBF16 {
  static void load(const std::byte* keys, int i, int first, Vec& x, Vec& y) {
    const hn::RebindToUnsigned<Tag> bits;
    const auto* p = reinterpret_cast<const std::uint32_t*>(keys) + i * kPageSlots + first;
    const auto both = hn::LoadU(bits, p);
    x = hn::BitCast(Tag(), hn::ShiftLeft<16>(both));
    y = hn::BitCast(Tag(), hn::And(both, hn::Set(bits, 0xFFFF0000U)));
  }
};
struct KeyPairsF16 {
  static void load(const std::byte* keys, int i, int first, Vec& x, Vec& y) {
    const hn::Rebind<hwy::float16_t, Tag> narrow;
    const auto* p = reinterpret_cast<const hwy::float16_t*>(keys) + 2 * i * kPageSlots + first;
    x = hn::PromoteTo(Tag(), hn::LoadU(narrow, p));
    y = hn::PromoteTo(Tag(), hn::LoadU(narrow, p + kPageSlots));
  }
};

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
void rotate(const std::byte* page, int head_dim, const RopeTable& rope, const int* ranks,
            float* out) {
  const Tag d;
  const IntTag di;
  for (int v = 0; v < kVectors; ++v) {
    const int* first = ranks + v * kLanes;
    const auto rank = hn::LoadU(di, first);
    // The rule as long as no eviction has moved a slot; loads are several times faster than
    // gathers.
    const bool neighbours = hn::AllTrue(di, hn::Eq(rank, hn::Iota(di, *first)));
    for (int i = 0; i < head_dim / 2; ++i) {
      const float* cos = rope.cos_by_pair.data() + std::size_t(i) * rope.n_positions;
      const float* sin = rope.sin_by_pair.data() + std::size_t(i) * rope.n_positions;
      const Vec c = neighbours ? hn::LoadU(d, cos + *first) : hn::GatherIndex(d, cos, rank);
      const Vec s = neighbours ? hn::LoadU(d, sin + *first) : hn::GatherIndex(d, sin, rank);
      Vec x, y;
      Key::load(page, i, v * kLanes, x, y);
      hn::StoreU(hn::Sub(hn::Mul(x, c), hn::Mul(y, s)), d, out + 2 * i * kPageSlots + v * kLanes);
      hn::StoreU(hn::Add(hn::Mul(x, s), hn::Mul(y, c)), d,
                 out + (2 * i + 1) * kPageSlots + v * kLanes);
    }
  }
}

void RotatePage(const std::byte* keys, DType dtype, int head_dim, const RopeTable& rope,
                const int* ranks, int live, float* out) {
  HWY_ALIGN int padded[kPageSlots] = {};
  std::copy_n(ranks, live, padded);
  switch (dtype) {
    case DType::kF32:
      rotate<KeyPairsF32>(keys, head_dim, rope, padded, out);
      break;
    case DType::kBF16:
      rotate<KeyPairsBF16>(keys, head_dim, rope, padded, out);
      break;
    case DType::kF16:
      rotate<KeyPairsF16>(keys, head_dim, rope, padded, out);
      break;
  }
}

void RotatePairs(const float* x, int n_pairs, const float* cos, const float* sin, float scale,
                 float* out) {
  const Tag d;
  const Vec factor = hn::Set(d, scale);
  int i = 0;
  for (; i + kLanes <= n_pairs; i += kLanes) {
    Vec a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const Vec c = hn::LoadU(d, cos + i);
    const Vec s = hn::LoadU(d, sin + i);
    hn::StoreInterleaved2(hn::Mul(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), factor),
                          hn::Mul(hn::Add(hn::Mul(a, s), hn::Mul(b, c)), factor), d, out + 2 * i);
  }
  for (; i < n_pairs; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    out[2 * i] = (a * cos[i] - b * sin[i]) * scale;
    out[2 * i + 1] = (a * sin[i] + b * cos[i]) * scale;
  }
}

const char* PageTargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace kvscope::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvscope::cpu {

HWY_EXPORT(AccumulateWeights);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(RotatePage);
HWY_EXPORT(RotatePairs);
HWY_EXPORT(PageTargetName);

void accumulate_weights(std::span<const float> logits, float lse, float weight, float* acc) {
  HWY_DYNAMIC_DISPATCH(AccumulateWeights)(logits, lse, weight, acc);
}
void scale_row(float* x, int n, float s) { HWY_DYNAMIC_DISPATCH(ScaleRow)(x, n, s); }
void rotate_page(const std::byte* keys, DType dtype, int head_dim, const RopeTable& rope,
                 const int* ranks, int live, float* out) {
  HWY_DYNAMIC_DISPATCH(RotatePage)(keys, dtype, head_dim, rope, ranks, live, out);
}
void rotate_pairs(const float* x, int n_pairs, const float* cos, const float* sin, float scale,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(RotatePairs)(x, n_pairs, cos, sin, scale, out);
}
std::string vector_target() { return HWY_DYNAMIC_DISPATCH(PageTargetName)(); }

}  // namespace kvscope::cpu
#endif
