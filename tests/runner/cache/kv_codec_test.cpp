// The quantisation vectors of policy-vectors.json and the properties of policies.md 9.18.
#include "runner/cache/kv_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace kvscope {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr KvFormat kTokenFormats[] = {KvFormat::kInt8, KvFormat::kFp8E4M3, KvFormat::kFp8E5M2};

const json& vector_named(const std::string& id) {
  static const json document = json::parse(std::ifstream(
      std::string(KVSCOPE_SOURCE_DIR) + "/tests/runner/policies/policy-vectors.json"));
  for (const json& vector : document.at("vectors")) {
    if (vector.at("id") == id) return vector;
  }
  throw std::runtime_error("policy-vectors.json has no vector " + id);
}

std::vector<float> random_floats(std::mt19937& engine, int n, float spread, float middle = 0.0F) {
  std::normal_distribution<float> normal(middle, spread);
  std::vector<float> x(n);
  for (float& value : x) value = normal(engine);
  return x;
}

std::vector<float> read_back(const std::vector<std::uint8_t>& codes, float scale, KvFormat format) {
  std::vector<float> x(codes.size());
  dequantise(codes, scale, format, x.data());
  return x;
}

struct KiviGroup {
  std::vector<std::uint32_t> codes;
  std::vector<float> dequantised;
};
KiviGroup coded(std::span<const float> x, MinMax group, int bits) {
  KiviGroup out;
  for (const float value : x) {
    out.codes.push_back(min_max_code(value, group, bits));
    out.dequantised.push_back(from_min_max_code(out.codes.back(), group));
  }
  return out;
}

void expect_group(const std::vector<float>& x, int bits, const json& expected) {
  const MinMax group = min_max_of(x, bits);
  EXPECT_EQ(group.scale, expected.at("scale").get<float>());
  EXPECT_EQ(group.zero, expected.at("zero").get<float>());
  const KiviGroup got = coded(x, group, bits);
  EXPECT_THAT(got.codes, ElementsAreArray(expected.at("codes").get<std::vector<std::uint32_t>>()));
  EXPECT_THAT(got.dequantised, ElementsAreArray(expected.at("dequant").get<std::vector<float>>()));
}

TEST(KvCodecVectors, KiviQuant) {
  const json& vector = vector_named("kivi-quant");
  const int bits = vector.at("params").at("bits");
  const auto keys = vector.at("input").at("K").get<std::vector<std::vector<float>>>();
  const json& expected = vector.at("expect");
  for (std::size_t channel = 0; channel < keys[0].size(); ++channel) {
    std::vector<float> x;
    for (const auto& token : keys) x.push_back(token[channel]);
    expect_group(x, bits, expected.at("K_per_channel").at(channel));
  }
  const auto values = vector.at("input").at("V").get<std::vector<std::vector<float>>>();
  for (std::size_t token = 0; token < values.size(); ++token)
    expect_group(values[token], bits, expected.at("V_per_token").at(token));

  const json& packed = expected.at("packed_low_bits_first");
  const auto word_of = [&](const json& group) {
    std::uint32_t word = 0;
    int i = 0;
    for (const json& code : group.at("codes")) pack_code(&word, i++, bits, code);
    return word;
  };
  EXPECT_EQ(word_of(expected.at("K_per_channel").at(0)), packed.at("K_ch0"));
  EXPECT_EQ(word_of(expected.at("V_per_token").at(0)), packed.at("V_t0"));
}

TEST(KvCodecVectors, KiviConstantGroup) {
  const json& vector = vector_named("kivi-constant-group");
  const auto x = vector.at("input").at("vals").get<std::vector<float>>();
  expect_group(x, vector.at("params").at("bits"), vector.at("expect"));
}

TEST(KvCodecVectors, Int8SymmetricPerToken) {
  const json& vector = vector_named("int8-sym-per-token");
  const auto x = vector.at("input").at("vals").get<std::vector<float>>();
  std::vector<std::uint8_t> codes(x.size());
  const float scale = quantise_token(x, KvFormat::kInt8, codes.data());
  EXPECT_EQ(scale, vector.at("expect").at("scale").get<float>());
  std::vector<int> signed_codes;
  for (const std::uint8_t code : codes) signed_codes.push_back(std::int8_t(code));
  EXPECT_THAT(signed_codes,
              ElementsAreArray(vector.at("expect").at("codes").get<std::vector<int>>()));
  EXPECT_THAT(read_back(codes, scale, KvFormat::kInt8),
              ElementsAreArray(vector.at("expect").at("dequant").get<std::vector<float>>()));
}

TEST(KvCodecVectors, Fp8Roundtrip) {
  const json& vector = vector_named("fp8-roundtrip");
  const auto x = vector.at("input").at("vals").get<std::vector<float>>();
  const float scale = vector.at("params").at("scale");
  const std::pair<const char*, KvFormat> kinds[] = {{"e4m3fn", KvFormat::kFp8E4M3},
                                                    {"e5m2", KvFormat::kFp8E5M2}};
  for (const auto& [name, format] : kinds) {
    std::vector<std::uint8_t> codes(x.size());
    quantise_with_scale(x, scale, format, codes.data());
    EXPECT_THAT(read_back(codes, scale, format),
                ElementsAreArray(vector.at("expect").at(name).get<std::vector<float>>()))
        << name;
  }
}

TEST(Fp8, EveryCodeReadsBackAsItselfAndTiesGoToTheEvenCode) {
  for (const KvFormat format : {KvFormat::kFp8E4M3, KvFormat::kFp8E5M2}) {
    float below = 0.0F;
    for (int code = 0; code < 256; ++code) {
      const float x = from_fp8_bits(std::uint8_t(code), format);
      if (!std::isfinite(x)) continue;
      EXPECT_EQ(fp8_bits(x, format), code) << name_of(format);
      if (code == 0 || code >= 0x80) continue;
      EXPECT_GT(x, below);
      const float middle = (below + x) / 2.0F;
      EXPECT_EQ(fp8_bits(middle, format), code % 2 == 0 ? code : code - 1) << name_of(format);
      EXPECT_EQ(fp8_bits(std::nextafter(middle, kInfinity), format), code) << name_of(format);
      EXPECT_EQ(fp8_bits(std::nextafter(middle, 0.0F), format), code - 1) << name_of(format);
      below = x;
    }
    EXPECT_EQ(below, largest_fp8(format));
  }
  EXPECT_EQ(largest_fp8(KvFormat::kFp8E4M3), 448.0F);
  EXPECT_EQ(largest_fp8(KvFormat::kFp8E5M2), 57344.0F);
  EXPECT_EQ(from_fp8_bits(0x01, KvFormat::kFp8E4M3), 0x1p-9F);
  EXPECT_EQ(from_fp8_bits(0x01, KvFormat::kFp8E5M2), 0x1p-16F);
}

TEST(Fp8, SaturatesAndKeepsNaN) {
  for (const KvFormat format : {KvFormat::kFp8E4M3, KvFormat::kFp8E5M2}) {
    for (const float x : {1e6F, std::numeric_limits<float>::max(), kInfinity}) {
      EXPECT_EQ(from_fp8_bits(fp8_bits(x, format), format), largest_fp8(format));
      EXPECT_EQ(from_fp8_bits(fp8_bits(-x, format), format), -largest_fp8(format));
    }
    EXPECT_TRUE(std::isnan(from_fp8_bits(fp8_bits(kNaN, format), format)));
    EXPECT_EQ(fp8_bits(std::numeric_limits<float>::denorm_min(), format), 0);
    EXPECT_EQ(fp8_bits(-0.0F, format), 0x80);
  }
}

// Relative 2^-4 (E4M3) or 2^-3 (E5M2) for normal numbers, half a step for subnormal ones.
TEST(Fp8, ErrorsStayWithinTheFormatsBounds) {
  std::mt19937 engine(11);
  std::uniform_real_distribution<float> exponent(-18.0F, 8.7F);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp2(exponent(engine)) * (i % 2 == 0 ? 1.0F : -1.0F);
    const auto error = [&](KvFormat format) {
      return std::abs(from_fp8_bits(fp8_bits(x, format), format) - x);
    };
    EXPECT_LE(error(KvFormat::kFp8E4M3), std::abs(x) < 0x1p-6F ? 0x1p-10F : std::abs(x) * 0x1p-4F);
    EXPECT_LE(error(KvFormat::kFp8E5M2), std::abs(x) < 0x1p-14F ? 0x1p-17F : std::abs(x) * 0x1p-3F);
  }
}

TEST(TokenCodec, ErrorsStayWithinHalfAStep) {
  std::mt19937 engine(12);
  for (int n : {1, 4, 64, 128}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      const auto x = random_floats(engine, n, std::exp2(float(repeat % 40) - 20.0F));
      std::vector<std::uint8_t> codes(n);
      const float scale = quantise_token(x, KvFormat::kInt8, codes.data());
      const auto back = read_back(codes, scale, KvFormat::kInt8);
      for (int i = 0; i < n; ++i) {
        EXPECT_NE(codes[i], 0x80);  // -128 is no code
        // x / scale and code · scale are each rounded once, at most at 127: 127 · 2^-24 steps.
        EXPECT_LE(std::abs(back[i] - x[i]), scale * (0.5F + 127 * 0x1p-23F));
      }
      for (const KvFormat format : {KvFormat::kFp8E4M3, KvFormat::kFp8E5M2}) {
        const float fp8_scale = quantise_token(x, format, codes.data());
        const auto fp8_back = read_back(codes, fp8_scale, format);
        const float relative = format == KvFormat::kFp8E4M3 ? 0x1p-4F : 0x1p-3F;
        const float absolute = format == KvFormat::kFp8E4M3 ? 0x1p-10F : 0x1p-17F;
        for (int i = 0; i < n; ++i) {
          // The two roundings to float32 are 2^-23 of the value.
          EXPECT_LE(std::abs(fp8_back[i] - x[i]),
                    std::max(std::abs(x[i]) * (relative + 0x1p-22F), absolute * fp8_scale));
        }
      }
    }
  }
}

TEST(TokenCodec, QuantisingWhatWasReadBackGivesTheSameCodes) {
  std::mt19937 engine(13);
  for (const KvFormat format : kTokenFormats) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      const auto x = random_floats(engine, 64, 3.0F);
      std::vector<std::uint8_t> codes(64);
      std::vector<std::uint8_t> again(64);
      const float scale = quantise_token(x, format, codes.data());
      const float scale_again =
          quantise_token(read_back(codes, scale, format), format, again.data());
      EXPECT_THAT(again, ElementsAreArray(codes)) << name_of(format);
      EXPECT_NEAR(scale_again, scale, scale * 0x1p-22F);  // two roundings
    }
  }
}

TEST(TokenCodec, ZerosAndTinyTokensReadBackAsZero) {
  for (const KvFormat format : kTokenFormats) {
    for (const float x : {0.0F, -0.0F, std::numeric_limits<float>::denorm_min()}) {
      std::vector<std::uint8_t> codes(3, 99);
      const float scale = quantise_token(std::vector<float>(3, x), format, codes.data());
      EXPECT_EQ(scale, 0.0F);
      EXPECT_THAT(read_back(codes, scale, format), ::testing::Each(0.0F));
    }
  }
}

TEST(TokenCodec, AValueThatIsNotFiniteShowsAsNaN) {
  for (const KvFormat format : kTokenFormats) {
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      const std::vector<float> x{1.0F, bad, -2.0F};
      std::vector<std::uint8_t> codes(3);
      const float scale = quantise_token(x, format, codes.data());
      for (const float value : read_back(codes, scale, format)) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(TokenCodec, HugeFloatsDoNotOverflow) {
  const float most = 1e38F;
  for (const KvFormat format : kTokenFormats) {
    std::vector<std::uint8_t> codes(2);
    const std::vector<float> x{most, -most};
    const float scale = quantise_token(x, format, codes.data());
    EXPECT_TRUE(std::isfinite(scale));
    EXPECT_NEAR(read_back(codes, scale, format)[0] / most, 1.0F, 1e-6F);
  }
}

TEST(TokenCodec, OneScaleASlotReadsAsOneScaleARow) {
  std::mt19937 engine(14);
  for (const KvFormat format : kTokenFormats) {
    std::vector<std::uint8_t> codes(64);
    for (std::uint8_t& code : codes) code = std::uint8_t(engine() % 0x78);
    const auto scales = random_floats(engine, 64, 1.0F);
    std::vector<float> out(64);
    dequantise(codes, scales.data(), format, out.data());
    for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], read_back({codes[i]}, scales[i], format)[0]);
  }
}

TEST(KiviCodec, ErrorsStayWithinHalfAStepAsComputedAndAsStored) {
  std::mt19937 engine(15);
  for (const int bits : {2, 4, 8}) {
    for (int repeat = 0; repeat < 500; ++repeat) {
      const float middle = float(repeat % 5) * 10.0F;  // key channels have offsets
      const auto x = random_floats(engine, 32, 0.1F + float(repeat % 7), middle);
      for (const MinMax group : {min_max_of(x, bits), stored_min_max_of(x, bits).wide()}) {
        const KiviGroup got = coded(x, group, bits);
        for (int i = 0; i < 32; ++i) {
          // code · scale + zero is rounded to float32 twice, near values up to 70.
          EXPECT_LE(std::abs(got.dequantised[i] - x[i]), group.scale * 0.5F + 70 * 0x1p-23F);
        }
        EXPECT_THAT(coded(got.dequantised, group, bits).codes, ElementsAreArray(got.codes));
      }
      const KiviGroup got = coded(x, min_max_of(x, bits), bits);
      const MinMax again = min_max_of(got.dequantised, bits);
      EXPECT_THAT(coded(got.dequantised, again, bits).codes, ElementsAreArray(got.codes));
    }
  }
}

TEST(KiviCodec, StoredParametersAreTheComputedOnesWhereFloat16HoldsThem) {
  const std::vector<float> x{-1.0F, 2.0F, -0.5F, 0.25F};
  const MinMax exact = min_max_of(x, 2);
  const MinMax stored = stored_min_max_of(x, 2).wide();
  EXPECT_EQ(stored.scale, exact.scale);
  EXPECT_EQ(stored.zero, exact.zero);
}

TEST(KiviCodec, AConstantGroupIsStoredWithoutSteps) {
  const std::vector<float> x(8, 0.7F);
  const MinMax stored = stored_min_max_of(x, 2).wide();
  EXPECT_EQ(stored.scale, 0.0F);
  EXPECT_NEAR(stored.zero, 0.7F, 0x1p-12F);  // half a float16 step
  EXPECT_THAT(coded(x, stored, 2).codes, ::testing::Each(0U));
}

TEST(KiviCodec, ValuesBeyondFloat16SaturateAndOthersThatAreNotFiniteShowAsNaN) {
  const std::vector<float> large{-1e30F, 1e30F};
  const MinMax stored = stored_min_max_of(large, 2).wide();
  EXPECT_EQ(stored.zero, -65504.0F);
  EXPECT_EQ(stored.scale, 65504.0F);
  EXPECT_EQ(min_max_code(1e30F, stored, 2), 3U);
  EXPECT_TRUE(std::isfinite(min_max_of(large, 2).scale));
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    const std::vector<float> x{0.0F, bad, 1.0F};
    for (const MinMax group : {min_max_of(x, 4), stored_min_max_of(x, 4).wide()}) {
      for (const float value : coded(x, group, 4).dequantised) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(Packing, CodesComeBackAndRowsStartWithAWord) {
  EXPECT_EQ(words_for(1, 2), 1);
  EXPECT_EQ(words_for(16, 2), 1);
  EXPECT_EQ(words_for(17, 2), 2);
  EXPECT_EQ(words_for(64, 4), 8);
  EXPECT_EQ(words_for(64, 8), 16);
  std::mt19937 engine(16);
  for (const int bits : {2, 4, 8}) {
    std::vector<std::uint32_t> row(std::size_t(words_for(75, bits)), 0xFFFFFFFFU);
    std::vector<std::uint32_t> codes(75);
    for (int i = 0; i < 75; ++i) {
      codes[i] = std::uint32_t(engine()) % (1U << bits);
      pack_code(row.data(), i, bits, codes[i]);
    }
    for (int i = 0; i < 75; ++i) EXPECT_EQ(unpack_code(row.data(), i, bits), codes[i]);
  }
}

}  // namespace
}  // namespace kvscope
