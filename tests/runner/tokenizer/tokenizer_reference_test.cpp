// Ids that the libraries of each kind of tokenizer gave for 2,200 texts, exact. Written by
// tests/reference/make_tokenizer_reference.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "runner/base/sha256.h"
#include "runner/tokenizer/open_tokenizer.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

constexpr std::size_t kHexDigits = 6;  // kept of each hash

const std::filesystem::path kData =
    std::filesystem::path(KVSCOPE_SOURCE_DIR) / "tests/runner/tokenizer/data";

Json read(const char* name) {
  std::ifstream in(kData / name);
  return Json::parse(in);
}

struct Case {
  const char* file;
  const char* ids;  // a key of ids.json
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.file; }

class TokenizerReference : public ::testing::TestWithParam<Case> {};

TEST_P(TokenizerReference, GivesTheLibrarysIds) {
  static const auto texts = read("texts.json").get<std::vector<std::string>>();
  static const Json all = read("ids.json");
  const auto tokenizer = open_tokenizer(kData / GetParam().file);
  const auto expected = all.at(GetParam().ids).get<std::string>();
  ASSERT_EQ(texts.size(), 2200U);
  ASSERT_EQ(expected.size(), texts.size() * kHexDigits);
  std::size_t mismatches = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Ids ids = tokenizer->encode(texts[i], SpecialTokens::kParse);
    const std::size_t n_parsed = ids.size();
    const Ids as_text = tokenizer->encode(texts[i], SpecialTokens::kAsText);
    ids.push_back(-1);
    ids.insert(ids.end(), as_text.begin(), as_text.end());
    const std::string hash = sha256_hex(std::as_bytes(std::span(ids))).substr(0, kHexDigits);
    if (hash == expected.substr(i * kHexDigits, kHexDigits)) continue;
    ids.resize(n_parsed);
    if (++mismatches <= 5) {
      ADD_FAILURE() << "text " << i << ' ' << Json(texts[i]).dump(-1, ' ', true) << " gave "
                    << ::testing::PrintToString(ids);
    }
  }
  EXPECT_EQ(mismatches, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerReference,
    ::testing::Values(
        Case{"gpt2.tokenizer.json", "gpt2"}, Case{"opt.tokenizer.json", "opt"},
        Case{"llama3.tokenizer.json", "llama3"}, Case{"qwen2.tokenizer.json", "qwen2"},
        Case{"smollm.tokenizer.json", "smollm"}, Case{"neox.tokenizer.json", "neox"},
        Case{"olmo.tokenizer.json", "olmo"}, Case{"tekken.tokenizer.json", "tekken"},
        Case{"default.tokenizer.json", "default"}, Case{"llama2.tokenizer.json", "llama2"},
        Case{"mistral.tokenizer.json", "mistral"}, Case{"phi3.tokenizer.json", "phi3"},
        Case{"gemma.tokenizer.json", "gemma"}, Case{"mixed_words.tokenizer.json", "mixed_words"},
        Case{"mixed_metaspace.tokenizer.json", "mixed_metaspace"},
        Case{"mixed_first.tokenizer.json", "mixed_first"},
        Case{"llama2.tokenizer.model", "llama2_sentencepiece"},
        Case{"gemma.tokenizer.model", "gemma_sentencepiece"}, Case{"gpt2.gguf", "gpt2"},
        Case{"llama3.gguf", "llama3"}, Case{"qwen2.gguf", "qwen2"}, Case{"smollm.gguf", "smollm"},
        Case{"olmo.gguf", "olmo"}, Case{"tekken.gguf", "tekken"}, Case{"default.gguf", "default"},
        Case{"llama2.gguf", "llama2_sentencepiece"}, Case{"gemma.gguf", "gemma_sentencepiece"}),
    [](const auto& info) {
      std::string name = info.param.file;
      for (char& c : name) c = c == '.' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace kvscope
