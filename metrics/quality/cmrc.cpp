#include "metrics/quality/cmrc.h"

#include <algorithm>
#include <vector>

#include "metrics/quality/multiset_f1.h"
#include "metrics/quality/normalize.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

// "……" of the published list is two characters and never equals one.
constexpr std::u32string_view kPunctuation = U"-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』";

std::string stripped_lower(std::string_view text) {
  const auto all = characters(lower(text));
  const auto blank = [](const std::string& c) {
    std::size_t i = 0;
    return is_space(next_code_point(c, i));
  };
  const auto first = std::find_if_not(all.begin(), all.end(), blank);
  const auto last = std::find_if_not(all.rbegin(), all.rend(), blank).base();
  std::string result;
  for (auto c = first; c < last; ++c) result += *c;
  return result;
}

std::string without_punctuation(std::string_view text) {
  const std::string small = stripped_lower(text);
  std::string result;
  for (std::size_t i = 0; i < small.size();) {
    const char32_t c = next_code_point(small, i);
    if (kPunctuation.find(c) == std::u32string_view::npos) append_code_point(result, c);
  }
  return result;
}

std::vector<std::string> segments(std::string_view text) {
  const std::string bare = without_punctuation(text);
  std::vector<std::string> result;
  std::string other;
  const auto flush = [&] {
    for (std::string& word : split_words(other)) result.push_back(std::move(word));
    other.clear();
  };
  for (std::size_t i = 0; i < bare.size();) {
    const char32_t c = next_code_point(bare, i);
    if (0x4e00 <= c && c <= 0x9fa5) {
      flush();
      append_code_point(result.emplace_back(), c);
    } else {
      append_code_point(other, c);
    }
  }
  flush();
  return result;
}

std::size_t longest_common_run(const std::vector<std::string>& a,
                               const std::vector<std::string>& b) {
  std::size_t best = 0;
  std::vector<std::size_t> above(b.size() + 1, 0);
  for (const std::string& unit : a) {
    std::vector<std::size_t> row(b.size() + 1, 0);
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (unit == b[j]) best = std::max(best, row[j + 1] = above[j] + 1);
    }
    above = std::move(row);
  }
  return best;
}

}  // namespace

double cmrc_f1(std::string_view answer, std::span<const std::string> golds) {
  const auto units = segments(answer);
  double best = 0;
  for (const std::string& gold : golds) {
    const auto gold_units = segments(gold);
    best = std::max(best, f1_of_counts(static_cast<double>(longest_common_run(units, gold_units)),
                                       static_cast<double>(units.size()),
                                       static_cast<double>(gold_units.size())));
  }
  return best;
}

double cmrc_exact_match(std::string_view answer, std::span<const std::string> golds) {
  const std::string bare = without_punctuation(answer);
  return std::any_of(golds.begin(), golds.end(),
                     [&](const std::string& gold) { return without_punctuation(gold) == bare; })
             ? 1.0
             : 0.0;
}

}  // namespace kvscope
