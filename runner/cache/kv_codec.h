// Quantisation of keys and values as pure functions (policies.md 4).
//
//   int8  scale = max|x| / 127         code = round(x / scale) in [-127, 127]
//
//   fp8   scale = max|x| / largest     code = E4M3FN or E5M2 of x / scale, saturating
//
//   kivi  zero = min, scale = (max - min) / (2^bits - 1)     code = round((x - zero) / scale)
//
// Rounding is to nearest, ties to even. A constant kivi group has scale 0 and codes 0. A token or
// group with a value that is not finite gets a NaN scale and codes 0: it reads back as NaN, which
// nothing downstream can mistake for a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runner/cache/kv_format.h"

namespace kvscope {

// One byte of 8-bit floating point (OCP: E4M3 without infinities, E5M2). Beyond the largest finite
// value saturates, infinity too; NaN stays NaN.
std::uint8_t fp8_bits(float x, KvFormat format);
float from_fp8_bits(std::uint8_t code, KvFormat format);
float largest_fp8(KvFormat format);  // 448 or 57344

// Codes of one token under one scale, of a format other than kPlain. Returns the scale.
float quantise_token(std::span<const float> x, KvFormat format, std::uint8_t* codes);
// The same with a scale from outside (> 0).
void quantise_with_scale(std::span<const float> x, float scale, KvFormat format,
                         std::uint8_t* codes);
// out[i] = value of codes[i] · scale, or · scales[i].
void dequantise(std::span<const std::uint8_t> codes, float scale, KvFormat format, float* out);
void dequantise(std::span<const std::uint8_t> codes, const float* scales, KvFormat format,
                float* out);

// Asymmetric min-max parameters of one kivi group: x ≈ code · scale + zero.
struct MinMax {
  float scale = 0.0F;
  float zero = 0.0F;
};
MinMax min_max_of(std::span<const float> x, int bits);

// The same as two float16 numbers, as they are stored. zero is rounded down and scale up, so that
// codes still reach from the least to the largest value and errors stay ≤ scale / 2; of a constant
// group zero is the nearest. Values beyond ±65504 saturate.
struct StoredMinMax {
  std::uint16_t scale = 0;  // float16
  std::uint16_t zero = 0;   // float16
  MinMax wide() const;
};
StoredMinMax stored_min_max_of(std::span<const float> x, int bits);

std::uint32_t min_max_code(float x, MinMax group, int bits);
inline float from_min_max_code(std::uint32_t code, MinMax group) {
  return float(code) * group.scale + group.zero;
}

// Codes of 2, 4 or 8 bits in 32-bit words, the first in the low bits; a row starts with a word.
constexpr int codes_per_word(int bits) { return 32 / bits; }
constexpr int words_for(int n_codes, int bits) {
  return (n_codes + codes_per_word(bits) - 1) / codes_per_word(bits);
}
inline void pack_code(std::uint32_t* row, int i, int bits, std::uint32_t code) {
  const int shift = i % codes_per_word(bits) * bits;
  const std::uint32_t mask = (1U << bits) - 1U;
  std::uint32_t& word = row[i / codes_per_word(bits)];
  word = (word & ~(mask << shift)) | code << shift;
}
inline std::uint32_t unpack_code(const std::uint32_t* row, int i, int bits) {
  const std::uint32_t word = row[i / codes_per_word(bits)];
  return (word >> (i % codes_per_word(bits) * bits)) & ((1U << bits) - 1U);
}

}  // namespace kvscope
