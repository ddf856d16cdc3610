#include "runner/backend/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/base/half.h"

// Highway compiles what follows once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runner/backend/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// (math needs the includes above)
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace kvscope::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Applies a lane-wise function in whole vectors; the last ones go through a padded copy, so a
// lane's arithmetic does not depend on its place.
template <class Function>
void for_each_vector(std::size_t n, const float* a, const float* b, float* out, Function function) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(function(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
  if (i == n) return;
  HWY_ALIGN float pad_a[hn::MaxLanes(d)] = {};
  HWY_ALIGN float pad_b[hn::MaxLanes(d)] = {};
  HWY_ALIGN float result[hn::MaxLanes(d)];
  std::copy(a + i, a + n, pad_a);
  std::copy(b + i, b + n, pad_b);
  hn::Store(function(hn::Load(d, pad_a), hn::Load(d, pad_b)), d, result);
  std::copy(result, result + (n - i), out + i);
}

double sum_of_squares(const float* x, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const std::size_t lanes = hn::Lanes(d);
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto v = hn::PromoteTo(d, hn::LoadU(narrow, x + i));
    const auto w = hn::PromoteTo(d, hn::LoadU(narrow, x + i + lanes));
    even = hn::MulAdd(v, v, even);
    odd = hn::MulAdd(w, w, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) sum += double(x[i]) * double(x[i]);
  return sum;
}

void RmsNormRow(const float* x, const float* weight, std::size_t n, float eps, float* y) {
  const double mean = sum_of_squares(x, n) / double(n);
  const auto scale = hn::Set(hn::ScalableTag<float>(), float(1.0 / std::sqrt(mean + double(eps))));
  for_each_vector(n, x, weight, y, [&](auto v, auto w) { return hn::Mul(hn::Mul(v, scale), w); });
}

void LayerNormRow(const float* x, const float* weight, const float* bias, std::size_t n, float eps,
                  float* y) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += double(x[i]);
  const double mean = sum / double(n);
  double squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) squares += (double(x[i]) - mean) * (double(x[i]) - mean);
  const double scale = 1.0 / std::sqrt(squares / double(n) + double(eps));
  for (std::size_t i = 0; i < n; ++i)
    y[i] = float((double(x[i]) - mean) * scale) * weight[i] + bias[i];
}

// gelu(x) ≈ x · σ(2u), u = √(2/π) (x + 0.044715 x³): tanh written as a logistic function.
template <class D, class V>
V gelu_tanh(D d, V x) {
  const auto cubed = hn::Mul(hn::Mul(x, x), x);
  const auto u = hn::Mul(hn::Set(d, 0.7978845608F), hn::MulAdd(hn::Set(d, 0.044715F), cubed, x));
  // Highway's Exp is valid up to 104.
  const auto e = hn::Exp(d, hn::Min(hn::Mul(hn::Set(d, -2.0F), u), hn::Set(d, 100.0F)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), e));
}

void GegluRow(const float* gate, const float* up, std::size_t n, float* y) {
  const hn::ScalableTag<float> d;
  for_each_vector(n, gate, up, y, [&](auto g, auto u) { return hn::Mul(gelu_tanh(d, g), u); });
}

void GeluTanhRow(const float* x, std::size_t n, float* y) {
  const hn::ScalableTag<float> d;
  for_each_vector(n, x, x, y, [&](auto v, auto) { return gelu_tanh(d, v); });
}

void ReluRow(const float* x, std::size_t n, float* y) {
  const hn::ScalableTag<float> d;
  // Not Max: NaN must stay one.
  for_each_vector(n, x, x, y,
                  [&](auto v, auto) { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); });
}

void SwigluRow(const float* gate, const float* up, std::size_t n, float* y) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0F);
  // Highway's Exp is valid up to 104; from 89 on it is infinite and the result zero, where silu(g)
  // is below 1e-36.
  const auto largest = hn::Set(d, 100.0F);
  for_each_vector(n, gate, up, y, [&](auto g, auto u) {
    const auto e = hn::Exp(d, hn::Min(hn::Neg(g), largest));
    return hn::Mul(hn::Div(g, hn::Add(one, e)), u);
  });
}

void AddSpan(const float* x, std::size_t n, float* y) {
  for_each_vector(n, x, y, y, [](auto a, auto b) { return hn::Add(a, b); });
}

double LogSumExpRow(const float* x, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> half;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t whole = n / lanes * lanes;

  auto maxima = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto all = hn::Zero(d);  // NaN as soon as one logit is; maxima and exponentials would hide it
  for (std::size_t i = 0; i < whole; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    maxima = hn::Max(maxima, v);
    all = hn::Add(all, hn::IfThenZeroElse(hn::Eq(v, v), v));
  }
  float max = hn::GetLane(hn::MaxOfLanes(d, maxima));
  bool has_nan = std::isnan(hn::GetLane(hn::SumOfLanes(d, all)));
  for (std::size_t i = whole; i < n; ++i) {
    max = std::max(max, x[i]);
    has_nan = has_nan || std::isnan(x[i]);
  }
  if (has_nan) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(max)) return double(max);

  const auto shift = hn::Set(d, max);
  const auto exponential = [&](auto v) { return hn::Exp(d, hn::Sub(v, shift)); };
  HWY_ALIGN float e[hn::MaxLanes(d)];
  auto even = hn::Zero(wide);
  auto odd = hn::Zero(wide);
  const std::size_t step = hn::Lanes(wide);
  const auto accumulate = [&] {
    even = hn::Add(even, hn::PromoteTo(wide, hn::LoadU(half, e)));
    if (step < lanes) odd = hn::Add(odd, hn::PromoteTo(wide, hn::LoadU(half, e + step)));
  };
  for (std::size_t i = 0; i < whole; i += lanes) {
    hn::Store(exponential(hn::LoadU(d, x + i)), d, e);
    accumulate();
  }
  if (whole < n) {
    HWY_ALIGN float rest[hn::MaxLanes(d)];
    std::fill(rest, rest + lanes, -std::numeric_limits<float>::infinity());
    std::copy(x + whole, x + n, rest);
    hn::Store(exponential(hn::Load(d, rest)), d, e);
    accumulate();
  }
  return double(max) + std::log(hn::GetLane(hn::SumOfLanes(wide, hn::Add(even, odd))));
}

void RoundSpan(const float* x, std::size_t n, std::uint16_t* y) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<float, decltype(d)> floats;
  const hn::Rebind<std::uint16_t, decltype(d)> narrow;
  const std::size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1U);
  const auto almost_half = hn::Set(d, 0x7fffU);
  const auto quiet = hn::Set(d, 0x40U);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(floats, x + i);
    const auto bits = hn::BitCast(d, v);
    const auto high = hn::ShiftRight<16>(bits);
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(hn::Add(bits, almost_half), hn::And(high, one)));
    const auto is_nan = hn::RebindMask(d, hn::Ne(v, v));
    hn::StoreU(hn::TruncateTo(narrow, hn::IfThenElse(is_nan, hn::Or(high, quiet), rounded)), narrow,
               y + i);
  }
  for (; i < n; ++i) y[i] = bf16_bits(x[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace kvscope::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvscope::cpu {
namespace {

HWY_EXPORT(RmsNormRow);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(SwigluRow);
HWY_EXPORT(GegluRow);
HWY_EXPORT(GeluTanhRow);
HWY_EXPORT(ReluRow);
HWY_EXPORT(AddSpan);
HWY_EXPORT(LogSumExpRow);
HWY_EXPORT(RoundSpan);

// Less work than this is done sooner by the caller alone.
constexpr std::size_t kFloatsPerTask = 8192;

// Calls function(begin, end) for ranges of [0, n) items of `item_floats` each.
template <class Function>
void for_ranges(ThreadPool& pool, std::size_t n, std::size_t item_floats, Function function) {
  const std::size_t items =
      std::max<std::size_t>(1, kFloatsPerTask / std::max<std::size_t>(1, item_floats));
  if (n <= items) {
    if (n > 0) function(std::size_t{0}, n);
    return;
  }
  pool.parallel_for((n + items - 1) / items,
                    [&](std::size_t i, int) { function(i * items, std::min(n, (i + 1) * items)); });
}

// By erf, exact: no vector form of it is at hand.
void gelu_row(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i)
    y[i] = 0.5F * x[i] * (1.0F + std::erf(x[i] * 0.70710678118654752F));
}

}  // namespace

void rms_norm(ThreadPool& pool, const float* x, std::span<const float> weight, float eps, int rows,
              float* y) {
  const std::size_t n = weight.size();
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(RmsNormRow)(x + r * n, weight.data(), n, eps, y + r * n);
    }
  });
}

void swiglu(ThreadPool& pool, const float* gate_up, int rows, int d_ff, float* y) {
  const std::size_t n = d_ff;
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* gate = gate_up + 2 * r * n;
      HWY_DYNAMIC_DISPATCH(SwigluRow)(gate, gate + n, n, y + r * n);
    }
  });
}

void add(ThreadPool& pool, std::span<const float> x, float* y) {
  for_ranges(pool, x.size(), 1, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(AddSpan)(x.data() + begin, end - begin, y + begin);
  });
}

void layer_norm(ThreadPool& pool, const float* x, std::span<const float> weight,
                std::span<const float> bias, float eps, int rows, float* y) {
  const std::size_t n = weight.size();
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(LayerNormRow)
      (x + r * n, weight.data(), bias.data(), n, eps, y + r * n);
    }
  });
}

void add_bias(ThreadPool& pool, std::span<const float> bias, int rows, float* y) {
  const std::size_t n = bias.size();
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      HWY_DYNAMIC_DISPATCH(AddSpan)(bias.data(), n, y + r * n);
  });
}

void norm_heads(ThreadPool& pool, const AttentionShape& shape, std::span<const float> query_weight,
                std::span<const float> key_weight, float eps, int rows, float* qkv) {
  const auto d = std::size_t(shape.head_dim);
  const std::size_t n = shape.row_floats();
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      for (int h = 0; h < shape.n_heads + shape.n_kv_heads; ++h) {
        float* head = qkv + r * n + h * d;
        const float* weight = h < shape.n_heads ? query_weight.data() : key_weight.data();
        HWY_DYNAMIC_DISPATCH(RmsNormRow)(head, weight, d, eps, head);
      }
    }
  });
}

void activate(ThreadPool& pool, Activation activation, const float* x, int rows, int d_ff,
              float* y) {
  const std::size_t n = d_ff;
  const std::size_t width = is_gated(activation) ? 2 * n : n;
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* row = x + r * width;
      float* out = y + r * n;
      switch (activation) {
        case Activation::kSwiGlu:
          HWY_DYNAMIC_DISPATCH(SwigluRow)(row, row + n, n, out);
          break;
        case Activation::kGeGluTanh:
          HWY_DYNAMIC_DISPATCH(GegluRow)(row, row + n, n, out);
          break;
        case Activation::kRelu:
          HWY_DYNAMIC_DISPATCH(ReluRow)(row, n, out);
          break;
        case Activation::kGelu:
          gelu_row(row, n, out);
          break;
        case Activation::kGeluTanh:
          HWY_DYNAMIC_DISPATCH(GeluTanhRow)(row, n, out);
          break;
      }
    }
  });
}

void log_sum_exp(ThreadPool& pool, const float* logits, int rows, std::size_t n, double* lse) {
  for_ranges(pool, rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      lse[r] = HWY_DYNAMIC_DISPATCH(LogSumExpRow)(logits + r * n, n);
  });
}

void round_to_bf16(std::span<const float> x, std::uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(RoundSpan)(x.data(), x.size(), y);
}

void round_to_bf16(ThreadPool& pool, std::span<const float> x, std::uint16_t* y) {
  for_ranges(pool, x.size(), 1, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(RoundSpan)(x.data() + begin, end - begin, y + begin);
  });
}

}  // namespace kvscope::cpu
#endif  // HWY_ONCE
