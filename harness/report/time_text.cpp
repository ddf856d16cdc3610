#include "harness/report/time_text.h"

#include <array>
#include <cmath>
#include <ctime>

namespace kvscope {

std::string utc_text(double unix_seconds) {
  if (!std::isfinite(unix_seconds)) return "-";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  std::array<char, 64> buffer{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "-";
  const std::size_t n = std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return {buffer.data(), n};
}

}  // namespace kvscope
