#pragma once

#include <string>

namespace kvscope {

// "2026-03-01 14:05:09" in UTC, whatever the time zone; "-" if it is not finite.
std::string utc_text(double unix_seconds);

}  // namespace kvscope
