// A policy's in-stream rule as data, so that a backend can run it inside its scan and decode
// kernels with no call per token (architecture.md §5). The same rule exists as plain host code
// (PolicyState); tests hold both to the same bits.
#pragma once

#include <cstdint>

namespace kvscope {

// After a row attended over its visible slots: update the statistic of every visible slot, then
// evict victims until at most budget_tokens remain (every `chunk` rows). Ties leave the older token
// out (newer wins, policies.md 1.4); NaN leaves first.
struct ScanRule {
  enum class Statistic : std::uint8_t {
    kNone,
    kSum,    // acc += a
    kMean,   // acc += a, count += 1, score = acc / count
    kDecay,  // acc = decay * acc + a
    kLast,   // score = a of this row
  };
  enum class Victim : std::uint8_t {
    kLowest,    // lowest score
    kOldest,    // smallest original position
    kPriority,  // smallest static priority smix(smix(seed ^ smix(layer << 32 | kv_head)) ^
                // position), policies.md 2.5
  };
  enum class Scope : std::uint8_t {
    kHead,   // one set per KV head; a = mean over the group's query heads
    kLayer,  // one set for all KV heads of the layer; a = mean over all query heads
  };

  Statistic statistic = Statistic::kNone;
  Victim victim = Victim::kOldest;
  Scope scope = Scope::kHead;
  float decay = 1.0F;
  int budget_tokens =
      0;           // resident tokens per (layer, KV head) after a selection; 0 = never evicts
  int sinks = 0;   // original positions < sinks are protected
  int recent = 0;  // the newest `recent` tokens are protected
  bool protect_last = true;  // the newest token is protected
  std::uint64_t seed = 0;    // for kPriority

  bool evicts() const { return budget_tokens > 0; }
  bool operator==(const ScanRule&) const = default;
};

}  // namespace kvscope
