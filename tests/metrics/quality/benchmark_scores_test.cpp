// Scores of which there are no published vectors, by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "metrics/quality/infinitebench.h"
#include "metrics/quality/multiple_choice.h"
#include "metrics/quality/rouge.h"
#include "metrics/quality/scorers.h"
#include "metrics/quality/unicode.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using Golds = std::vector<std::string>;

TEST(Rouge, counts_words_pairs_and_the_longest_common_subsequence) {
  const Golds gold = {"The cat sat on the mat."};
  // 5 of 6 words each way; the pairs "the cat", "on the", "the mat" of 5.
  EXPECT_DOUBLE_EQ(rouge_1("the cat lay on the mat", gold), 5.0 / 6);
  EXPECT_DOUBLE_EQ(rouge_2("the cat lay on the mat", gold), 3.0 / 5);
  EXPECT_DOUBLE_EQ(rouge_l("the cat lay on the mat", gold), 5.0 / 6);
  EXPECT_NEAR(rouge_geometric_mean("the cat lay on the mat", gold),
              std::cbrt(5.0 / 6 * 0.6 * 5 / 6),
              1e-15);  // one rounding more or less
  EXPECT_EQ(rouge_l("", gold), 0);
  EXPECT_EQ(rouge_l("北京", Golds{"北京"}), 0);  // only a-z and 0-9 are words
}

TEST(Rouge, takes_lines_as_sentences_in_the_sum_form) {
  // In order the two lines share one of them; line by line both.
  EXPECT_DOUBLE_EQ(rouge_l("a b\nc d", Golds{"c d\na b"}), 0.5);
  EXPECT_DOUBLE_EQ(rouge_l_sum("a b\nc d", Golds{"c d\na b"}), 1);
}

TEST(InfiniteBench, judges_code_and_numbers) {
  EXPECT_EQ(last_integer("The result is -12.", Golds{"-12"}), 1);
  EXPECT_EQ(last_integer("It is 12 or 13", Golds{"12"}), 0);
  EXPECT_EQ(last_integer("", Golds{"0"}), 0);
  EXPECT_EQ(first_value("about 3.50 or 4", Golds{"3.5"}), 1);
  EXPECT_EQ(first_value("3.0", Golds{"3"}), 0);  // int("3.0") is an error upstream
  EXPECT_DOUBLE_EQ(leading_values("1, 2, 4", Golds{"1", "2", "3", "4"}), 0.5);
  EXPECT_EQ(code_debug("C. because", Golds{"solve", "C"}), 1);
  EXPECT_EQ(code_debug("The answer is: solve", Golds{"solve", "C"}), 1);
  EXPECT_EQ(code_debug("The answer is: D", Golds{"solve", "C"}), 0);
  EXPECT_EQ(whole_capital_word("it was bob.", Golds{"BOB"}), 1);
}

TEST(MultipleChoice, finds_the_letter_as_each_benchmark_does) {
  EXPECT_EQ(stated_choice("So **The correct answer is (B)**.", Golds{"B"}), 1);
  EXPECT_EQ(stated_choice("The correct answer is C", Golds{"C"}), 1);
  EXPECT_EQ(stated_choice("C", Golds{"C"}), 0);
  EXPECT_EQ(exam_choice("The answer is B.", Golds{"(B) Yellow"}), 1);
  EXPECT_EQ(exam_choice("no letter", Golds{"(A) Grey"}), 1);  // upstream guesses A
  EXPECT_EQ(exam("", Golds{"B"}), 0.25);                      // no letter is part of any
  EXPECT_EQ(first_choice("A dory is B", Golds{"B"}), 1);
  EXPECT_EQ(first_choice("Bad", Golds{"B"}), 0);
}

TEST(Scorers, have_names_of_their_own_and_their_benchmarks) {
  EXPECT_EQ(find_scorer("longbench.rouge(pltrdy)")->name, "rouge_l_longbench");
  EXPECT_EQ(find_scorer("rouge_l")->upstream, "");
  EXPECT_EQ(find_scorer(""), nullptr);
  EXPECT_THROW(scorer_named("token_f2"), UsageError);
  const ScorerInfo& all = scorer_named("string_match_all");
  EXPECT_EQ(upstream_value(all, 2.0 / 3), 66.67);
}

TEST(Unicode, knows_the_digits_of_other_scripts) {
  EXPECT_TRUE(is_digit(U'7'));
  EXPECT_TRUE(is_digit(U'７'));
  EXPECT_TRUE(is_digit(U'٣'));
  EXPECT_FALSE(is_digit(U'三'));
  EXPECT_FALSE(is_digit(U'a'));
  EXPECT_EQ(characters("aé北"), (Golds{"a", "é", "北"}));
}

}  // namespace
}  // namespace kvscope
