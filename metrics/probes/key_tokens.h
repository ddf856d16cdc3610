// The tokens that the prompt's last rows attended to most, and how much of the attention on them an
// arm keeps (policies.md 8.5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/probes/row_part.h"

namespace kvscope {

inline constexpr int kKeyTokens = 32;

// Of one (layer, KV head). Known where there was a prompt cut: its rows ran with the full cache.
class KeyTokens {
 public:
  bool known() const { return !slots_.empty() || !ghosts_.empty(); }

  // The kKeyTokens heaviest positions inside the universe by mean weight, the newer first among
  // equals. Indices of ghosts are by order of eviction, of residents by slot.
  void choose(const Universe& universe, std::span<const std::int32_t> ghost_positions,
              std::span<const float> ghost_means, std::span<const std::int32_t> resident_positions,
              std::span<const float> resident_means);

  // `slot` leaves as ghost number `ghost`, the token of `last_slot` moves into it.
  void evicted(int slot, int last_slot, int ghost);

  // Ghosts may be forgotten, the newest first: are all key tokens among the first n?
  bool remembered_in(std::size_t n_ghosts) const;

  // drop = Σ_K a* - Σ_(K∩V) a: weights are shares of full attention, of which visible_share lies on
  // the visible tokens; a is attention as the arm computes it, over those alone. Negative: more
  // than before lies on the key tokens that are left.
  double drop(std::span<const float> visible_weights, std::span<const float> ghost_weights,
              double visible_share) const;

 private:
  std::vector<std::int32_t> slots_;   // of key tokens still there
  std::vector<std::int32_t> ghosts_;  // of those that left
};

}  // namespace kvscope
