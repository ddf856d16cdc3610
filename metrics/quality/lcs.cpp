#include "metrics/quality/lcs.h"

#include <algorithm>

namespace kvscope {

LcsTable::LcsTable(const WordList& a, const WordList& b)
    : width_(b.size() + 1), lengths_((a.size() + 1) * width_, 0) {
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      lengths_[i * width_ + j] =
          a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
    }
  }
}

std::vector<std::size_t> lcs_indices(const WordList& a, const WordList& b, LcsTie tie) {
  const LcsTable table(a, b);
  std::vector<std::size_t> indices;
  std::size_t i = a.size();
  std::size_t j = b.size();
  while (i > 0 && j > 0) {
    const int back_in_a = table.at(i - 1, j);
    const int back_in_b = table.at(i, j - 1);
    if (a[i - 1] == b[j - 1]) {
      indices.push_back(i - 1);
      --i;
      --j;
    } else if (back_in_a > back_in_b || (back_in_a == back_in_b && tie == LcsTie::kBackInA)) {
      --i;
    } else {
      --j;
    }
  }
  std::reverse(indices.begin(), indices.end());
  return indices;
}

}  // namespace kvscope
