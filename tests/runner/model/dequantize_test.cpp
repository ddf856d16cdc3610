// Expected values are worked out by hand from the block layouts, so all comparisons are exact.
#include "runner/model/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kvscope {
namespace {

class Block {
 public:
  explicit Block(std::size_t size, std::uint8_t fill = 0) : bytes_(size, std::byte{fill}) {}
  Block& set(std::size_t at, std::uint8_t value) {
    bytes_[at] = std::byte{value};
    return *this;
  }
  Block& half(std::size_t at, std::uint16_t bits) {
    return set(at, static_cast<std::uint8_t>(bits & 0xFF))
        .set(at + 1, static_cast<std::uint8_t>(bits >> 8));
  }
  std::vector<float> decode(TensorType type, std::size_t n = 0) const {
    const BlockFormat format = *block_format(static_cast<std::uint32_t>(type));
    EXPECT_EQ(bytes_.size() % format.bytes, 0U);
    std::vector<float> out(n == 0 ? bytes_.size() / format.bytes * format.elements : n);
    dequantize(type, bytes_, out);
    return out;
  }

 private:
  std::vector<std::byte> bytes_;
};

TEST(HalfToFloat, IsExact) {
  EXPECT_EQ(half_to_float(0x3C00), 1.0F);
  EXPECT_EQ(half_to_float(0xC000), -2.0F);
  EXPECT_EQ(half_to_float(0x3555), 0.333251953125F);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x83FF), -0x1.FF8p-15F);  // largest subnormal
  EXPECT_EQ(half_to_float(0x0400), 0x1p-14F);       // smallest normal
  EXPECT_EQ(half_to_float(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half_to_float(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half_to_float(0x7E01)));
  EXPECT_EQ(half_to_float(0x8000), 0.0F);
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
}

TEST(Dequantize, UnquantisedTypes) {
  EXPECT_EQ(Block(8).set(2, 0xC0).set(3, 0x3F).set(7, 0xC1).decode(TensorType::kF32),
            (std::vector<float>{1.5F, -8.0F}));
  EXPECT_EQ(Block(4).half(0, 0x3C00).half(2, 0xC900).decode(TensorType::kF16),
            (std::vector<float>{1.0F, -10.0F}));
  EXPECT_EQ(Block(4).half(0, 0x3F80).half(2, 0xC2F7).decode(TensorType::kBF16),
            (std::vector<float>{1.0F, -123.5F}));
}

TEST(Dequantize, Q4_0) {  // d = 0.5; byte 0: elements 0 (15) and 16 (0); the others are 8
  const auto x = Block(18, 0x88).half(0, 0x3800).set(2, 0x0F).decode(TensorType::kQ4_0);
  std::vector<float> expected(32, 0.0F);
  expected[0] = 3.5F;
  expected[16] = -4.0F;
  EXPECT_EQ(x, expected);
}

TEST(Dequantize, Q4_1) {  // d = 0.25, m = -1; byte 3: elements 3 (2) and 19 (10)
  const auto x = Block(20).half(0, 0x3400).half(2, 0xBC00).set(7, 0xA2).decode(TensorType::kQ4_1);
  std::vector<float> expected(32, -1.0F);
  expected[3] = -0.5F;
  expected[19] = 1.5F;
  EXPECT_EQ(x, expected);
}

TEST(Dequantize, Q5_0) {  // d = 2; fifth bits of elements 0, 1 and 17; byte 1 = 15 and 15
  const auto x =
      Block(22).half(0, 0x4000).set(2, 0x03).set(4, 0x02).set(7, 0xFF).decode(TensorType::kQ5_0);
  std::vector<float> expected(32, -32.0F);
  expected[0] = 0.0F;
  expected[1] = 30.0F;
  expected[17] = 30.0F;
  EXPECT_EQ(x, expected);
}

TEST(Dequantize, Q5_1) {  // d = 1, m = 10; fifth bits of elements 15 and 31; byte 15 = 4 and 9
  const auto x =
      Block(24).half(0, 0x3C00).half(2, 0x4900).set(5, 0x80).set(7, 0x80).set(23, 0x94).decode(
          TensorType::kQ5_1);
  std::vector<float> expected(32, 10.0F);
  expected[15] = 30.0F;
  expected[31] = 35.0F;
  EXPECT_EQ(x, expected);
}

TEST(Dequantize, Q8_0KeepsTheOrderOfTwoBlocks) {  // d = 0.125, then d = -1
  const auto x = Block(68)
                     .half(0, 0x3000)
                     .set(2, 0x80)
                     .set(33, 0x7F)
                     .half(34, 0xBC00)
                     .set(36, 0x05)
                     .decode(TensorType::kQ8_0);
  ASSERT_EQ(x.size(), 64U);
  EXPECT_EQ(x[0], -16.0F);
  EXPECT_EQ(x[1], 0.0F);
  EXPECT_EQ(x[31], 15.875F);
  EXPECT_EQ(x[32], -5.0F);
  EXPECT_EQ(x[33], 0.0F);
}

// d = 1, dmin = 0.5. Sub-block 0: scale 3, min 2; 4: scale 1 + 16 · 2 = 33, min 5 + 16 · 1 = 21; 5:
// scale 2, min 0.
Block& k_scales(Block& block) {
  block.half(0, 0x3C00).half(2, 0x3800);
  block.set(4 + 0, 0b10'000011).set(4 + 4, 0b01'000010).set(4 + 8, 0x51).set(4 + 9, 0x02);
  return block;
}

TEST(Dequantize, Q4_K) {  // quants[0] = 7 (element 0); quants[64] = 15 (element 128) and 10 (160)
  Block block(144);
  const auto x = k_scales(block).set(16, 0x07).set(16 + 64, 0xAF).decode(TensorType::kQ4_K);
  std::vector<float> expected(256, 0.0F);
  std::fill_n(expected.begin(), 32, -1.0F);
  std::fill_n(expected.begin() + 128, 32, -10.5F);
  expected[0] = 20.0F;
  expected[128] = 484.5F;
  expected[160] = 20.0F;
  EXPECT_EQ(x, expected);
}

TEST(Dequantize, Q5_K) {  // the same with the fifth bits of elements 0, 128 and 160
  Block block(176);
  const auto x =
      k_scales(block).set(16, 0b110001).set(48, 0x07).set(48 + 64, 0xAF).decode(TensorType::kQ5_K);
  std::vector<float> expected(256, 0.0F);
  std::fill_n(expected.begin(), 32, -1.0F);
  std::fill_n(expected.begin() + 128, 32, -10.5F);
  expected[0] = 68.0F;
  expected[128] = 1012.5F;
  expected[160] = 52.0F;
  EXPECT_EQ(x, expected);
}

TEST(Dequantize, Q6_K) {  // d = 0.5
  const auto x = Block(210)
                     .half(208, 0x3800)
                     .set(192 + 0, 2)          // elements 0 … 15
                     .set(192 + 1, 0xFD)       // -3: 16 … 31
                     .set(192 + 4, 1)          // 64 … 79
                     .set(192 + 6, 4)          // 96 … 111
                     .set(192 + 8, 1)          // 128 … 143
                     .set(192 + 15, 1)         // 240 … 255
                     .set(0, 0x5F)             // low bits: element 0 = 15, 64 = 5
                     .set(32, 0x90)            // element 96 = 9
                     .set(64, 0x01)            // element 128 = 1
                     .set(128, 0b00'11'00'01)  // high bits: element 0 = 1, 64 = 3
                     .set(128 + 63, 0xC0)      // element 255 = 3
                     .decode(TensorType::kQ6_K);
  ASSERT_EQ(x.size(), 256U);
  EXPECT_EQ(x[0], -1.0F);  // 15 + 16 − 32
  EXPECT_EQ(x[1], -32.0F);
  EXPECT_EQ(x[16], 48.0F);
  EXPECT_EQ(x[32], 0.0F);    // scale 0
  EXPECT_EQ(x[64], 10.5F);   // 5 + 48 − 32
  EXPECT_EQ(x[96], -46.0F);  // 9 − 32
  EXPECT_EQ(x[128], -15.5F);
  EXPECT_EQ(x[254], -16.0F);
  EXPECT_EQ(x[255], 8.0F);  // 48 − 32
}

TEST(TensorTypes, HaveTheFormatsNumbersAndSizes) {
  struct Row {
    std::uint32_t number;
    const char* name;
    std::uint32_t elements, bytes;
  };
  for (const Row& row :
       {Row{0, "F32", 1, 4}, Row{1, "F16", 1, 2}, Row{2, "Q4_0", 32, 18}, Row{3, "Q4_1", 32, 20},
        Row{6, "Q5_0", 32, 22}, Row{7, "Q5_1", 32, 24}, Row{8, "Q8_0", 32, 34},
        Row{10, "Q2_K", 256, 84}, Row{11, "Q3_K", 256, 110}, Row{20, "IQ4_NL", 32, 18},
        Row{23, "IQ4_XS", 256, 136}, Row{12, "Q4_K", 256, 144}, Row{13, "Q5_K", 256, 176},
        Row{14, "Q6_K", 256, 210}, Row{30, "BF16", 1, 2}}) {
    const auto format = block_format(row.number);
    ASSERT_TRUE(format) << row.name;
    EXPECT_STREQ(format->name, row.name);
    EXPECT_EQ(format->elements, row.elements) << row.name;
    EXPECT_EQ(format->bytes, row.bytes) << row.name;
  }
  EXPECT_FALSE(block_format(16));
  EXPECT_EQ(tensor_type_name(16), "IQ2_XXS");
  EXPECT_EQ(tensor_type_name(4242), "number 4242");
}

// What another implementation makes of blocks of random bytes
// (tests/reference/make_quant_vectors.py).
TEST(Dequantize, RandomBlocksGiveTheReferencesValues) {
  for (const auto& [type, name] :
       {std::pair{TensorType::kQ2_K, "Q2_K"}, std::pair{TensorType::kQ3_K, "Q3_K"},
        std::pair{TensorType::kQ4_K, "Q4_K"}, std::pair{TensorType::kQ5_K, "Q5_K"},
        std::pair{TensorType::kQ6_K, "Q6_K"}, std::pair{TensorType::kIQ4_NL, "IQ4_NL"},
        std::pair{TensorType::kIQ4_XS, "IQ4_XS"}}) {
    std::ifstream in(
        std::string(KVSCOPE_SOURCE_DIR "/tests/runner/model/quant_vectors/") + name + ".bin",
        std::ios::binary);
    ASSERT_TRUE(in) << name;
    const BlockFormat format = *block_format(static_cast<std::uint32_t>(type));
    std::vector<std::byte> blocks(2 * format.bytes);
    std::vector<float> expected(2 * format.elements);
    in.read(reinterpret_cast<char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
    in.read(reinterpret_cast<char*>(expected.data()),
            static_cast<std::streamsize>(expected.size() * sizeof(float)));
    ASSERT_TRUE(in) << name;
    std::vector<float> values(expected.size());
    dequantize(type, blocks, values);
    EXPECT_EQ(values, expected) << name;
  }
}

}  // namespace
}  // namespace kvscope
