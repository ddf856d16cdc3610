#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "metrics/quality/answer_text.h"
#include "metrics/quality/exact_match.h"
#include "metrics/quality/needle_recall.h"
#include "metrics/quality/token_f1.h"

namespace kvscope {
namespace {

using Golds = std::vector<std::string>;

TEST(NeedleRecall, wants_the_number_as_a_whole_run_of_digits) {
  const Golds gold = {"27269"};
  EXPECT_EQ(needle_recall(" 27269.", gold), 1);
  EXPECT_EQ(needle_recall("27269", gold), 1);
  EXPECT_EQ(needle_recall("It is 11111 or 27269, I think", gold), 1);
  EXPECT_EQ(needle_recall("272690", gold), 0);
  EXPECT_EQ(needle_recall("127269", gold), 0);
  EXPECT_EQ(needle_recall("2726", gold), 0);
  EXPECT_EQ(needle_recall("27 269", gold), 0);
  EXPECT_EQ(needle_recall("", gold), 0);
}

TEST(NeedleRecall, takes_any_of_several_golds) {
  EXPECT_EQ(needle_recall("222", Golds{"111", "222"}), 1);
  EXPECT_EQ(needle_recall("word", Golds{"word"}), 0);
  EXPECT_EQ(needle_recall("", Golds{""}), 0);
}

TEST(ExactMatch, takes_the_best_gold) {
  EXPECT_EQ(exact_match("in 1902.", Golds{"1902", "in 1902"}), 1);
  EXPECT_EQ(exact_match("in 1903", Golds{"1902", "in 1902"}), 0);
  EXPECT_EQ(exact_match("", Golds{}), 0);
}

TEST(TokenF1, takes_the_best_gold) {
  // One of two words each way round: precision 1/2, recall 1.
  EXPECT_DOUBLE_EQ(token_f1("in 1902", Golds{"1902", "spring"}), 2.0 / 3.0);
  EXPECT_EQ(token_f1("in 1902", Golds{"1902", "in 1902"}), 1);
  EXPECT_EQ(token_f1("anything", Golds{}), 0);
}

TEST(AnswerText, first_line_skips_leading_space) {
  EXPECT_EQ(first_line("\n  Osric Vane. \nMore"), "Osric Vane.");
  EXPECT_EQ(first_line("\r\nA\r\nB"), "A");
  EXPECT_EQ(first_line(" \n\t"), "");
}

TEST(AnswerText, sentence_rest_ends_at_a_full_stop_before_space) {
  EXPECT_EQ(sentence_rest(" Oslo. Anna works as"), "Oslo");
  EXPECT_EQ(sentence_rest(" 3.5 kg. More"), "3.5 kg");
  EXPECT_EQ(sentence_rest(" baker\nof bread."), "baker");
  EXPECT_EQ(sentence_rest(" Oslo"), "Oslo");
  EXPECT_EQ(sentence_rest(""), "");
}

}  // namespace
}  // namespace kvscope
