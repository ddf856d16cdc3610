#include "metrics/quality/answer_text.h"

#include <cstddef>

namespace kvscope {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

std::string_view first_line(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin);
  text = text.substr(0, text.find('\n'));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::string_view sentence_rest(std::string_view text) {
  const std::string_view line = first_line(text);
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool stop = line[i] == '.' || line[i] == '!' || line[i] == '?';
    if (stop && (i + 1 == line.size() || kSpace.find(line[i + 1]) != std::string_view::npos)) {
      return line.substr(0, i);
    }
  }
  return line;
}

}  // namespace kvscope
