#include "datasets/questions/options.h"

#include "runner/base/error.h"

namespace kvscope {
namespace {

// The letter that `text` begins with, as "B", "B.", "B)" or "(B)"; 0 if none.
char leading_letter(std::string_view text) {
  const bool bracket = text.starts_with('(');
  if (bracket) text.remove_prefix(1);
  if (text.empty() || text[0] < 'A' || text[0] > 'Z') return 0;
  if (text.size() == 1) return bracket ? '\0' : text[0];
  const bool closed = text[1] == ')' || (!bracket && (text[1] == '.' || text[1] == ':'));
  return closed ? text[0] : '\0';
}

}  // namespace

std::string lettered(const std::vector<std::string>& options) {
  std::string text;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const char letter = static_cast<char>('A' + i);
    if (i > 0) text += '\n';
    if (leading_letter(options[i]) != letter) text += std::string(1, letter) + ". ";
    text += options[i];
  }
  return text;
}

std::string option_letter(std::size_t index, const std::vector<std::string>& options) {
  if (index >= options.size() || index >= 26) {
    throw DataError("the answer is option " + std::to_string(index) + " of " +
                    std::to_string(options.size()));
  }
  return std::string(1, static_cast<char>('A' + index));
}

std::size_t option_index(std::string_view answer, const std::vector<std::string>& options) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i] == answer) return i;
  }
  const char letter = leading_letter(answer);
  const auto index = static_cast<std::size_t>(letter - 'A');
  if (letter == 0 || index >= options.size()) {
    throw DataError("the answer \"" + std::string(answer) + "\" is none of the options");
  }
  return index;
}

}  // namespace kvscope
