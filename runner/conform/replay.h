// Drives the code of a policy over synthetic layers as the engine does: append, attend, observe,
// select, compact (policies.md 1.2). Nothing else of the engine is here, and no model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/conform/synthetic_layer.h"
#include "runner/policies/policy.h"

namespace kvscope::conform {

// Where slots lie after some left. The engine moves the last slot into the hole; no policy may
// notice the difference.
enum class SlotOrder : std::uint8_t { kLastIntoHole, kStable, kReversed };

struct ReplayOptions {
  SlotOrder order = SlotOrder::kLastIntoHole;
  bool select_twice = false;  // a selection must be pure
  // Instead of the policy's own host code.
  std::function<std::unique_ptr<PolicyState>(UnitPlace, const KeptHead&)> make_state = {};
};

class Replay {
 public:
  // Without prompt() the policy acts from the first token on.
  // layers: of one model, of equal shape; must outlive this.
  Replay(std::shared_ptr<const Policy> policy, std::span<const SyntheticLayer> layers,
         ReplayOptions options = {});
  // The same requests with copies of all states.
  Replay fork() const;

  // The prompt as the arm's prefill mode wants it: dense with a cut at its end, or in chunks.
  void prompt(int prompt_tokens);
  // Tokens first … last join one by one; each row attends and is observed, then one selection.
  void chunk(int first, int last);
  // The same, with a selection after every policy->every() rows and after the last.
  void rows(int first, int last);
  void step(int token) { chunk(token, token); }
  // A row joins and is observed, and nothing is selected yet.
  void observe(int token);

  int n_layers() const { return static_cast<int>(layers_.size()); }
  int n_kv_heads() const { return layers_.front().n_kv_heads; }
  // Ascending: what the newest row saw, what stayed after the last selection.
  Positions visible(int kv_head = 0, int layer = 0) const;
  Positions kept(int kv_head = 0, int layer = 0) const;
  const Positions& slots(int kv_head = 0, int layer = 0) const;  // visible(), by slot
  const PolicyState* state(int kv_head = 0, int layer = 0) const;
  const std::vector<KeptHead>& cut(int layer = 0) const { return cut_[layer]; }
  // Budget of a unit from the prompt's end on.
  int budget(int kv_head = 0, int layer = 0) const;
  std::uint64_t nan_scores() const;
  // The first breach of the interface itself, such as a slot returned twice; empty: none. Nothing
  // is driven after it.
  const std::string& fault() const { return fault_; }

 private:
  struct Unit {
    UnitPlace place;
    int first_kv_head = 0;
    int n_kv_heads = 1;
    Positions visible;  // by slot
    Positions slots;    // by slot, those that stayed
    std::unique_ptr<PolicyState> state;
  };
  std::vector<Unit> make_units(const std::optional<ScanRule>& rule) const;
  std::unique_ptr<PolicyState> make_state(const Unit& unit, KeptHead start) const;
  void cut_prompt(int prompt_tokens);
  void keep(int layer, std::vector<KeptHead> heads, int prompt_tokens);
  void stream_prompt(int prompt_tokens);
  void observe_row(Unit& unit, int token) const;
  void run_chunk(Unit& unit, int first, int last);
  bool valid(const Unit& unit, const Positions& keep);
  void compact(Unit& unit, const Positions& keep) const;
  const Unit& unit(int kv_head, int layer) const;

  std::shared_ptr<const Policy> policy_;
  std::span<const SyntheticLayer> layers_;
  ReplayOptions options_;
  std::vector<std::vector<KeptHead>> cut_;  // [n_layers]
  std::vector<Unit> units_;                 // one a layer, or one a layer and KV head
  std::string fault_;
};

}  // namespace kvscope::conform
