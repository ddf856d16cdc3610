#include "metrics/quality/digit_share.h"

#include <algorithm>
#include <vector>

#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

std::vector<std::string> digit_runs(std::string_view text) {
  std::vector<std::string> runs;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    const bool digit = is_digit(c);
    if (digit && !inside) runs.emplace_back();
    if (digit) append_code_point(runs.back(), c);
    inside = digit;
  }
  return runs;
}

double share(const std::vector<std::string>& runs, const std::string& number) {
  if (runs.empty()) return 0;
  return static_cast<double>(std::count(runs.begin(), runs.end(), number)) /
         static_cast<double>(runs.size());
}

// The digits right behind the first `mark` that has some; empty if none has.
std::string digits_behind(std::string_view text, std::string_view mark) {
  for (std::size_t at = text.find(mark); at != std::string_view::npos;
       at = text.find(mark, at + 1)) {
    std::string digits;
    for (std::size_t i = at + mark.size(); i < text.size();) {
      const char32_t c = next_code_point(text, i);
      if (!is_digit(c)) break;
      append_code_point(digits, c);
    }
    if (!digits.empty()) return digits;
  }
  return {};
}

double best_behind(std::string_view answer, std::span<const std::string> golds,
                   std::string_view mark) {
  const auto runs = digit_runs(answer);
  double best = 0;
  for (const std::string& gold : golds) {
    best = std::max(best, share(runs, digits_behind(gold, mark)));
  }
  return best;
}

}  // namespace

double count_share(std::string_view answer, std::span<const std::string> golds) {
  const auto runs = digit_runs(answer);
  double best = 0;
  for (const std::string& gold : golds) best = std::max(best, share(runs, gold));
  return best;
}

double retrieval_share(std::string_view answer, std::span<const std::string> golds) {
  return best_behind(answer, golds, "Paragraph ");
}

double retrieval_share_zh(std::string_view answer, std::span<const std::string> golds) {
  return best_behind(answer, golds, "段落");
}

}  // namespace kvscope
