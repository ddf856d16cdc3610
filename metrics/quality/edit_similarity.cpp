#include "metrics/quality/edit_similarity.h"

#include <algorithm>
#include <cmath>

#include "metrics/quality/lcs.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

std::string_view first_code_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_of("`#") == std::string_view::npos &&
        line.find("//") == std::string_view::npos) {
      return line;
    }
    begin = end + 1;
  }
  return {};
}

double ratio(std::string_view a, std::string_view b) {
  if (a == b) return 1;
  if (a.empty() || b.empty()) return 0;
  const WordList left = characters(a);
  const WordList right = characters(b);
  const double matches = LcsTable(left, right).length();
  const double share = 2 * matches / static_cast<double>(left.size() + right.size());
  return std::nearbyint(100 * share) / 100;  // halves to even, as Python rounds
}

}  // namespace

double edit_similarity(std::string_view answer, std::span<const std::string> golds) {
  const std::string_view line = first_code_line(answer);
  double best = 0;
  for (const std::string& gold : golds) best = std::max(best, ratio(line, gold));
  return best;
}

}  // namespace kvscope
