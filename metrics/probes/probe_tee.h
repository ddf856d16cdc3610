// Lets two probes watch one sequence. Each sees what it would see alone, so that neither measures
// anything else for the other's sake.
#pragma once

#include "runner/engine/probe_sink.h"

namespace kvscope {

class ProbeTee final : public ProbeSink {
 public:
  // Ghosts are remembered as `first` asks for.
  ProbeTee(ProbeSink& first, ProbeSink& second) : first_(first), second_(second) {}

  RowView layer_view(int layer) const override;
  RowView row_view(int layer, int kv_head, int position) const override;
  GhostMemory ghost_memory() const override { return first_.ghost_memory(); }
  void prompt_cut(int layer, int kv_head, int prompt_tokens,
                  std::span<const std::int32_t> ghost_positions,
                  std::span<const float> ghost_recent_mean,
                  std::span<const std::int32_t> resident_positions,
                  std::span<const float> resident_recent_mean) override;
  void attention_row(const AttentionRow& row) override;
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override;

 private:
  ProbeSink& first_;
  ProbeSink& second_;
};

}  // namespace kvscope
