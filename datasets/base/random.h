// Seeded draws that give the same values on every machine and compiler; the standard library's
// distributions do not promise that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/base/splitmix.h"

namespace kvscope {

class Random {
 public:
  // Streams with different names are independent even under the same seed, so that a further option
  // in one generator does not change what another one draws.
  Random(std::uint64_t seed, std::string_view stream) : state_(smix(seed)) {
    for (const char c : stream) state_ = smix(state_ ^ static_cast<unsigned char>(c));
  }

  std::uint64_t next() { return smix(state_ += 0x9e3779b97f4a7c15ULL); }

  // Uniform in [0, n), n > 0: the high half of a 64 × 32 bit product; its bias is below n / 2^32.
  std::size_t below(std::size_t n) { return ((next() >> 32) * n) >> 32; }

  // Fisher-Yates.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace kvscope
