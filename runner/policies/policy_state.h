// The in-stream rule of one selection unit as host code, and what it may see.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvscope {

// Where a selection unit is; priorities and layer budgets depend on it.
struct UnitPlace {
  int layer = 0;
  int kv_head = 0;  // 0 for Scope::kLayer
  int n_layers = 1;
  // Of the unit; 0 where no model is known (tests of rules that need none of them).
  int n_kv_heads = 0;
  int n_query_heads = 0;
  int head_dim = 0;
};

// Keys and values of a unit's slots, read on demand: only policies that need them pay for them.
class SlotReader {
 public:
  virtual ~SlotReader() = default;
  virtual int n_kv_heads() const = 0;  // of the unit: 1, or all of the layer
  virtual int head_dim() const = 0;
  // out: [head_dim], as stored (rotated unless positions=cache_relative; dequantised). `kv_head`
  // counts within the unit.
  virtual void read_key(int kv_head, int slot, std::span<float> out) const = 0;
  virtual void read_value(int kv_head, int slot, std::span<float> out) const = 0;
};

// A unit's slots.
struct Slots {
  std::span<const std::int32_t> positions;  // [n_slots] original position by slot, any order
  const SlotReader* reader = nullptr;       // null where keys and values are not at hand

  Slots() = default;
  Slots(std::span<const std::int32_t> by_slot, const SlotReader* contents = nullptr)
      : positions(by_slot), reader(contents) {}
  Slots(const std::vector<std::int32_t>& by_slot) : positions(by_slot) {}
};

// What one attention row saw. The newest token is the last slot.
struct VisibleRow {
  std::span<const std::int32_t> positions;  // [n_slots] original position by slot
  // [n_query_heads][n_slots]; the group (scope head) or all heads of the layer
  std::span<const float> probabilities;
  int n_query_heads = 0;
  const SlotReader* reader = nullptr;
  // Of the newest token, as projected (before RoPE); empty where they are not at hand.
  std::span<const float> queries = {};            // [n_query_heads][head_dim]
  std::span<const float> keys = {};               // [n_kv_heads of the unit][head_dim]
  std::span<const float> values = {};             // [n_kv_heads of the unit][head_dim]
  std::span<const float> inverse_frequency = {};  // [head_dim / 2] of the pairs (2i, 2i+1)
};

class PolicyState {
 public:
  virtual ~PolicyState() = default;
  virtual std::unique_ptr<PolicyState> clone() const = 0;
  virtual void observe(const VisibleRow& row) = 0;
  // Slots that stay, ascending; pure.
  virtual std::vector<std::int32_t> select(const Slots& slots) const = 0;
  // New slot i was old slot old_slot_of[i].
  virtual void compact(std::span<const std::int32_t> old_slot_of) = 0;
  // NaN scores or attention values met so far (policies.md 1.4).
  virtual std::uint64_t nan_scores() const { return 0; }
  // What it holds for the cached tokens between rows (ScanRule::host_slot_bytes a slot).
  virtual std::int64_t state_bytes() const { return 0; }
  // Not empty: the rule failed (a plug-in broke its contract) and the arm ends with this reason.
  virtual std::string error() const { return {}; }
};

}  // namespace kvscope
