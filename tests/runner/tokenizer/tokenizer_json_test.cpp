// tokenizer.json that is wrong, hostile or not supported, and texts that are large. Ids of good
// ones are in tokenizer_reference_test.cpp.
#include "runner/tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner/base/error.h"
#include "runner/tokenizer/open_tokenizer.h"

namespace kvscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

Json letters() {
  return Json::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "▁": 3, "▁a": 4,
    "<unk>": 5, "<0x7A>": 6}, "merges": ["a b", ["▁", "a"]]},
    "added_tokens": [{"id": 7, "content": "<s>", "special": true}]})");
}

std::unique_ptr<Tokenizer> make(const Json& json, const TokenizerSettings& settings = {}) {
  return read_tokenizer_json(json, settings);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_with(const char* pointer, const Json& value) {
  Json json = letters();
  json[Json::json_pointer(pointer)] = value;
  return error_of([&] { make(json)->encode("ab z<s>", SpecialTokens::kParse); });
}

Ids encode(const Json& json, std::string_view text) {
  return make(json)->encode(text, SpecialTokens::kParse);
}

TEST(TokenizerJson, MergesInBothForms) {
  EXPECT_THAT(encode(letters(), "abab▁ab<s>a"), ElementsAre(2, 2, 3, 2, 7, 0));
  EXPECT_THAT(encode(letters(), "aczb"), ElementsAre(2));  // what is no token goes before merging
}

TEST(TokenizerJson, FallsBackToBytesAndUnknownTokens) {
  Json json = letters();
  json["model"]["byte_fallback"] = true;
  EXPECT_THAT(encode(json, "azyb"), ElementsAre(0, 6, 1));
  json["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(encode(json, "azyyb"), ElementsAre(0, 6, 5, 5, 1));
  json["model"]["fuse_unk"] = true;
  EXPECT_THAT(encode(json, "azyyb"), ElementsAre(0, 6, 5, 1));
}

TEST(TokenizerJson, PutsNoSpaceBeforeATextThatContinuesAnother) {
  Json json = letters();
  json["normalizer"] = {{"type", "Prepend"}, {"prepend", "▁"}};
  const auto tokenizer = make(json);
  const std::vector<TextPart> parts = {{"a<s>a", SpecialTokens::kParse}};
  EXPECT_THAT(tokenizer->encode_parts(parts, false), ElementsAre(4, 7, 4));
  EXPECT_THAT(tokenizer->encode_parts(parts, true), ElementsAre(0, 7, 4));
  const std::vector<TextPart> text = {{"a", SpecialTokens::kParse},
                                      {"<s>", SpecialTokens::kAsText}};
  EXPECT_THAT(tokenizer->encode_parts(text, true), ElementsAre(0));
}

TEST(TokenizerJson, TakesWhatStandsBesideIt) {
  TokenizerSettings settings;
  settings.eos_token = "ab";
  settings.bos_token = "<s>";
  settings.chat_template = "x";
  const auto tokenizer = make(letters(), settings);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->bos(), 7);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->n_vocab(), 8);
  EXPECT_EQ(tokenizer->chat_template(), "x");
  EXPECT_EQ(tokenizer->id_of_special("<s>"), 7);
  EXPECT_EQ(tokenizer->id_of_special("ab"), std::nullopt);
  EXPECT_EQ(tokenizer->decode(Ids{2, 7, 3}), "ab<s>▁");
  EXPECT_EQ(error_of([&] { tokenizer->decode(Ids{8}); }),
            "token id 8 is outside the vocabulary of 8; give ids of this model");

  Json json = letters();
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"ids": [7]}}})");
  EXPECT_TRUE(make(json)->adds_bos());
  EXPECT_EQ(make(json)->bos(), 7);
  settings.adds_bos = false;
  EXPECT_FALSE(make(json, settings)->adds_bos());
}

TEST(TokenizerJson, RefusesInOneLine) {
  EXPECT_EQ(error_with("/model/type", "Unigram"),
            "tokenizer model 'Unigram' is not supported; known is BPE");
  EXPECT_THAT(error_with("/normalizer", {{"type", "Precompiled"}}),
              HasSubstr("normalizer 'Precompiled' is not supported; known are NFC,"));
  EXPECT_THAT(error_with("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
              HasSubstr("pre-tokenizer 'BertPreTokenizer' is not supported"));
  EXPECT_THAT(error_with("/decoder", {{"type", "CTC"}}), HasSubstr("decoder 'CTC'"));
  EXPECT_THAT(error_with("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("post-processor 'BertProcessing'"));
  EXPECT_EQ(error_with("/model/dropout", 0.1), "model: 'dropout' is not supported");
  EXPECT_EQ(error_with("/model/continuing_subword_prefix", "##"),
            "model: 'continuing_subword_prefix' is not supported");
  EXPECT_THAT(error_with("/model/merges", {"a z"}), HasSubstr("merge 0 names 'z'"));
  EXPECT_THAT(error_with("/model/merges", {"b a"}), HasSubstr("merge 0 names 'ba'"));
  for (const Json& merge : {Json("ab"), Json("a b c"), Json(7), Json({"a"}), Json({"a", 1})}) {
    EXPECT_EQ(error_with("/model/merges", Json::array({merge})), "merge 0 is no pair of tokens");
  }
  EXPECT_EQ(error_with("/model/vocab/a", -1), "token 'a' is no token id from 0 to 1048575");
  EXPECT_EQ(error_with("/model/vocab/a", 4294967296U),
            "token 'a' is no token id from 0 to 1048575");
  EXPECT_THAT(error_with("/model/vocab/a", 1U), HasSubstr("has the id of another"));
  EXPECT_EQ(error_with("/model/unk_token", "zz"), "unknown token 'zz' is no token");
  EXPECT_THAT(error_with("/added_tokens/0/content", "ab"),
              HasSubstr("has the id 7 and, as a token"));
  EXPECT_EQ(error_with("/added_tokens/0/id", "7"), "'id' is no token id from 0 to 1048575");
  EXPECT_THAT(error_with("/added_tokens/0/content", std::string(2000, 'x')),
              HasSubstr("added token 7 is longer than 1024 bytes"));
  EXPECT_EQ(error_with("/model", 3), "'vocab' is missing");
  EXPECT_EQ(error_of([] { parse_tokenizer_json("[]", {}); }), "is no JSON object");
  EXPECT_EQ(error_of([] { parse_tokenizer_json("{\"model\": \xFF}", {}); }), "is no JSON object");
}

TEST(TokenizerJson, RefusesPatternsThatMeanSomethingElseHere) {
  const auto pattern = [](const std::string& regex) {
    return error_with(
        "/pre_tokenizer",
        {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}});
  };
  EXPECT_EQ(pattern(R"(\p{Lu}?[^\s\p{L}\]a-]++|\u0061|(?i:x)|\x{41}{1,2})"), "no error");
  EXPECT_THAT(pattern("(a"), HasSubstr("pattern '(a' is not valid: "));
  EXPECT_THAT(pattern("\\h"), HasSubstr("has \\h, which is not supported"));
  EXPECT_THAT(pattern("[a&&b]"), HasSubstr("intersects classes"));
  EXPECT_THAT(pattern("[a[b]]"), HasSubstr("has a class inside a class"));
  EXPECT_THAT(pattern("a{1,2}+"), HasSubstr("repeats a repetition"));
  EXPECT_THAT(pattern("(*LIMIT_MATCH=1)a"), HasSubstr("begins with '(*'"));
  EXPECT_THAT(pattern("(?m:.)"), HasSubstr("has a group '(?m:.'"));
  EXPECT_THAT(pattern("a\\"), HasSubstr("ends with a backslash"));
  EXPECT_THAT(pattern(std::string(20000, 'a')), HasSubstr("at most 16384 bytes"));
}

TEST(TokenizerJson, StopsAPatternThatTakesTooLong) {
  Json json = letters();
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(?:a|a)*[bc]"}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(error_of([&] { encode(json, std::string(5000, 'a')); }), HasSubstr("takes too long"));
}

TEST(TokenizerJson, IsNotFilledByStepsThatGrowAText) {
  Json doubling = Json::array();
  for (int i = 0; i < 60; ++i) {
    doubling.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  EXPECT_THAT(error_with("/normalizer", {{"type", "Sequence"}, {"normalizers", doubling}}),
              HasSubstr("normalizer: makes more than"));
  const Json bytes = {{"type", "ByteLevel"}, {"use_regex", false}};
  const Json many = {{"type", "Sequence"}, {"pretokenizers", Json(60, bytes)}};
  Json json = letters();
  json["pre_tokenizer"] = many;
  EXPECT_THAT(error_of([&] { encode(json, "é"); }), HasSubstr("pre-tokenizer: makes more than"));
}

TEST(TokenizerJson, RefusesDeepDocuments) {
  for (const char* key : {"normalizer", "pre_tokenizer", "model", "decoder", "post_processor"}) {
    const std::string deep = std::string(200000, '[') + std::string(200000, ']');
    const std::string text = R"({"model": {"vocab": {"a": 0}, "merges": []}, ")" +
                             std::string(key) + R"(": {"type": )" + deep + "}}";
    EXPECT_NE(error_of([&] { parse_tokenizer_json(text, {}); }), "no error") << key;
  }
  Json sequence = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) {
    sequence = Json{{"type", "Sequence"}, {"normalizers", Json::array({sequence})}};
  }
  EXPECT_EQ(error_with("/normalizer", sequence), "normalizer: a sequence is no list, or too deep");
}

TEST(TokenizerJson, RefusesTextsThatAreNotUtf8) {
  EXPECT_EQ(
      error_of([] { encode(letters(), "ab\xFFz"); }),
      "a text is not UTF-8 at byte 2, and this tokenizer takes nothing else; convert the text");
  EXPECT_THAT(error_of([] { encode(letters(), "\xED\xA0\x80"); }), HasSubstr("at byte 0"));
  EXPECT_THAT(encode(letters(), ""), IsEmpty());
}

// Each of them would take minutes if anything were quadratic in a word or a run.
TEST(TokenizerJson, TakesLongWordsAndRuns) {
  const std::filesystem::path data =
      std::filesystem::path(KVSCOPE_SOURCE_DIR) / "tests/runner/tokenizer/data";
  for (const char* file : {"llama3.tokenizer.json", "tekken.tokenizer.json", "neox.tokenizer.json",
                           "llama2.tokenizer.json", "gemma.tokenizer.json", "llama2.gguf",
                           "llama2.tokenizer.model", "mixed_words.tokenizer.json"}) {
    const auto tokenizer = open_tokenizer(data / file);
    for (const char* unit : {"a", " ", "\n", "ab ", "7", " \n", "é", "<s>", "<right> "}) {
      std::string text;
      while (text.size() < 200000) text += unit;
      const Ids ids = tokenizer->encode(text, SpecialTokens::kAsText);
      const std::string decoded = tokenizer->decode(ids);
      if (std::string_view(file).starts_with("mixed")) continue;
      EXPECT_TRUE(decoded == text || decoded == " " + text) << file << " '" << unit << "'";
    }
  }
}

class OpenTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::filesystem::path folder_;
};

TEST_F(OpenTokenizer, ReadsAFolder) {
  EXPECT_THROW(open_tokenizer(folder_), IoError);
  EXPECT_THROW(open_tokenizer(folder_ / "absent"), IoError);
  write("tokenizer.json", letters().dump());
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "ab",
    "add_bos_token": true, "chat_template": [{"name": "tools", "template": "t"},
    {"name": "default", "template": "d"}]})");
  write("config.json", R"({"eos_token_id": [1, 2], "bos_token_id": 0})");
  auto tokenizer = open_tokenizer(folder_);
  EXPECT_EQ(tokenizer->bos(), 7);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->chat_template(), "d");

  write("tokenizer_config.json", R"({"chat_template": "string"})");
  EXPECT_EQ(open_tokenizer(folder_ / "tokenizer.json")->chat_template(), "string");
  write("chat_template.jinja", "file");
  tokenizer = open_tokenizer(folder_);
  EXPECT_EQ(tokenizer->chat_template(), "file");
  EXPECT_EQ(tokenizer->eos(), 1);  // config.json's first

  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(error_of([&] { open_tokenizer(folder_); }),
              HasSubstr("tokenizer_config.json: 'chat_template' is neither"));
  write("tokenizer_config.json", "{");
  EXPECT_THAT(error_of([&] { open_tokenizer(folder_); }), HasSubstr("is no JSON object"));
}

TEST_F(OpenTokenizer, NamesTheFileThatIsDamaged) {
  write("tokenizer.json", "{\"model\": {}}");
  EXPECT_THAT(error_of([&] { open_tokenizer(folder_); }),
              HasSubstr("tokenizer.json: 'vocab' is missing"));
  write("tokenizer.json", "");
  EXPECT_THROW(open_tokenizer(folder_), IoError);
  write("tokenizer.model", "IQ== 0\nIg== 1\n");  // as Llama-3's is
  EXPECT_THAT(error_of([&] { open_tokenizer(folder_ / "tokenizer.model"); }),
              HasSubstr("is no SentencePiece model"));
}

}  // namespace
}  // namespace kvscope
