// What one (layer, KV head) has evicted, as probes remember it. Tokens that a prompt's cut drops
// are remembered in the pages of the dense prompt, which are shared with whoever else holds them:
// nothing is copied. Later ones are copied into pages of the ghosts' own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/cache/head_cache.h"

namespace kvscope {

class GhostCache {
 public:
  GhostCache() = default;
  // pool: of the own pages; without values, only keys are remembered.
  explicit GhostCache(PagePool* pool) : own_(pool) {}

  // The prompt's cut, before any eviction: all positions of `dense` (its slots, in order of
  // position) but `kept`, which ascend. Keys must be such as the arm's would be: absolute
  // positions.
  void remember_prompt(const HeadCache& dense, std::span<const std::int32_t> kept);
  // A slot that is about to leave `head`.
  void remember(const HeadCache& head, int slot);
  void clear();

  int n_ghosts() const { return int(positions_.size()); }
  std::span<const std::int32_t> positions() const { return positions_; }  // [n_ghosts] as they left

  // Ghosts 0 … n-1 are these slots, ascending, of prompt(); the others the slots of own(), in
  // order.
  std::span<const std::int32_t> prompt_slots() const { return {positions_.data(), n_of_prompt_}; }
  const HeadCache& prompt() const { return prompt_; }
  const HeadCache& own() const { return own_; }

  // A shared page counts whole.
  std::int64_t physical_bytes() const;

 private:
  HeadCache prompt_;
  HeadCache own_;
  std::size_t n_of_prompt_ = 0;
  std::vector<std::int32_t> positions_;  // a prompt's positions are its slots
};

}  // namespace kvscope
