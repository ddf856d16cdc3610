#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/base/error.h"
#include "runner/policies/spec.h"

namespace kvscope {
namespace {

using ::testing::HasSubstr;

std::string error_of(void (*call)(std::string_view), std::string_view text) {
  try {
    call(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

void parse_ratio(std::string_view text) { parse_budget_ratio(text); }
void parse_list(std::string_view text) { parse_budget_list(text); }

TEST(BudgetRatio, is_held_in_whole_permille) {
  EXPECT_EQ(parse_budget_ratio("0.2").permille, 200);
  EXPECT_EQ(parse_budget_ratio("0.200").permille, 200);
  EXPECT_EQ(parse_budget_ratio(".5").permille, 500);
  EXPECT_EQ(parse_budget_ratio("1").permille, 1000);
  EXPECT_EQ(parse_budget_ratio("1.0").permille, 1000);
  EXPECT_EQ(parse_budget_ratio("1e-3").permille, 1);
  EXPECT_FALSE(parse_budget_ratio("0.2").tokens.has_value());
  for (int permille = 1; permille <= 1000; ++permille) {
    const Budget budget{.permille = permille, .tokens = std::nullopt};
    EXPECT_EQ(parse_budget_ratio(budget.label()), budget);
  }
}

TEST(BudgetRatio, every_bad_text_has_its_message) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "budget \"\": not a number; write a share of the prompt such as 0.2"},
      {"a", "not a number"},
      {"0.2x", "not a number"},
      {"0,2", "not a number"},
      {"20%", "not a number"},
      {"nan", "not finite"},
      {"inf", "not finite"},
      {"0", "must be greater than 0"},
      {"-0.1", "must be greater than 0"},
      {"1.001", "must be at most 1; for a number of tokens use --budget-tokens"},
      {"256", "must be at most 1"},
      {"0.2005", "not a whole permille; round it to three digits, e.g. 0.125"},
      {"0.0001", "not a whole permille"},
      {"0.3333333", "not a whole permille"},
      {"0.2000001", "not a whole permille"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of(parse_ratio, text), HasSubstr(message)) << text;
  }
}

std::vector<int> permilles(std::string_view text) {
  std::vector<int> values;
  for (const Budget& budget : parse_budget_list(text)) values.push_back(*budget.permille);
  return values;
}

TEST(BudgetList, is_a_list_or_an_inclusive_range) {
  EXPECT_EQ(permilles("0.1,0.2,0.5"), (std::vector<int>{100, 200, 500}));
  EXPECT_EQ(permilles("0.5"), (std::vector<int>{500}));
  EXPECT_EQ(permilles("0.1:0.5:0.1"), (std::vector<int>{100, 200, 300, 400, 500}));
  EXPECT_EQ(permilles("0.1:0.45:0.1"), (std::vector<int>{100, 200, 300, 400}));
  EXPECT_EQ(permilles("0.05,0.1:0.3:0.1"), (std::vector<int>{50, 100, 200, 300}));
  EXPECT_EQ(permilles("0.3:0.3:0.1"), (std::vector<int>{300}));
}

TEST(BudgetList, every_bad_text_has_its_message) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not a number"},
      {"0.1,,0.2", "not a number"},
      {"0.1:0.5", "a range is FIRST:LAST:STEP, e.g. 0.1:0.5:0.1"},
      {"0.1:0.5:0.1:0.1", "a range is FIRST:LAST:STEP"},
      {"0.5:0.1:0.1", "the range is empty; write the smaller budget first"},
      {"0.1:0.5:0", "must be greater than 0"},
      {"0.1,0.2,0.100", "0.100 is listed twice"},
      {"0.1:0.3:0.1,0.2", "0.200 is listed twice"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of(parse_list, text), HasSubstr(message)) << text;
  }
}

TEST(Budget, tokens_are_the_floor_and_at_least_one) {
  const auto tokens = [](int permille, int prompt_tokens) {
    return Budget{.permille = permille, .tokens = std::nullopt}.tokens_for(prompt_tokens);
  };
  EXPECT_EQ(tokens(200, 700), 140);
  EXPECT_EQ(tokens(200, 699), 139);
  EXPECT_EQ(tokens(1, 100), 1);
  EXPECT_EQ(tokens(1000, 1), 1);
  EXPECT_EQ(tokens(100, 2'000'000'000), 200'000'000);
  EXPECT_EQ((Budget{.permille = std::nullopt, .tokens = 256}.tokens_for(10)), 256);
}

TEST(Budget, label_is_three_digits_or_tokens) {
  EXPECT_EQ((Budget{.permille = 200, .tokens = std::nullopt}.label()), "0.200");
  EXPECT_EQ((Budget{.permille = 5, .tokens = std::nullopt}.label()), "0.005");
  EXPECT_EQ((Budget{.permille = 1000, .tokens = std::nullopt}.label()), "1.000");
  EXPECT_EQ((Budget{.permille = std::nullopt, .tokens = 256}.label()), "256tok");
}

}  // namespace
}  // namespace kvscope
