#include "metrics/quality/needle_recall.h"

#include <algorithm>
#include <cstddef>

namespace kvscope {
namespace {

bool is_digit(char c) { return '0' <= c && c <= '9'; }

}  // namespace

double needle_recall(std::string_view answer, std::span<const std::string> golds) {
  for (std::size_t i = 0; i < answer.size();) {
    if (!is_digit(answer[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < answer.size() && is_digit(answer[end])) ++end;
    const std::string_view run = answer.substr(i, end - i);
    if (std::find(golds.begin(), golds.end(), run) != golds.end()) return 1;
    i = end;
  }
  return 0;
}

}  // namespace kvscope
