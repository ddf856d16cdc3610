// Lets two probes watch one sequence.
#pragma once

#include "runner/engine/probe_sink.h"

namespace kvscope {

class ProbeTee final : public ProbeSink {
 public:
  ProbeTee(ProbeSink& first, ProbeSink& second) : first_(first), second_(second) {}

  void prompt_cut(int layer, int kv_head, int prompt_tokens,
                  std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean) override {
    for (ProbeSink* sink : {&first_, &second_})
      sink->prompt_cut(layer, kv_head, prompt_tokens, ghost_positions, ghost_recent_mean,
                       resident_positions, resident_recent_mean);
  }
  void attention_row(const AttentionRow& row) override {
    first_.attention_row(row);
    second_.attention_row(row);
  }
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override {
    first_.evicted(layer, kv_head, position, slot, last_slot);
    second_.evicted(layer, kv_head, position, slot, last_slot);
  }

 private:
  ProbeSink& first_;
  ProbeSink& second_;
};

}  // namespace kvscope
