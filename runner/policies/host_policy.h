// For policies whose in-stream rule is a ScoreState.
#pragma once

#include "runner/policies/fitted_policy.h"

namespace kvscope {

// The rule entry of such a policy: its scope and budget, and what its state costs.
ScanRule host_rule(int budget_tokens, ScanRule::Scope scope, int slot_bytes);

// A prompt's keys or values of one or all KV heads as slots: slot = position.
class PromptReader final : public SlotReader {
 public:
  PromptReader(const PromptLayer& layer, int first_kv_head, int n_kv_heads)
      : layer_(layer), first_(first_kv_head), n_(n_kv_heads) {}
  int n_kv_heads() const override { return n_; }
  int head_dim() const override { return layer_.head_dim; }
  void read_key(int kv_head, int slot, std::span<float> out) const override {
    read(layer_.keys, kv_head, slot, out);
  }
  void read_value(int kv_head, int slot, std::span<float> out) const override {
    read(layer_.values, kv_head, slot, out);
  }

 private:
  void read(std::span<const float> all, int kv_head, int slot, std::span<float> out) const;

  const PromptLayer& layer_;
  int first_;
  int n_;
};

std::vector<std::int32_t> positions_up_to(int n);  // 0 … n-1

}  // namespace kvscope
