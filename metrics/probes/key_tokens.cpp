#include "metrics/probes/key_tokens.h"

#include <algorithm>

namespace kvscope {

void KeyTokens::choose(const Universe& universe, std::span<const std::int32_t> ghost_positions,
                       std::span<const float> ghost_means,
                       std::span<const std::int32_t> resident_positions,
                       std::span<const float> resident_means) {
  struct Token {
    float mean;
    std::int32_t position;
    std::int32_t index;
    bool is_ghost;
  };
  std::vector<Token> tokens;
  const auto collect = [&](std::span<const std::int32_t> positions, std::span<const float> means,
                           bool are_ghosts) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < universe.first || positions[i] > universe.last) continue;
      tokens.push_back({means[i], positions[i], std::int32_t(i), are_ghosts});
    }
  };
  collect(ghost_positions, ghost_means, true);
  collect(resident_positions, resident_means, false);
  const std::size_t n = std::min(tokens.size(), std::size_t(kKeyTokens));
  std::partial_sort(tokens.begin(), tokens.begin() + std::ptrdiff_t(n), tokens.end(),
                    [](const Token& x, const Token& y) {
                      return x.mean != y.mean ? x.mean > y.mean : x.position > y.position;
                    });
  slots_.clear();
  ghosts_.clear();
  for (std::size_t i = 0; i < n; ++i) {
    (tokens[i].is_ghost ? ghosts_ : slots_).push_back(tokens[i].index);
  }
}

void KeyTokens::evicted(int slot, int last_slot, int ghost) {
  if (const auto leaves = std::ranges::find(slots_, slot); leaves != slots_.end()) {
    slots_.erase(leaves);
    ghosts_.push_back(ghost);
  }
  if (const auto moves = std::ranges::find(slots_, last_slot); moves != slots_.end()) *moves = slot;
}

bool KeyTokens::remembered_in(std::size_t n_ghosts) const {
  return std::ranges::all_of(ghosts_,
                             [&](std::int32_t ghost) { return std::size_t(ghost) < n_ghosts; });
}

double KeyTokens::drop(std::span<const float> visible_weights, std::span<const float> ghost_weights,
                       double visible_share) const {
  double kept = 0;
  double lost = 0;
  for (const std::int32_t slot : slots_) kept += double(visible_weights[std::size_t(slot)]);
  for (const std::int32_t ghost : ghosts_) lost += double(ghost_weights[std::size_t(ghost)]);
  return kept + lost - (visible_share > 0 ? kept / visible_share : 0);
}

}  // namespace kvscope
