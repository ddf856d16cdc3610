// A made-up stream of attention rows with evictions for one (layer, KV head), as an engine would
// report it.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runner/engine/probe_sink.h"

namespace kvscope {

class RandomStream {
 public:
  RandomStream(int layer, int kv_head, int group_size, std::uint32_t seed)
      : layer_(layer), kv_head_(kv_head), group_size_(group_size), random_(seed) {}

  // From now on rows bring the outputs of both sides.
  void give_outputs(int head_dim) { head_dim_ = head_dim; }

  const std::vector<std::int32_t>& visible() const { return visible_; }
  const std::vector<std::int32_t>& ghosts() const { return ghosts_; }

  // The prompt's end: tokens of even positions stay.
  void cut_prompt(int prompt_tokens, ProbeSink& sink) {
    std::vector<float> resident_means;
    std::vector<float> ghost_means;
    for (std::int32_t position = 0; position < prompt_tokens; ++position) {
      const bool stays = position % 2 == 0;
      (stays ? visible_ : ghosts_).push_back(position);
      (stays ? resident_means : ghost_means).push_back(float(1 + position % 5) / 128);
    }
    next_position_ = prompt_tokens;
    sink.prompt_cut(layer_, kv_head_, prompt_tokens, ghosts_, ghost_means, visible_,
                    resident_means);
  }

  // One token: its rows, then random evictions down to budget_tokens (never of the newest).
  void step(int budget_tokens, ProbeSink& sink) {
    const std::int32_t position = next_position_++;
    visible_.push_back(position);
    for (int head = 0; head < group_size_; ++head) {
      const std::vector<float> visible_logits = logits(visible_.size());
      const std::vector<float> ghost_logits = logits(ghosts_.size());
      const std::vector<float> visible_output = logits(std::size_t(head_dim_));
      const std::vector<float> ghost_output = logits(ghosts_.empty() ? 0 : std::size_t(head_dim_));
      sink.attention_row({.layer = layer_,
                          .kv_head = kv_head_,
                          .query_head = head,
                          .position = position,
                          .visible_logits = visible_logits,
                          .visible_positions = visible_,
                          .ghost_logits = ghost_logits,
                          .ghost_positions = ghosts_,
                          .visible_output = visible_output,
                          .ghost_output = ghost_output});
    }
    while (std::ssize(visible_) > budget_tokens) {
      const int last = int(visible_.size()) - 1;
      const int slot = int(random_() % std::uint32_t(last));
      const std::int32_t victim = visible_[std::size_t(slot)];
      sink.evicted(layer_, kv_head_, victim, slot, last);
      ghosts_.push_back(victim);
      visible_[std::size_t(slot)] = visible_.back();
      visible_.pop_back();
    }
  }

 private:
  // On a coarse grid, so that ties occur; a few high ones, so that events do.
  std::vector<float> logits(std::size_t n) {
    std::vector<float> result(n);
    for (float& logit : result) {
      logit = float(int(random_() % 65) - 32) / 16;
      if (random_() % 16 == 0) logit += 4;
    }
    return result;
  }

  int layer_;
  int kv_head_;
  int group_size_;
  int head_dim_ = 0;
  std::mt19937 random_;
  std::int32_t next_position_ = 0;
  std::vector<std::int32_t> visible_;
  std::vector<std::int32_t> ghosts_;
};

}  // namespace kvscope
