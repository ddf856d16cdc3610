#include "runner/backend/cpu/attend_selected.h"

#include <algorithm>
#include <cmath>

namespace kvscope::cpu {

void attend_selected(const HeadCache& head, std::span<const float> logits,
                     std::span<const KeyRange> slots, std::span<float> out,
                     std::vector<float>& scratch) {
  float largest = logits[slots.front().begin];
  for (const KeyRange& range : slots) {
    for (int slot = range.begin; slot < range.end; ++slot)
      largest = std::max(largest, logits[slot]);
  }
  scratch.resize(out.size());
  std::fill(out.begin(), out.end(), 0.0F);
  float sum = 0.0F;
  for (const KeyRange& range : slots) {
    for (int slot = range.begin; slot < range.end; ++slot) {
      const float weight = std::exp(logits[slot] - largest);
      sum += weight;
      head.read_value(slot, scratch.data());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * scratch[i];
    }
  }
  for (float& value : out) value /= sum;
}

void keep_seen(std::vector<KeyRange>& slots, int first_seen) {
  if (first_seen <= 0) return;
  std::erase_if(slots, [&](const KeyRange& range) { return range.end <= first_seen; });
  for (KeyRange& range : slots) range.begin = std::max(range.begin, first_seen);
}

}  // namespace kvscope::cpu
