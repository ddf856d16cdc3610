// Budgets as people write them (policies.md 1.3); everything after parsing is an integer.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "runner/base/error.h"
#include "runner/policies/spec.h"

namespace kvscope {
namespace {

[[noreturn]] void fail(std::string_view text, std::string_view why) {
  throw UsageError("budget \"" + std::string(text) + "\": " + std::string(why));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

void append_range(std::string_view text, std::vector<Budget>& budgets) {
  const auto pieces = split(text, ':');
  if (pieces.size() != 3) fail(text, "a range is FIRST:LAST:STEP, e.g. 0.1:0.5:0.1");
  const int first = *parse_budget_ratio(pieces[0]).permille;
  const int last = *parse_budget_ratio(pieces[1]).permille;
  const int step = *parse_budget_ratio(pieces[2]).permille;
  if (first > last) fail(text, "the range is empty; write the smaller budget first");
  for (int permille = first; permille <= last; permille += step) {
    budgets.push_back({.permille = permille, .tokens = std::nullopt});
  }
}

}  // namespace

std::string Budget::label() const {
  if (tokens) return std::to_string(*tokens) + "tok";
  char text[16];
  const int thousandths = permille.value_or(1000);
  std::snprintf(text, sizeof text, "%d.%03d", thousandths / 1000, thousandths % 1000);
  return text;
}

int Budget::tokens_for(int prompt_tokens) const {
  if (tokens) return *tokens;
  const std::int64_t product = std::int64_t{permille.value_or(1000)} * prompt_tokens;
  return static_cast<int>(std::max<std::int64_t>(1, product / 1000));
}

Budget parse_budget_ratio(std::string_view text) {
  double ratio = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, ratio);
  if (text.empty() || error != std::errc() || stop != end) {
    fail(text, "not a number; write a share of the prompt such as 0.2");
  }
  if (!std::isfinite(ratio)) fail(text, "not finite; write a share of the prompt such as 0.2");
  if (ratio <= 0.0) fail(text, "must be greater than 0; write a share of the prompt such as 0.2");
  if (ratio > 1.0) {
    fail(text, "must be at most 1; for a number of tokens use --budget-tokens");
  }
  const double permille = std::round(ratio * 1000.0);
  // Both sides are the double nearest to the decimal, so equality is exact for every decimal with
  // three digits.
  if (permille < 1.0 || permille / 1000.0 != ratio) {
    fail(text, "not a whole permille; round it to three digits, e.g. 0.125");
  }
  return {.permille = static_cast<int>(permille), .tokens = std::nullopt};
}

std::vector<Budget> parse_budget_list(std::string_view text) {
  std::vector<Budget> budgets;
  for (const std::string_view piece : split(text, ',')) {
    if (piece.find(':') != std::string_view::npos) {
      append_range(piece, budgets);
    } else {
      budgets.push_back(parse_budget_ratio(piece));
    }
  }
  for (auto it = budgets.begin(); it != budgets.end(); ++it) {
    if (std::find(budgets.begin(), it, *it) != it) {
      fail(text, it->label() + " is listed twice; list each budget once");
    }
  }
  return budgets;
}

}  // namespace kvscope
