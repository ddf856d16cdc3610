#include "runner/model/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/runner/model/gguf_writer.h"
#include "tests/runner/model/memory_gguf.h"

namespace kvscope {
namespace {

using testing::append_raw;
using testing::append_string;
using testing::data_error;
using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::memory_gguf;
using WriteType = testing::GgufValue;
using WriteTensor = testing::GgufTensor;

std::string error_of(std::string_view bytes) {
  return data_error([&] { memory_gguf(bytes); });
}

TEST(GgufFile, ReadsEveryKindOfValue) {
  GgufWriter w;
  const auto number = [&w](const char* key, WriteType type, auto value) {
    std::string payload;
    append_raw(payload, value);
    w.raw(key, type, payload);
  };
  number("u8", WriteType::kU8, std::uint8_t{200});
  number("i8", WriteType::kI8, std::int8_t{-5});
  number("u16", WriteType::kU16, std::uint16_t{60000});
  number("i16", WriteType::kI16, std::int16_t{-600});
  number("u32", WriteType::kU32, std::uint32_t{4000000000});
  number("i32", WriteType::kI32, std::int32_t{-7});
  number("u64", WriteType::kU64, std::uint64_t{1} << 40);
  number("i64", WriteType::kI64, std::int64_t{-1} - (std::int64_t{1} << 40));
  number("f32", WriteType::kF32, 1.5F);
  number("f64", WriteType::kF64, -0.1);
  number("yes", WriteType::kBool, std::uint8_t{1});
  number("no", WriteType::kBool, std::uint8_t{0});
  w.string("text", "naïve");
  w.strings("texts", {"a", "", "bc"});
  w.i32s("numbers", {3, -1});
  const auto file = memory_gguf(w.bytes());
  EXPECT_EQ(file->integer("u8"), 200);
  EXPECT_EQ(file->integer("i8"), -5);
  EXPECT_EQ(file->integer("u16"), 60000);
  EXPECT_EQ(file->integer("i16"), -600);
  EXPECT_EQ(file->integer("u32"), 4000000000);
  EXPECT_EQ(file->integer("i32"), -7);
  EXPECT_EQ(file->integer("u64"), 1099511627776);
  EXPECT_EQ(file->integer("i64"), -1099511627777);
  EXPECT_EQ(file->real("f32"), 1.5);
  EXPECT_EQ(file->real("f64"), -0.1);
  EXPECT_EQ(file->boolean("yes"), true);
  EXPECT_EQ(file->boolean("no"), false);
  EXPECT_EQ(file->string("text"), "naïve");
  EXPECT_THAT(*file->strings("texts"), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*file->integers("numbers"), ElementsAre(3, -1));
  EXPECT_FALSE(file->integer("absent"));
  EXPECT_FALSE(file->strings("absent"));
}

TEST(GgufFile, RefusesValuesOfAnotherType) {
  GgufWriter w;
  w.string("text", "x").u32("number", 1).u64("huge", std::numeric_limits<std::uint64_t>::max());
  w.i32s("numbers", {1});
  const auto file = memory_gguf(w.bytes());
  EXPECT_EQ(data_error([&] { file->integer("text"); }),
            "m.gguf: key 'text' holds a string, not an integer; convert the model again");
  EXPECT_THAT(data_error([&] { file->real("number"); }), HasSubstr("not a real"));
  EXPECT_THAT(data_error([&] { file->boolean("number"); }), HasSubstr("not a boolean"));
  EXPECT_THAT(data_error([&] { file->string("number"); }), HasSubstr("not a string"));
  EXPECT_THAT(data_error([&] { file->integer("huge"); }), HasSubstr("'huge' is out of range"));
  EXPECT_THAT(data_error([&] { file->integer("numbers"); }), HasSubstr("holds an array"));
  EXPECT_THAT(data_error([&] { file->strings("numbers"); }), HasSubstr("not an array of strings"));
  EXPECT_THAT(data_error([&] { file->integers("text"); }), HasSubstr("not an array of integers"));
}

TEST(GgufFile, DescribesTensorsRowLengthFirst) {
  GgufWriter w;
  w.tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6}).tensor("v", {1}, {7});
  const auto file = memory_gguf(w.bytes());
  const GgufTensor* tensor = file->tensor("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(tensor->dims, ElementsAre(2, 3, 1, 1));
  EXPECT_EQ(tensor->data.size(), 24U);
  EXPECT_EQ(file->tensor("v")->data.size(), 4U);
  EXPECT_EQ(file->tensor("absent"), nullptr);
}

TEST(GgufFile, HonoursTheAlignmentAndVersionTwo) {
  GgufWriter w;
  w.alignment = 64;
  w.version = 2;
  w.u32("general.alignment", 64).tensor("a", {1}, {1.0F}).tensor("b", {1}, {2.0F});
  const auto file = memory_gguf(w.bytes());
  EXPECT_EQ(file->tensor("b")->data.data() - file->tensor("a")->data.data(), 64);
  EXPECT_EQ(static_cast<int>(file->tensor("b")->data[3]), 0x40);  // 2.0F
}

TEST(GgufFile, SaysWhatAForeignFileStartsWith) {
  EXPECT_EQ(error_of("PK\x03\x04rest"),
            "m.gguf: not a GGUF file: starts with 'PK\\x03\\x04'; give a model in GGUF format");
  EXPECT_EQ(error_of(""), "m.gguf: not a GGUF file: it is empty; give a model in GGUF format");
}

TEST(GgufFile, RefusesOtherVersionsAndByteOrder) {
  GgufWriter w;
  w.version = 1;
  EXPECT_EQ(error_of(w.bytes()),
            "m.gguf: is GGUF version 1; versions 2 and 3 are read, convert the model again");
  w.version = 4;
  EXPECT_THAT(error_of(w.bytes()), HasSubstr("is GGUF version 4"));
  w.version = 0x03000000;
  EXPECT_THAT(error_of(w.bytes()), HasSubstr("big-endian"));
}

std::string header(std::uint64_t n_tensors, std::uint64_t n_keys) {
  std::string bytes = "GGUF";
  append_raw(bytes, std::uint32_t{3});
  append_raw(bytes, n_tensors);
  append_raw(bytes, n_keys);
  return bytes;
}

TEST(GgufFile, RefusesCountsThatCannotFit) {
  const auto huge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(error_of(header(huge, 0)), HasSubstr("claims 18446744073709551615 tensors"));
  EXPECT_THAT(error_of(header(0, huge)), HasSubstr("claims 18446744073709551615 keys"));
  EXPECT_THAT(error_of(header(0, huge / 13 + 1)), HasSubstr("keys, more than its 24 bytes"));
  EXPECT_THAT(error_of(header(1, 0)), HasSubstr("claims 1 tensors"));
}

TEST(GgufFile, RefusesLengthsThatCannotFit) {
  for (const std::uint64_t length :
       {std::numeric_limits<std::uint64_t>::max(),
        std::numeric_limits<std::uint64_t>::max() / 2 + 1, std::uint64_t{1000}}) {
    std::string key = header(0, 1);
    append_raw(key, length);
    key += "name and more bytes";
    EXPECT_THAT(error_of(key), HasSubstr("inside a key's name"));

    std::string text;
    append_raw(text, length);
    EXPECT_THAT(error_of(GgufWriter().raw("k", WriteType::kString, text).bytes()),
                HasSubstr("inside key 'k'"));
    for (const WriteType element : {WriteType::kU8, WriteType::kU32, WriteType::kF64,
                                    WriteType::kString, WriteType::kArray}) {
      const std::string array = GgufWriter::array_head(element, length);
      EXPECT_THAT(error_of(GgufWriter().raw("k", WriteType::kArray, array).bytes()),
                  HasSubstr("inside key 'k'"));
    }
  }
}

TEST(GgufFile, RefusesUnknownValueTypesAndDeepArrays) {
  EXPECT_THAT(error_of(GgufWriter().raw("k", static_cast<WriteType>(13), "....").bytes()),
              HasSubstr("unknown value type 13 in key 'k'"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += GgufWriter::array_head(WriteType::kArray, 1);
  EXPECT_THAT(error_of(GgufWriter().raw("k", WriteType::kArray, deep).bytes()),
              HasSubstr("nested too deeply"));
}

TEST(GgufFile, AcceptsAnArrayOfArrays) {
  std::string nested = GgufWriter::array_head(WriteType::kArray, 2);
  nested += GgufWriter::array_head(WriteType::kU8, 3) + "abc";
  nested += GgufWriter::array_head(WriteType::kString, 0);
  GgufWriter w;
  w.raw("k", WriteType::kArray, nested).u32("after", 9);
  EXPECT_EQ(memory_gguf(w.bytes())->integer("after"), 9);
}

TEST(GgufFile, RefusesWhatIsGivenTwice) {
  EXPECT_THAT(error_of(GgufWriter().u32("k", 1).u32("k", 1).bytes()),
              HasSubstr("key 'k' is given twice"));
  EXPECT_THAT(error_of(GgufWriter().tensor("t", {1}, {1}).tensor("t", {1}, {1}).bytes()),
              HasSubstr("tensor 't' is given twice"));
}

TEST(GgufFile, RefusesImpossibleTensors) {
  const auto error = [](const std::vector<std::uint64_t>& dims, std::uint32_t type,
                        std::uint64_t offset) {
    GgufWriter w;
    w.tensor_at("t", dims, type, offset);
    return error_of(w.bytes() + std::string(64, 'x'));
  };
  const std::uint64_t big = std::uint64_t{1} << 33;
  EXPECT_EQ(error({4}, 0, 0), "no error");
  EXPECT_THAT(error({}, 0, 0), HasSubstr("tensor 't' has 0 dimensions"));
  EXPECT_THAT(error({1, 1, 1, 1, 1}, 0, 0), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(error({4, 0}, 0, 0), HasSubstr("impossible size"));
  EXPECT_THAT(error({big, big}, 0, 0), HasSubstr("impossible size"));
  EXPECT_THAT(error({big, big / 4}, 0, 0), HasSubstr("impossible size"));  // · 4 bytes overflows
  EXPECT_THAT(error({big}, 0, 0), HasSubstr("truncated"));
  EXPECT_THAT(error({4}, 0, 8), HasSubstr("not aligned to 32"));
  EXPECT_THAT(error({4}, 0, 64), HasSubstr("inside tensor 't'"));
  EXPECT_THAT(error({4}, 0, std::numeric_limits<std::uint64_t>::max() - 31),
              HasSubstr("truncated"));
  EXPECT_THAT(error({33}, 8, 0), HasSubstr("rows of 33 are no whole Q8_0 blocks of 32"));
  EXPECT_EQ(error({256}, 16, 0),
            "m.gguf: tensor 't' has type IQ2_XXS, which is not supported; use a file of F32, F16, "
            "BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS");
  EXPECT_THAT(error({1}, 77, 0), HasSubstr("has type number 77"));
}

TEST(GgufFile, RefusesOverlappingTensors) {
  GgufWriter w;
  w.tensor("a", {16}, std::vector<float>(16, 1.0F));
  w.tensor_at("b", {1}, 0, 32);
  EXPECT_THAT(error_of(w.bytes()), HasSubstr("tensor 'b' overlaps"));
}

TEST(GgufFile, RefusesBadAlignment) {
  EXPECT_THAT(error_of(GgufWriter().u32("general.alignment", 0).bytes()), HasSubstr("alignment"));
  EXPECT_THAT(error_of(GgufWriter().u32("general.alignment", 48).bytes()), HasSubstr("alignment"));
  EXPECT_THAT(error_of(GgufWriter().u64("general.alignment", 32).bytes()), HasSubstr("alignment"));
  EXPECT_THAT(
      error_of(GgufWriter().u32("general.alignment", 0x80000000).tensor("t", {1}, {1}).bytes()),
      HasSubstr("truncated"));
}

TEST(GgufFile, MessagesStayOnOneLine) {
  const std::string name = "evil\n\x1b[31m" + std::string(500, 'x');
  GgufWriter w;
  w.u32(name, 1).u32(name, 1);
  const std::string message = error_of(w.bytes());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 250U);
  EXPECT_THAT(message, HasSubstr("key 'evil\\x0a\\x1b[31m"));
}

TEST(GgufFile, NamesTheFileThatCannotBeRead) {
  try {
    GgufFile::open("/nowhere/model.gguf");
    FAIL() << "opened";
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(),
                 "/nowhere/model.gguf: cannot read: No such file or directory; check the path and "
                 "its permissions");
  }
  EXPECT_THROW(GgufFile::open(std::filesystem::temp_directory_path()), IoError);
  EXPECT_THROW(GgufFile::open("/dev/null"), IoError);
}

}  // namespace
}  // namespace kvscope
