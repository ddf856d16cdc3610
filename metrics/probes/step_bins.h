// Bins of steps that double in width: [0, 1), [1, 2), [2, 4), [4, 8), …
#pragma once

#include <bit>
#include <cstdint>

namespace kvscope {

// step >= 0, counted from 0.
inline int step_bin(std::int64_t step) { return int(std::bit_width(std::uint64_t(step))); }

struct StepRange {
  std::int64_t low = 0;   // first step of the bin
  std::int64_t high = 0;  // one beyond its last
};

inline StepRange step_range(int bin) {
  return {bin == 0 ? 0 : std::int64_t{1} << (bin - 1), std::int64_t{1} << bin};
}

}  // namespace kvscope
