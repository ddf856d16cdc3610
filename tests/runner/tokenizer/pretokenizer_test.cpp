// Words worked out by hand from the published patterns of each model family.
#include "runner/tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> words(const char* name, std::string_view text) {
  const Pretokenizer pretokenizer(*find_pretokenizer_rule(name));
  std::vector<std::string> result;
  pretokenizer.split(text, [&](std::string_view word) { result.emplace_back(word); });
  return result;
}

TEST(Pretokenizer, Gpt2KeepsTheSpaceBeforeAWord) {
  EXPECT_THAT(words("gpt-2", "Hello,  world 123 it's!?"),
              ElementsAre("Hello", ",", " ", " world", " 123", " it", "'s", "!?"));
  EXPECT_THAT(words("gpt-2", "a \n\n b\n"), ElementsAre("a", " \n\n", " b", "\n"));
  EXPECT_THAT(words("gpt-2", "IT'S"), ElementsAre("IT", "'", "S"));
  EXPECT_THAT(words("gpt-2", ""), IsEmpty());
}

TEST(Pretokenizer, SmollmCutsEachDigitOutFirst) {
  EXPECT_THAT(words("smollm", "in 1984, x2"),
              ElementsAre("in", " ", "1", "9", "8", "4", ",", " x", "2"));
  // White space before a digit is one word, as at a text's end; before a letter the last space goes
  // with the letter.
  EXPECT_THAT(words("smollm", "a   1   b   "), ElementsAre("a", "   ", "1", "  ", " b", "   "));
  EXPECT_THAT(words("smollm", "½Ⅷ٣"), ElementsAre("½", "Ⅷ", "٣"));
}

TEST(Pretokenizer, LlamaBpeTakesThreeDigitsAndLineEnds) {
  EXPECT_THAT(words("llama-bpe", "Pay 12345!\n\n I'LL \n x"),
              ElementsAre("Pay", " ", "123", "45", "!\n\n", " I", "'LL", " \n", " x"));
  EXPECT_THAT(words("llama-bpe", "(word"), ElementsAre("(word"));
}

TEST(Pretokenizer, Qwen2TakesOneDigit) {
  EXPECT_THAT(words("qwen2", "Pay 123\tx"), ElementsAre("Pay", " ", "1", "2", "3", "\tx"));
}

TEST(Pretokenizer, TekkenCutsWhereCapitalsBegin) {
  EXPECT_THAT(words("tekken", "HelloWorld ABCd 12/\n"),
              ElementsAre("Hello", "World", " ABCd", " ", "1", "2", "/\n"));
}

TEST(Pretokenizer, DefaultCutsStageByStage) {
  EXPECT_THAT(words("default", "a b12345, c"), ElementsAre("a", " b", "123", "45", ",", " c"));
}

TEST(Pretokenizer, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_THAT(words("gpt-2", "a\u2003\u3000\u0085"), ElementsAre("a", "\u2003\u3000\u0085"));
  EXPECT_THAT(words("gpt-2", "\u180E \u200B"), ElementsAre("\u180E", " \u200B"));  // neither is
}

TEST(Pretokenizer, BytesOutsideUtf8AreWordsOfTheirOwn) {
  EXPECT_THAT(words("smollm", "ab\xFF\xC3 cd\xE2\x82"),
              ElementsAre("ab", "\xFF", "\xC3", " cd", "\xE2", "\x82"));
  EXPECT_THAT(words("smollm", "\xED\xA0\x80"), ElementsAre("\xED", "\xA0", "\x80"));  // a surrogate
  EXPECT_THAT(words("smollm", std::string_view("a\0b", 3)),
              ElementsAre("a", std::string(1, '\0'), "b"));
}

TEST(Pretokenizer, WordsAreTheWholeTextHoweverLong) {
  for (const char* name : {"default", "gpt-2", "llama-bpe", "qwen2", "smollm", "tekken"}) {
    for (const char* unit : {" ", "x", "\n ", "1", "'", "\xE4\xB8\xAD", "\x80"}) {
      std::string text;
      while (text.size() < 300000) text += unit;
      std::string joined;
      for (const std::string& word : words(name, text)) joined += word;
      EXPECT_EQ(joined.size(), text.size()) << name << " '" << unit << "'";
      EXPECT_EQ(joined == text, true) << name << " '" << unit << "'";
    }
  }
}

TEST(Pretokenizer, UnknownNamesAreNotFound) {
  EXPECT_EQ(find_pretokenizer_rule("viking"), nullptr);
  EXPECT_TRUE(known_pretokenizers().starts_with("default, gpt-2, llama-bpe, "));
}

TEST(Utf8, AcceptsExactlyTheWellFormed) {
  const auto length = [](std::string_view text) { return utf8_character_bytes(text); };
  EXPECT_EQ(length("a"), 1U);
  EXPECT_EQ(length("\xC2\x80"), 2U);
  EXPECT_EQ(length("\xE0\xA0\x80"), 3U);
  EXPECT_EQ(length("\xED\x9F\xBF"), 3U);
  EXPECT_EQ(length("\xF0\x90\x80\x80"), 4U);
  EXPECT_EQ(length("\xF4\x8F\xBF\xBF"), 4U);
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xEF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x98", "\xFF"}) {
    EXPECT_EQ(length(bad), 0U) << ::testing::PrintToString(std::string(bad));
  }
  EXPECT_EQ(utf8_valid_prefix("a\xC3\xA9\xFFz"), 3U);
  EXPECT_EQ(utf8_valid_prefix("é"), 2U);
}

}  // namespace
}  // namespace kvscope
