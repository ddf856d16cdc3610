#include "metrics/quality/exact_match.h"

#include <algorithm>

#include "metrics/quality/normalize.h"

namespace kvscope {

double exact_match(std::string_view answer, std::span<const std::string> golds) {
  const std::string normal = normalize_answer(answer);
  const auto equal = [&](const std::string& gold) { return normalize_answer(gold) == normal; };
  return std::any_of(golds.begin(), golds.end(), equal) ? 1.0 : 0.0;
}

}  // namespace kvscope
