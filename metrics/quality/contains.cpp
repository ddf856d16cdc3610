#include "metrics/quality/contains.h"

#include <algorithm>

#include "metrics/quality/normalize.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

}  // namespace

double contains_normalized(std::string_view answer, std::span<const std::string> golds) {
  const std::string normal = normalize_answer(answer);
  const auto inside = [&](const std::string& gold) {
    return normal.find(normalize_answer(gold)) != std::string::npos;
  };
  return std::any_of(golds.begin(), golds.end(), inside) ? 1.0 : 0.0;
}

double share_contained(std::string_view answer, std::span<const std::string> golds) {
  if (golds.empty()) return 0;
  // RULER replaces control characters before it looks.
  std::string small = lower(answer);
  std::replace_if(small.begin(), small.end(), is_control, '\n');
  const auto inside = [&](const std::string& gold) {
    return small.find(lower(gold)) != std::string::npos;
  };
  const auto found = std::count_if(golds.begin(), golds.end(), inside);
  return static_cast<double>(found) / static_cast<double>(golds.size());
}

double any_contained(std::string_view answer, std::span<const std::string> golds) {
  return share_contained(answer, golds) > 0 ? 1.0 : 0.0;
}

}  // namespace kvscope
