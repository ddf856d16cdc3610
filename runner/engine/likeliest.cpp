#include "runner/engine/likeliest.h"

#include <algorithm>
#include <cstddef>

namespace kvscope {
namespace {

constexpr std::size_t kBlock = 64;  // logits that are compared with the threshold at once

// Branch-free, so that the compiler makes vectors of it.
bool any_above(std::span<const float> block, float threshold) {
  unsigned found = 0;
  for (const float value : block) found |= unsigned(value > threshold);
  return found != 0;
}

}  // namespace

std::vector<std::int32_t> likeliest_tokens(std::span<const float> logits, int n) {
  const std::size_t n_kept = std::min(std::size_t(std::max(n, 0)), logits.size());
  if (n_kept == 0) return {};
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  // A heap whose first entry is the one to be pushed out next.
  std::vector<std::int32_t> kept(n_kept);
  for (std::size_t i = 0; i < n_kept; ++i) kept[i] = std::int32_t(i);
  std::make_heap(kept.begin(), kept.end(), before);
  for (std::size_t first = n_kept; first < logits.size(); first += kBlock) {
    const std::size_t end = std::min(first + kBlock, logits.size());
    if (!any_above(logits.subspan(first, end - first), logits[kept.front()])) continue;
    for (std::size_t i = first; i < end; ++i) {
      // Ids ascend, so an equal logit comes too late.
      if (!(logits[i] > logits[kept.front()])) continue;
      std::pop_heap(kept.begin(), kept.end(), before);
      kept.back() = std::int32_t(i);
      std::push_heap(kept.begin(), kept.end(), before);
    }
  }
  std::sort_heap(kept.begin(), kept.end(), before);
  return kept;
}

}  // namespace kvscope
