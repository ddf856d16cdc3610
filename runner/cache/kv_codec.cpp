#include "runner/cache/kv_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "runner/base/half.h"

namespace kvscope {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// To nearest, ties to even, for small |x|: adding 1.5 · 2^(mantissa bits) leaves none for a
// fraction.
float round_half_even(float x) {
  constexpr float kShift = 0x1.8p23F;
  return (x + kShift) - kShift;
}
double round_half_even(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

struct Fp8Layout {
  int mantissa_bits;
  int bias;
  std::uint32_t largest;  // code of the largest finite value
  std::uint32_t nan;
};
constexpr Fp8Layout kE4M3{3, 7, 0x7e, 0x7f};
constexpr Fp8Layout kE5M2{2, 15, 0x7b, 0x7f};

const Fp8Layout& layout_of(KvFormat format) { return format == KvFormat::kFp8E5M2 ? kE5M2 : kE4M3; }

constexpr float widen(std::uint32_t code, const Fp8Layout& f) {
  const std::uint32_t magnitude = code & 0x7fU;
  const auto exponent = int(magnitude >> f.mantissa_bits);
  const std::uint32_t fraction = magnitude & ((1U << f.mantissa_bits) - 1U);
  float value = 0.0F;
  if (magnitude > f.largest) {
    const bool infinite = f.bias == kE5M2.bias && fraction == 0;
    value = infinite ? std::numeric_limits<float>::infinity() : kNaN;
  } else if (exponent == 0) {  // subnormal: fraction · 2^(1 - bias - mantissa_bits)
    value = float(fraction) *
            std::bit_cast<float>(std::uint32_t(1 - f.bias - f.mantissa_bits + 127) << 23);
  } else {
    value = std::bit_cast<float>(std::uint32_t(exponent - f.bias + 127) << 23 |
                                 fraction << (23 - f.mantissa_bits));
  }
  return (code & 0x80U) != 0 ? -value : value;
}

constexpr std::array<float, 256> table_of(const Fp8Layout& f) {
  std::array<float, 256> values{};
  for (std::uint32_t code = 0; code < 256; ++code) values[code] = widen(code, f);
  return values;
}
constexpr std::array<float, 256> kE4M3Values = table_of(kE4M3);
constexpr std::array<float, 256> kE5M2Values = table_of(kE5M2);
const float* fp8_values(KvFormat format) {
  return format == KvFormat::kFp8E5M2 ? kE5M2Values.data() : kE4M3Values.data();
}

std::uint8_t int8_code(float x, float scale) {
  const float code = std::clamp(x / scale, -127.0F, 127.0F);
  return std::uint8_t(std::int8_t(round_half_even(code)));
}

bool all_finite(std::span<const float> x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

constexpr double kLargestF16 = 65504.0;

// The float16 number at or next below (above) x; beyond the largest it saturates. x is finite.
std::uint16_t f16_below(double x) {
  const std::uint16_t h = f16_bits(float(std::clamp(x, -kLargestF16, kLargestF16)));
  if (double(from_f16_bits(h)) <= std::max(x, -kLargestF16)) return h;
  return std::uint16_t((h & 0x8000U) != 0 ? h + 1 : h - 1);  // away from zero, or towards it
}
std::uint16_t f16_above(double x) { return std::uint16_t(f16_below(-x) ^ 0x8000U); }

}  // namespace

std::uint8_t fp8_bits(float x, KvFormat format) {
  const Fp8Layout& f = layout_of(format);
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 24 & 0x80U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return std::uint8_t(sign | f.nan);
  const int exponent = int(magnitude >> 23) - 127;
  const int least = 1 - f.bias;  // exponent of the least normal number and of subnormal ones
  if (exponent < least - f.mantissa_bits - 1) return std::uint8_t(sign);  // < half the least
  if (exponent > f.bias + 1) return std::uint8_t(sign | f.largest);
  const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
  const int kept = std::max(exponent, least);
  const int shift = 23 - f.mantissa_bits + (kept - exponent);
  std::uint32_t code = (std::uint32_t(kept - least) << f.mantissa_bits) + (mantissa >> shift);
  const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
  const std::uint32_t tie = 1U << (shift - 1);
  // A carry moves into the exponent, as it should.
  if (rest > tie || (rest == tie && (code & 1U) != 0U)) ++code;
  return std::uint8_t(sign | std::min(code, f.largest));
}

float from_fp8_bits(std::uint8_t code, KvFormat format) { return fp8_values(format)[code]; }

float largest_fp8(KvFormat format) {
  return from_fp8_bits(std::uint8_t(layout_of(format).largest), format);
}

float quantise_token(std::span<const float> x, KvFormat format, std::uint8_t* codes) {
  assert(format != KvFormat::kPlain);
  float largest = 0.0F;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  const float scale = largest / (format == KvFormat::kInt8 ? 127.0F : largest_fp8(format));
  if (!all_finite(x) || scale == 0.0F) {
    std::fill_n(codes, x.size(), std::uint8_t(0));
    return all_finite(x) ? 0.0F : kNaN;
  }
  quantise_with_scale(x, scale, format, codes);
  return scale;
}

void quantise_with_scale(std::span<const float> x, float scale, KvFormat format,
                         std::uint8_t* codes) {
  if (format == KvFormat::kInt8) {
    for (std::size_t i = 0; i < x.size(); ++i)
      codes[i] = std::isnan(x[i]) ? std::uint8_t(0) : int8_code(x[i], scale);
  } else {
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = fp8_bits(x[i] / scale, format);
  }
}

void dequantise(std::span<const std::uint8_t> codes, float scale, KvFormat format, float* out) {
  if (format == KvFormat::kInt8) {
    for (std::size_t i = 0; i < codes.size(); ++i) out[i] = float(std::int8_t(codes[i])) * scale;
  } else {
    const float* values = fp8_values(format);
    for (std::size_t i = 0; i < codes.size(); ++i) out[i] = values[codes[i]] * scale;
  }
}

void dequantise(std::span<const std::uint8_t> codes, const float* scales, KvFormat format,
                float* out) {
  if (format == KvFormat::kInt8) {
    for (std::size_t i = 0; i < codes.size(); ++i)
      out[i] = float(std::int8_t(codes[i])) * scales[i];
  } else {
    const float* values = fp8_values(format);
    for (std::size_t i = 0; i < codes.size(); ++i) out[i] = values[codes[i]] * scales[i];
  }
}

MinMax min_max_of(std::span<const float> x, int bits) {
  if (!all_finite(x)) return {kNaN, 0.0F};
  const auto [least, largest] = std::minmax_element(x.begin(), x.end());
  // In double: the difference of two float32 numbers may overflow.
  return {float((double(*largest) - double(*least)) / ((1 << bits) - 1)), *least};
}

MinMax StoredMinMax::wide() const { return {from_f16_bits(scale), from_f16_bits(zero)}; }

StoredMinMax stored_min_max_of(std::span<const float> x, int bits) {
  if (!all_finite(x)) return {0x7e00, 0};
  const auto [least, largest] = std::minmax_element(x.begin(), x.end());
  if (*least == *largest)
    return {0, f16_bits(float(std::clamp(double(*least), -kLargestF16, kLargestF16)))};
  const std::uint16_t zero = f16_below(*least);
  const double range = double(*largest) - double(from_f16_bits(zero));
  return {f16_above(range / ((1 << bits) - 1)), zero};
}

std::uint32_t min_max_code(float x, MinMax group, int bits) {
  if (!(group.scale > 0.0F)) return 0;  // constant, or NaN
  const double largest = (1 << bits) - 1;
  const double code = (double(x) - double(group.zero)) / double(group.scale);
  return std::uint32_t(round_half_even(std::clamp(code, 0.0, largest)));
}

}  // namespace kvscope
