#include "metrics/quality/infinitebench.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "metrics/quality/normalize.h"

namespace kvscope {
namespace {

bool is_ascii_digit(char c) { return '0' <= c && c <= '9'; }

bool contains(std::span<const std::string> golds, std::string_view text) {
  return std::find(golds.begin(), golds.end(), text) != golds.end();
}

// Every occurrence of one of `marks` becomes a space.
std::string spaced(std::string_view text, std::string_view marks) {
  std::string result(text);
  for (char& c : result) {
    if (marks.find(c) != std::string_view::npos) c = ' ';
  }
  return result;
}

std::string single_spaced(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' || result.empty() || result.back() != ' ') result.push_back(c);
  }
  return result;
}

std::vector<std::string> numbers(std::string_view text) {
  std::vector<std::string> runs;
  bool inside = false;
  for (const char c : text) {
    if (is_ascii_digit(c) && !inside) runs.emplace_back();
    inside = is_ascii_digit(c);
    if (inside) runs.back().push_back(c);
  }
  return runs;
}

std::optional<double> value_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What stands behind the first of `prefixes` that occurs, and the character after it. Nothing if
// none occurs; empty text if the answer ends there.
template <std::size_t N>
std::optional<std::string_view> behind_prefix(std::string_view text,
                                              const std::array<std::string_view, N>& prefixes) {
  for (const std::string_view prefix : prefixes) {
    const std::size_t at = text.find(prefix);
    if (at == std::string_view::npos) continue;
    return text.substr(std::min(at + prefix.size() + 1, text.size()));
  }
  return std::nullopt;
}

double starts_with_one(std::string_view text, std::span<const std::string> golds) {
  // The published code returns before it looks where nothing follows.
  if (text.empty()) return 0;
  return std::any_of(golds.begin(), golds.end(),
                     [&](const std::string& gold) { return text.starts_with(gold); })
             ? 1
             : 0;
}

constexpr std::string_view kWordMarks = "\n:\"'.,?!{}";

}  // namespace

double first_number(std::string_view answer, std::span<const std::string> golds) {
  const auto runs = numbers(answer);
  return contains(golds, runs.empty() ? std::string_view() : std::string_view(runs.front())) ? 1
                                                                                             : 0;
}

double whole_word(std::string_view answer, std::span<const std::string> golds) {
  for (const std::string& word : split_words(spaced(answer, kWordMarks))) {
    if (contains(golds, word)) return 1;
  }
  return 0;
}

double whole_capital_word(std::string_view answer, std::span<const std::string> golds) {
  std::string capitals(answer);
  for (char& c : capitals) {
    if ('a' <= c && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return whole_word(capitals, golds);
}

double choice_letter_or_text(std::string_view answer, std::span<const std::string> golds) {
  constexpr std::string_view kLetters = "ABCD";
  constexpr auto kPrefixes =
      std::to_array<std::string_view>({"answer is:", "answer:", "answer is", "option is"});
  if (answer.empty()) return 0;
  if (kLetters.find(answer.front()) != std::string_view::npos) {
    return contains(golds, answer.substr(0, 1)) ? 1 : 0;
  }
  const std::string plain = single_spaced(spaced(answer, "\n\"'.,?!{}"));
  if (const auto rest = behind_prefix(plain, kPrefixes)) return starts_with_one(*rest, golds);
  for (const std::string& word : split_words(plain)) {
    if (kLetters.find(word) != std::string_view::npos) return contains(golds, word) ? 1 : 0;
  }
  return 0;
}

double code_debug(std::string_view answer, std::span<const std::string> golds) {
  constexpr auto kPrefixes = std::to_array<std::string_view>({"answer is:", "is:", "answer:"});
  if (golds.size() < 2) return 0;
  const std::string& letter = golds[1];
  if (answer.starts_with(letter + ".") || answer.starts_with(letter + ":")) return 1;
  std::string plain;
  for (const std::string& word : split_words(answer)) plain += (plain.empty() ? "" : " ") + word;
  plain = spaced(plain, "`'\"-*");
  for (const std::string_view option : {"Option", "option"}) {
    for (std::size_t at = plain.find(option); at != std::string::npos; at = plain.find(option)) {
      plain.replace(at, option.size(), 1, ' ');
    }
  }
  plain = single_spaced(plain);
  const auto rest = behind_prefix(plain, kPrefixes);
  return rest ? starts_with_one(*rest, golds.first(2)) : 0;
}

double last_integer(std::string_view answer, std::span<const std::string> golds) {
  const auto words = split_words(spaced(answer, "\n.`'\":"));
  if (words.empty()) return 0;
  long long value = 0;
  long long gold = 0;
  const auto whole = [](std::string_view text, long long& number) {
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
  };
  if (!whole(words.back(), value)) return 0;
  return std::any_of(golds.begin(), golds.end(),
                     [&](const std::string& text) { return whole(text, gold) && gold == value; })
             ? 1
             : 0;
}

double first_value(std::string_view answer, std::span<const std::string> golds) {
  const std::size_t begin = answer.find_first_of("0123456789");
  if (begin == std::string_view::npos) return 0;
  std::size_t end = begin;
  while (end < answer.size() && is_ascii_digit(answer[end])) ++end;
  const std::size_t whole_end = end;
  if (end + 1 < answer.size() && answer[end] == '.' && is_ascii_digit(answer[end + 1])) {
    ++end;
    while (end < answer.size() && is_ascii_digit(answer[end])) ++end;
  }
  const auto value = value_of(answer.substr(begin, end - begin));
  for (const std::string& gold : golds) {
    // A whole gold wants a whole number.
    const bool whole_gold = gold.find('.') == std::string::npos;
    if (whole_gold && end != whole_end) continue;
    if (value && value_of(gold) == value) return 1;
  }
  return 0;
}

double leading_values(std::string_view answer, std::span<const std::string> golds) {
  if (golds.empty()) return 0;
  const auto found = numbers(answer);
  std::size_t right = 0;
  while (right < golds.size() && right < found.size() &&
         value_of(found[right]) == value_of(golds[right])) {
    ++right;
  }
  return static_cast<double>(right) / static_cast<double>(golds.size());
}

}  // namespace kvscope
