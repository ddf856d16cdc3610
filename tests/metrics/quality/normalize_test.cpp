#include "metrics/quality/normalize.h"

#include <gtest/gtest.h>

#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

TEST(Normalize, lowers_then_drops_punctuation_then_articles_then_space) {
  EXPECT_EQ(normalize_answer("  The  \"Harbour\", a Master!\n"), "harbour master");
  // Punctuation goes before articles: "a." is the article "a" by then.
  EXPECT_EQ(normalize_answer("A. An, the"), "");
  EXPECT_EQ(normalize_answer("theatre an artist"), "theatre artist");
}

TEST(Normalize, joins_what_punctuation_divided) {
  EXPECT_EQ(normalize_answer("1,200"), "1200");
  EXPECT_EQ(normalize_answer("O'Brien-Smith"), "obriensmith");
}

TEST(Normalize, keeps_punctuation_outside_ascii) {
  EXPECT_EQ(normalize_answer("Café “Zürich” — open"), "café “zürich” — open");
  // A quotation mark ends a word, so the article inside is replaced.
  EXPECT_EQ(normalize_answer("“the” end"), "“ ” end");
}

TEST(Normalize, splits_at_the_spaces_of_unicode) {
  EXPECT_EQ(normalize_answer("two\u00a0words\u2003and\u3000three"), "two words and three");
}

TEST(Lower, covers_latin_greek_and_cyrillic) {
  EXPECT_EQ(lower("ÀÉÎÕÜŸŽ ŁÓDŹ"), "àéîõüÿž łódź");
  EXPECT_EQ(lower("ƠƯ ẮẾ"), "ơư ắế");
  EXPECT_EQ(lower("ΑΒΓ ΆΈΏ"), "αβγ άέώ");
  EXPECT_EQ(lower("МОСКВА ЁЖ Ґ"), "москва ёж ґ");
  EXPECT_EQ(lower("ẞ"), "ß");
  EXPECT_EQ(lower("×÷ß北京"), "×÷ß北京");
}

TEST(Lower, writes_a_final_sigma_at_the_end_of_a_word) {
  EXPECT_EQ(lower("ΟΔΥΣΣΕΥΣ ΣΑΣ"), "οδυσσευς σας");
  EXPECT_EQ(lower("Σ"), "σ");
}

TEST(Lower, writes_a_dotted_capital_i_as_two_characters) { EXPECT_EQ(lower("İ"), "i\u0307"); }

TEST(Lower, keeps_bytes_that_are_no_utf8) {
  EXPECT_EQ(lower("A\xff\xc3"), "a\xff\xc3");
  EXPECT_EQ(normalize_answer("The \x80 B"), "\x80 b");
}

}  // namespace
}  // namespace kvscope
