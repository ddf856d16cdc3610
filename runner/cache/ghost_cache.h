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
  // pool: of the own pages; without values, only keys are remembered. Of quantised pages a prompt's
  // ghosts are copied too.
  explicit GhostCache(PagePool* pool, int most_copied = 0)
      : own_(pool), most_copied_(most_copied) {}

  // The prompt's cut, before any eviction: all positions of `dense` (its slots, in order of
  // position) but `kept`, which ascend. Keys must be such as the arm's would be: absolute
  // positions.
  void remember_prompt(const HeadCache& dense, std::span<const std::int32_t> kept);
  // A slot that is about to leave `head`.
  void remember(const HeadCache& head, int slot);
  void clear();

  bool copies_prompt() const { return own_.pool().shape().is_quantised(); }

  int n_ghosts() const { return int(positions_.size()); }
  std::span<const std::int32_t> positions() const { return positions_; }  // [n_ghosts] as they left

  // Ghosts 0 … n-1 are these slots, ascending, of prompt(); the others the slots of own(), in
  // order.
  std::span<const std::int32_t> prompt_slots() const { return {positions_.data(), n_of_prompt_}; }
  const HeadCache& prompt() const { return prompt_; }
  const HeadCache& own() const { return own_; }

  int n_forgotten() const { return n_forgotten_; }
  float largest_key_scale() const { return largest_key_scale_; }  // of quantised pages, else 0

  // A shared page counts whole.
  std::int64_t physical_bytes() const;

 private:
  void copy(const HeadCache& head, int slot);

  HeadCache prompt_;
  HeadCache own_;
  int most_copied_ = 0;
  int n_forgotten_ = 0;
  float largest_key_scale_ = 0;
  std::size_t n_of_prompt_ = 0;
  std::vector<std::int32_t> positions_;  // a prompt's positions are its slots
};

}  // namespace kvscope
