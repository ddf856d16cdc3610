#include "metrics/quality/multiple_choice.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "metrics/quality/normalize.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

bool is_choice(char c) { return 'A' <= c && c <= 'D'; }

std::string without(std::string text, char dropped) {
  std::erase(text, dropped);
  return text;
}

// Python's float() of decimal notation.
std::optional<double> number(std::string_view text) {
  const auto words = split_words(text);
  if (words.size() != 1) return std::nullopt;
  std::string_view word = words.front();
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

double exam_of(std::string_view answer, const std::string& gold) {
  const std::string gold_normal = normalize_cased(gold);
  if (std::ranges::all_of(gold_normal, is_choice)) {
    const std::string normal = normalize_cased(answer);
    if (normal == gold_normal) return 1;
    const bool part = std::ranges::all_of(
        normal, [&](char c) { return gold_normal.find(c) != std::string::npos; });
    return part ? 0.25 : 0;
  }
  const auto a = number(answer);
  const auto b = number(gold);
  if (a && b) return *a == *b ? 1 : 0;
  std::string_view line = answer;
  for (std::size_t begin = 0; begin <= answer.size();) {
    const std::size_t end = std::min(answer.find('\n', begin), answer.size());
    if (characters(answer.substr(begin, end - begin)).size() > 1) {
      line = answer.substr(begin, end - begin);
      break;
    }
    begin = end + 1;
  }
  const std::string wanted = without(lower(gold), ' ');
  return without(lower(line), ' ').find(wanted) != std::string::npos ? 1 : 0;
}

}  // namespace

double exam(std::string_view answer, std::span<const std::string> golds) {
  double best = 0;
  for (const std::string& gold : golds) best = std::max(best, exam_of(answer, gold));
  return best;
}

double exam_choice(std::string_view answer, std::span<const std::string> golds) {
  std::string chosen(answer);
  // "BC" alone are two letters.
  if (std::string_view("ABCD").find(answer) == std::string_view::npos) {
    const auto first = std::ranges::find_if(answer, is_choice);
    chosen = first == answer.end() ? 'A' : *first;
  }
  double best = 0;
  for (const std::string& gold : golds) {
    const auto words = split_words(gold);
    std::string letters = words.empty() ? "" : words.front();
    std::erase_if(letters, [](char c) { return !is_choice(c); });
    best = std::max(best, exam_of(chosen, letters.empty() ? "A" : letters));
  }
  return best;
}

double stated_choice(std::string_view answer, std::span<const std::string> golds) {
  constexpr std::string_view kStatement = "The correct answer is ";
  const std::string plain = without(std::string(answer), '*');
  for (const bool brackets : {true, false}) {
    const std::string mark = std::string(kStatement) + (brackets ? "(" : "");
    for (std::size_t at = plain.find(mark); at != std::string::npos;
         at = plain.find(mark, at + 1)) {
      const std::size_t letter = at + mark.size();
      if (letter >= plain.size() || !is_choice(plain[letter])) continue;
      if (brackets && (letter + 1 >= plain.size() || plain[letter + 1] != ')')) continue;
      return std::ranges::find(golds, plain.substr(letter, 1)) != golds.end() ? 1 : 0;
    }
  }
  return 0;
}

double first_choice(std::string_view answer, std::span<const std::string> golds) {
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (!is_choice(answer[i])) continue;
    const auto is_letter = [&](std::size_t at) {
      if (at >= answer.size()) return false;
      const char c = answer[at];
      return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
             c == '\'';
    };
    // "A" before a word is the article.
    const bool article = answer[i] == 'A' && i + 2 < answer.size() && answer[i + 1] == ' ' &&
                         'a' <= answer[i + 2] && answer[i + 2] <= 'z';
    if ((i > 0 && is_letter(i - 1)) || is_letter(i + 1) || article) continue;
    return std::ranges::find(golds, answer.substr(i, 1)) != golds.end() ? 1 : 0;
  }
  return 0;
}

}  // namespace kvscope
