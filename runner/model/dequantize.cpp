// Block layouts (little endian; "half" is binary16). Every group of 32 four-bit values keeps
// element l in the low half of byte l and element l + 16 in its high half; the K types use wider
// groups, described at each function.
#include "runner/model/dequantize.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace kvscope {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read as little endian");

using Bytes = const std::uint8_t*;

std::uint16_t u16_at(Bytes p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::uint32_t u32_at(Bytes p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

float half_at(Bytes p) { return half_to_float(u16_at(p)); }

int nibble(Bytes quants, int element) {  // element in [0, 32)
  return (quants[element % 16] >> (element < 16 ? 0 : 4)) & 0xF;
}

void f32_block(Bytes p, float* out) { std::memcpy(out, p, sizeof(float)); }

void f16_block(Bytes p, float* out) { *out = half_at(p); }

void bf16_block(Bytes p, float* out) {
  *out = std::bit_cast<float>(static_cast<std::uint32_t>(u16_at(p)) << 16);
}

// half d, quants[16]: d · (q − 8)
void q4_0_block(Bytes p, float* out) {
  const float d = half_at(p);
  for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(nibble(p + 2, l) - 8);
}

// half d, half m, quants[16]: d · q + m
void q4_1_block(Bytes p, float* out) {
  const float d = half_at(p);
  const float m = half_at(p + 2);
  for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(nibble(p + 4, l)) + m;
}

int five_bits(std::uint32_t high, Bytes quants, int element) {
  return nibble(quants, element) | static_cast<int>(((high >> element) & 1U) << 4);
}

// half d, fifth bits (32), quants[16]: d · (q − 16)
void q5_0_block(Bytes p, float* out) {
  const float d = half_at(p);
  const std::uint32_t high = u32_at(p + 2);
  for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(five_bits(high, p + 6, l) - 16);
}

// half d, half m, fifth bits (32), quants[16]: d · q + m
void q5_1_block(Bytes p, float* out) {
  const float d = half_at(p);
  const float m = half_at(p + 2);
  const std::uint32_t high = u32_at(p + 4);
  for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(five_bits(high, p + 8, l)) + m;
}

// half d, int8 quants[32]: d · q
void q8_0_block(Bytes p, float* out) {
  const float d = half_at(p);
  for (int l = 0; l < 32; ++l) {
    out[l] = d * static_cast<float>(static_cast<std::int8_t>(p[2 + l]));
  }
}

// Scale and minimum of sub-block j (0 … 7) out of 12 bytes: six bits each; the upper two of
// sub-blocks 4 … 7 are the upper two bits of the first eight bytes.
struct ScaleMin {
  int scale, min;
};
ScaleMin scale_min(Bytes packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 0xF) | ((packed[j - 4] >> 6) << 4),
          (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)};
}

// Q4_K: half d, half dmin, packed[12], quants[128]. Q5_K has fifth bits [32] before the quants: bit
// j of byte l is that of element l of sub-block j. Sub-blocks 2c and 2c + 1 are the low and high
// halves of quants[32c …]. (d · scale) · q − (dmin · min)
void k_block(Bytes p, Bytes high, Bytes quants, float* out) {
  const float d = half_at(p);
  const float dmin = half_at(p + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(p + 4, j);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    for (int l = 0; l < 32; ++l) {
      int q = (quants[32 * (j / 2) + l] >> (4 * (j % 2))) & 0xF;
      if (high != nullptr) q |= ((high[l] >> j) & 1) << 4;
      out[32 * j + l] = scale * static_cast<float>(q) - min;
    }
  }
}

void q4_k_block(Bytes p, float* out) { k_block(p, nullptr, p + 16, out); }

void q5_k_block(Bytes p, float* out) { k_block(p, p + 16, p + 48, out); }

// Of the 64 quants of Q2_K and Q3_K: a half of 128 elements has four quarters k of 32 whose two
// bits are bits 2k, 2k + 1 of quants[32h + l].
int two_bits(Bytes quants, int element) {
  const int quarter = element % 128 / 32;
  return (quants[32 * (element / 128) + element % 32] >> (2 * quarter)) & 3;
}

// Scales[16], quants[64], half d, half dmin: a byte's low half is the scale of 16 elements, its
// high half their minimum. (d · scale) · q − (dmin · min)
void q2_k_block(Bytes p, float* out) {
  const float d = half_at(p + 80);
  const float dmin = half_at(p + 82);
  for (int e = 0; e < 256; ++e) {
    const int packed = p[e / 16];
    const float scale = d * static_cast<float>(packed & 0xF);
    const float min = dmin * static_cast<float>(packed >> 4);
    out[e] = scale * static_cast<float>(two_bits(p + 16, e)) - min;
  }
}

// Third bits[32] (bit 4h + k of byte l for element l of quarter k of half h), quants[64],
// packed[12], half d. A scale of 16 elements has six bits: the lower four of scales 0 … 7 are the
// low halves of packed[0 … 7], those of 8 … 15 the high halves; the upper two of scale j are bits
// 2(j / 4), … of packed[8 + j mod 4]. (d · (scale − 32)) · (q − 4)
void q3_k_block(Bytes p, float* out) {
  const Bytes packed = p + 96;
  const float d = half_at(p + 108);
  for (int e = 0; e < 256; ++e) {
    const int j = e / 16;
    const int lower = (packed[j % 8] >> (4 * (j / 8))) & 0xF;
    const int upper = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
    const float scale = d * static_cast<float>((lower | (upper << 4)) - 32);
    const int third = (p[e % 32] >> (e / 32)) & 1;
    out[e] = scale * static_cast<float>((two_bits(p + 32, e) | (third << 2)) - 4);
  }
}

// The levels of IQ4_NL and IQ4_XS lie closer near zero.
constexpr std::array<int, 16> kLevels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

// half d, quants[16]: d · level(q)
void iq4_nl_block(Bytes p, float* out) {
  const float d = half_at(p);
  for (int l = 0; l < 32; ++l)
    out[l] = d * static_cast<float>(kLevels[static_cast<std::size_t>(nibble(p + 2, l))]);
}

// half d, upper bits (16), lower halves[4], quants[128]: eight sub-blocks of 32 with a scale of six
// bits each. (d · (scale − 32)) · level(q)
void iq4_xs_block(Bytes p, float* out) {
  const float d = half_at(p);
  const int high = u16_at(p + 2);
  for (int j = 0; j < 8; ++j) {
    const int lower = (p[4 + j / 2] >> (4 * (j % 2))) & 0xF;
    const int upper = (high >> (2 * j)) & 3;
    const float scale = d * static_cast<float>((lower | (upper << 4)) - 32);
    for (int l = 0; l < 32; ++l) {
      const auto q = static_cast<std::size_t>(nibble(p + 8 + 16 * j, l));
      out[32 * j + l] = scale * static_cast<float>(kLevels[q]);
    }
  }
}

// low[128], high[64], int8 scales[16], half d. A half of 128 elements has four quarters k of 32:
// quarters 0, 1 are the low and 2, 3 the high halves of low[64h …], the upper two bits are bits 2k,
// 2k + 1 of high[32h + l]; a scale serves 16 elements. (d · scale) · (q − 32)
void q6_k_block(Bytes p, float* out) {
  const Bytes low = p;
  const Bytes high = p + 128;
  const Bytes scales = p + 192;
  const float d = half_at(p + 208);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128;
    const int quarter = e % 128 / 32;
    const int l = e % 32;
    const int lower = (low[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2))) & 0xF;
    const int upper = (high[32 * half + l] >> (2 * quarter)) & 3;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[e / 16]));
    out[e] = scale * static_cast<float>((lower | (upper << 4)) - 32);
  }
}

using BlockFunction = void (*)(Bytes, float*);

BlockFunction function_for(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return f32_block;
    case TensorType::kF16:
      return f16_block;
    case TensorType::kBF16:
      return bf16_block;
    case TensorType::kQ4_0:
      return q4_0_block;
    case TensorType::kQ4_1:
      return q4_1_block;
    case TensorType::kQ5_0:
      return q5_0_block;
    case TensorType::kQ5_1:
      return q5_1_block;
    case TensorType::kQ8_0:
      return q8_0_block;
    case TensorType::kQ2_K:
      return q2_k_block;
    case TensorType::kQ3_K:
      return q3_k_block;
    case TensorType::kIQ4_NL:
      return iq4_nl_block;
    case TensorType::kIQ4_XS:
      return iq4_xs_block;
    case TensorType::kQ4_K:
      return q4_k_block;
    case TensorType::kQ5_K:
      return q5_k_block;
    case TensorType::kQ6_K:
      return q6_k_block;
  }
  return nullptr;
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: fraction · 2^-24, exact in float32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockFormat format = *block_format(static_cast<std::uint32_t>(type));
  const BlockFunction decode = function_for(type);
  assert(out.size() % format.elements == 0);
  assert(out.size() / format.elements * format.bytes == blocks.size());
  auto source = reinterpret_cast<Bytes>(blocks.data());
  float* target = out.data();
  for (std::size_t n = out.size() / format.elements; n > 0; --n) {
    decode(source, target);
    source += format.bytes;
    target += format.elements;
  }
}

}  // namespace kvscope
