#include "runner/model/gguf_keys.h"

#include <cmath>

namespace kvscope {

int GgufKeys::positive(std::string_view name, int fallback) const {
  constexpr int kLargest = 1 << 30;
  const auto value = file_.integer(key(name));
  if (!value && fallback > 0) return fallback;
  if (!value) fail("key " + kvscope::quoted(key(name)) + " is missing; convert the model again");
  if (*value < 1 || *value > kLargest) {
    fail("key " + kvscope::quoted(key(name)) + " is " + std::to_string(*value) +
         ", not a positive size; convert the model again");
  }
  return static_cast<int>(*value);
}

double GgufKeys::positive_real(std::string_view name, std::optional<double> fallback) const {
  const std::optional<double> value = has(name) ? file_.real(key(name)) : fallback;
  if (!value) fail("key " + kvscope::quoted(key(name)) + " is missing; convert the model again");
  if (!(std::isfinite(*value) && *value > 0))
    fail("key " + kvscope::quoted(key(name)) +
         " is not a positive number; convert the model again");
  return *value;
}

}  // namespace kvscope
