// SplitMix64's output function (Steele, Lea, Flood 2014) as a hash: smix(0) = e220a8397b1dcdaf
// (policies.md 2.5).
#pragma once

#include <cstdint>

namespace kvscope {

constexpr std::uint64_t smix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
// Static random priority of a token (policies.md 2.5).
constexpr std::uint64_t token_priority(std::uint64_t seed, int layer, int kv_head, int position) {
  const std::uint64_t place = (std::uint64_t(layer) << 32) | std::uint64_t(std::uint32_t(kv_head));
  return smix(smix(seed ^ smix(place)) ^ std::uint64_t(position));
}
static_assert(smix(0) == 0xe220a8397b1dcdafULL);

}  // namespace kvscope
