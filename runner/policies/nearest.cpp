#include "runner/policies/nearest.h"

#include <algorithm>
#include <numeric>

namespace kvscope {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 2) + 1;
  for (const std::string_view name : known) {
    const int distance = edit_distance(word, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view name = nearest_name(word, known);
  return name.empty() ? std::string() : "; did you mean \"" + std::string(name) + "\"?";
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace kvscope
