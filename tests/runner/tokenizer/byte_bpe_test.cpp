#include "runner/tokenizer/byte_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "runner/base/error.h"
#include "runner/base/splitmix.h"
#include "runner/tokenizer/byte_symbols.h"
#include "runner/tokenizer/load.h"
#include "tests/runner/model/gguf_writer.h"
#include "tests/runner/model/memory_gguf.h"

namespace kvscope {
namespace {

using testing::data_error;
using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kTinyFirstByte;
using testing::kTinyFirstMerge;
using testing::memory_gguf;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t id_of_byte(char c) { return kTinyFirstByte + static_cast<unsigned char>(c); }

std::unique_ptr<Tokenizer> tiny(std::string_view pre = "smollm") {
  GgufWriter w;
  add_tiny_tokenizer(w, testing::kTinyVocabMin + 1, pre);
  return load_tokenizer(*memory_gguf(w.bytes()));
}

TEST(ByteSymbols, AreGpt2s) {
  EXPECT_EQ(byte_to_symbol('!'), "!");
  EXPECT_EQ(byte_to_symbol(' '), "\u0120");
  EXPECT_EQ(byte_to_symbol('\n'), "\u010A");
  EXPECT_EQ(byte_to_symbol(0x00), "\u0100");
  EXPECT_EQ(byte_to_symbol(0x7F), "\u0121");
  EXPECT_EQ(byte_to_symbol(0xA0), "\u0142");
  EXPECT_EQ(byte_to_symbol(0xAD), "\u0143");
  EXPECT_EQ(byte_to_symbol(0xFF), "\u00FF");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string symbol = byte_to_symbol(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(symbols_to_bytes(symbol), std::string(1, static_cast<char>(byte)));
    EXPECT_EQ(symbol, testing::byte_symbol(byte));
  }
  EXPECT_EQ(symbols_to_bytes("Ġthe"), " the");
  EXPECT_FALSE(symbols_to_bytes("\u0144"));
  EXPECT_FALSE(symbols_to_bytes("中"));
  EXPECT_FALSE(symbols_to_bytes(" "));  // a space is never a symbol
}

TEST(ByteBpe, MergesTheLowestRankFirst) {
  const auto tokenizer = tiny();
  // Ranks: "Ġ t", "Ġ a", "h e", "i n", "Ġt he", "r e", "o n", "e r", …: "there" is "the" + "re"
  // only after a space, where "h e" (2) and "r e" (5) come before "e r" (7).
  EXPECT_EQ(tokenizer->encode(" there", SpecialTokens::kAsText),
            (Ids{kTinyFirstMerge + 4, kTinyFirstMerge + 5}));
  EXPECT_EQ(tokenizer->encode("there", SpecialTokens::kAsText),
            (Ids{id_of_byte('t'), kTinyFirstMerge + 2, kTinyFirstMerge + 5}));
  EXPECT_EQ(tokenizer->encode(" and", SpecialTokens::kAsText), (Ids{kTinyFirstMerge + 13}));
  EXPECT_EQ(tokenizer->encode("erer", SpecialTokens::kAsText),
            (Ids{id_of_byte('e'), kTinyFirstMerge + 5, id_of_byte('r')}));
  EXPECT_EQ(tokenizer->encode("lll", SpecialTokens::kAsText),
            (Ids{kTinyFirstMerge + 10, id_of_byte('l')}));  // the leftmost pair
  EXPECT_THAT(tokenizer->encode("", SpecialTokens::kParse), IsEmpty());
}

TEST(ByteBpe, NoMergeCrossesAWord) {
  // "1" stands alone for smollm, so "in" + "1" + "g" cannot become "ing"; "\xFF" separates as well.
  EXPECT_EQ(tiny()->encode("in1g", SpecialTokens::kAsText),
            (Ids{kTinyFirstMerge + 3, id_of_byte('1'), id_of_byte('g')}));
  EXPECT_EQ(tiny()->encode("i\xFFn", SpecialTokens::kAsText),
            (Ids{id_of_byte('i'), id_of_byte('\xFF'), id_of_byte('n')}));
}

TEST(ByteBpe, ParsesSpecialTokensOnlyIfAsked) {
  const auto tokenizer = tiny();
  EXPECT_EQ(tokenizer->encode("<|im_start|>he<|im_end|><|im_end|>", SpecialTokens::kParse),
            (Ids{1, kTinyFirstMerge + 2, 2, 2}));
  const Ids as_text = tokenizer->encode("<|im_end|>", SpecialTokens::kAsText);
  EXPECT_EQ(as_text.front(), id_of_byte('<'));
  EXPECT_EQ(tokenizer->decode(as_text), "<|im_end|>");
  EXPECT_EQ(tokenizer->encode("<|im_", SpecialTokens::kParse).size(), 5U);
  EXPECT_EQ(tokenizer->id_of_special("<|im_end|>"), 2);
  EXPECT_FALSE(tokenizer->id_of_special("the"));
}

TEST(ByteBpe, TakesControlTokensFromItsTemplatesPartsOnly) {
  const auto tokenizer = tiny();
  const std::vector<TextPart> parts = {{"<|im_start|>t", SpecialTokens::kParse},
                                       {"he<|im_end|>", SpecialTokens::kAsText},
                                       {"<|im_end|><|im", SpecialTokens::kParse},
                                       {"_end|>", SpecialTokens::kAsText}};
  const Ids ids = tokenizer->encode_parts(parts, false);
  EXPECT_EQ(tokenizer->decode(ids), "<|im_start|>the<|im_end|><|im_end|><|im_end|>");
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
  EXPECT_EQ(ids[2], kTinyFirstMerge + 2);  // "he" across the parts: "t" + "he"
}

BpeVocabulary letters() {
  BpeVocabulary v;
  v.pretokenizer = "gpt-2";
  v.tokens = {"a", "b", "<x>", "<x>a", "ab", "ba", "bab"};
  v.kinds = {TokenKind::kText, TokenKind::kText, TokenKind::kControl, TokenKind::kUserDefined,
             TokenKind::kText, TokenKind::kText, TokenKind::kText};
  v.merges = {{"a", "b"}};
  return v;
}

TEST(ByteBpe, TheLongestSpecialTokenWinsAndUserDefinedOnesAreAlwaysFound) {
  const ByteBpe tokenizer(letters());
  EXPECT_THAT(tokenizer.encode("<x>ab", SpecialTokens::kParse), ElementsAre(3, 1));
  EXPECT_THAT(tokenizer.encode("<x>b", SpecialTokens::kParse), ElementsAre(2, 1));
  EXPECT_THAT(tokenizer.encode("<x>a", SpecialTokens::kAsText), ElementsAre(3));
  EXPECT_THAT(tokenizer.encode("b<x>b", SpecialTokens::kAsText), ElementsAre(1, 1));
}

TEST(ByteBpe, BytesWithoutATokenAreLeftOutBeforeMerging) {
  EXPECT_THAT(ByteBpe(letters()).encode("azb", SpecialTokens::kAsText), ElementsAre(4));
  EXPECT_THAT(ByteBpe(letters()).encode("z", SpecialTokens::kAsText), IsEmpty());
}

TEST(ByteBpe, WholeWordsAreTakenWhereTheModelDoesSo) {
  BpeVocabulary v = letters();
  EXPECT_THAT(ByteBpe(v).encode("bab", SpecialTokens::kAsText), ElementsAre(1, 4));
  v.pretokenizer = "llama-bpe";
  v.bos = 2;
  const ByteBpe tokenizer(v);
  EXPECT_THAT(tokenizer.encode("bab", SpecialTokens::kAsText), ElementsAre(6));
  EXPECT_TRUE(tokenizer.adds_bos());  // as its family does when the file does not say
  v.adds_bos = false;
  EXPECT_FALSE(ByteBpe(v).adds_bos());
}

TEST(ByteBpe, EqualsTheSlowDefinition) {
  const auto tokenizer = tiny();
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (const auto& merge : testing::tiny_merges()) ranks.emplace(merge, ranks.size());
  for (std::uint64_t round = 0; round < 500; ++round) {
    std::string text = round % 2 == 0 ? " " : "";
    for (std::uint64_t i = 0; i < round % 23; ++i)
      text += "thereinongls"[smix(round * 100 + i) % 12];
    std::vector<std::string> parts;
    for (const char c : text) parts.push_back(byte_to_symbol(static_cast<std::uint8_t>(c)));
    while (true) {
      std::size_t best = ranks.size();
      std::size_t where = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = ranks.find({parts[i], parts[i + 1]});
        if (found != ranks.end() && found->second < best) {
          best = found->second;
          where = i;
        }
      }
      if (best == ranks.size()) break;
      parts[where] += parts[where + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    }
    std::vector<std::string> got;
    for (const std::int32_t id : tokenizer->encode(text, SpecialTokens::kAsText)) {
      got.push_back(tokenizer->decode(Ids{id}));
    }
    for (std::string& part : parts) part = *symbols_to_bytes(part);
    EXPECT_EQ(got, parts) << text;
  }
}

TEST(ByteBpe, DecodesAnyBytesBack) {
  const auto tokenizer = tiny();
  std::string text;
  for (std::uint64_t i = 0; i < 5000; ++i) text += static_cast<char>(smix(i) & 0xFF);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, SpecialTokens::kParse)), text);
  EXPECT_EQ(tokenizer->decode(Ids{1, id_of_byte('\n'), 2}), "<|im_start|>\n<|im_end|>");
  EXPECT_EQ(data_error([&] { tokenizer->decode(Ids{tokenizer->n_vocab()}); }),
            "token id 274 is outside the vocabulary of 274; give ids of this model");
  EXPECT_THROW(tokenizer->decode(Ids{-1}), DataError);
}

TEST(LoadTokenizer, TakesWhatTheFileSays) {
  const auto tokenizer = tiny();
  EXPECT_EQ(tokenizer->n_vocab(), 274);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_THAT(tokenizer->chat_template(), HasSubstr("<|im_start|>assistant"));
}

std::string load_error(const std::function<void(GgufWriter&)>& write) {
  GgufWriter w;
  write(w);
  const auto file = memory_gguf(w.bytes());
  return data_error([&] { load_tokenizer(*file); });
}

GgufWriter& basic(GgufWriter& w, const char* pre, const std::vector<std::string>& merges) {
  return w.string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", pre)
      .strings("tokenizer.ggml.tokens", {"a", "b", "ab"})
      .strings("tokenizer.ggml.merges", merges);
}

TEST(LoadTokenizer, RefusesWhatItCannotUse) {
  EXPECT_EQ(load_error([](GgufWriter& w) { add_tiny_tokenizer(w, 300, "viking"); }),
            "m.gguf: pre-tokenizer 'viking' is not supported; known are default, gpt-2, llama-bpe, "
            "llama3, llama-v3, qwen2, deepseek-r1-qwen, stablelm2, smollm, starcoder, mpt, olmo, "
            "tekken");
  EXPECT_THAT(load_error([](GgufWriter&) {}), HasSubstr("holds no tokenizer"));
  EXPECT_THAT(load_error([](GgufWriter& w) { w.string("tokenizer.ggml.model", "bert"); }),
              HasSubstr("tokenizer 'bert' is not supported"));
  EXPECT_THAT(load_error([](GgufWriter& w) { w.string("tokenizer.ggml.model", "gpt2"); }),
              HasSubstr("'tokenizer.ggml.tokens' is missing"));
  EXPECT_THAT(load_error([](GgufWriter& w) { basic(w, "gpt-2", {"a b"}); }),
              HasSubstr("'tokenizer.ggml.token_type' is missing"));
  const auto with = [](const std::vector<std::string>& merges, const Ids& types, auto add) {
    return load_error([&](GgufWriter& w) {
      basic(w, "gpt-2", merges).i32s("tokenizer.ggml.token_type", types);
      add(w);
    });
  };
  const auto nothing = [](GgufWriter&) {};
  EXPECT_EQ(with({"a b"}, {1, 1, 1}, nothing), "no error");
  EXPECT_THAT(with({"a b"}, {1, 1}, nothing), HasSubstr("lists 2 token types for 3 tokens"));
  EXPECT_THAT(with({"b a"}, {1, 1, 1}, nothing), HasSubstr("merge 0 names something"));
  for (const char* merge : {"ab", " b", "a ", "a b c", ""}) {
    EXPECT_THAT(with({merge}, {1, 1, 1}, nothing), HasSubstr("is no pair of tokens")) << merge;
  }
  EXPECT_THAT(with({}, {1, 1, 1}, [](GgufWriter& w) { w.u32("tokenizer.ggml.eos_token_id", 3); }),
              HasSubstr("end token 3 is outside the vocabulary of 3"));
  EXPECT_THAT(
      with({}, {1, 1, 1}, [](GgufWriter& w) { w.u32("tokenizer.ggml.bos_token_id", 0xFFFFFFFF); }),
      HasSubstr("'tokenizer.ggml.bos_token_id' is no token id"));
  EXPECT_THAT(
      with({}, {1, 1, 1}, [](GgufWriter& w) { w.boolean("tokenizer.ggml.add_bos_token", true); }),
      HasSubstr("has no begin-of-text token"));
}

}  // namespace
}  // namespace kvscope
