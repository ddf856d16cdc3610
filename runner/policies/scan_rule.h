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
    kSum,      // acc += a
    kMean,     // acc += a, count += 1, score = acc / count
    kDecay,    // acc = decay * acc + a
    kLast,     // score = a of this row
    kLastUse,  // count = position of the newest row that used the token (use_bar, or the top k)
    kKeyNorm,  // score = -‖k‖, once, when the token joins
    kHost,     // host code alone decides; the rest of the rule gives its scope and budget
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
  bool half_is_recent = false;  // `recent` is half of a unit's own budget
  bool protect_last = true;     // the newest token is protected
  std::uint64_t seed = 0;       // for kPriority
  // kLastUse: a row uses the tokens of weight ≥ threshold / |V|, or (threshold 0) the top_k
  // heaviest (0: max(1, ⌈0.05·|V|⌉)); the newest token always.
  float threshold = 0.0F;
  int top_k = 0;
  int host_slot_bytes = 0;  // kHost: state of a cached token and unit

  constexpr bool evicts() const { return budget_tokens > 0; }
  bool operator==(const ScanRule&) const = default;
};

// The rule of a unit that has a budget of its own.
inline ScanRule with_budget(ScanRule rule, int budget_tokens) {
  rule.budget_tokens = budget_tokens;
  if (rule.half_is_recent) rule.recent = budget_tokens / 2;
  return rule;
}

// The weight from which a row uses a token: "≥ 1/n" must not flip on rounding where attention is
// exactly uniform (policies.md 1.4).
constexpr float use_bar(const ScanRule& rule, int n_visible) {
  return rule.threshold / static_cast<float>(n_visible) * (1.0F - 1e-6F);
}
constexpr int used_top_k(const ScanRule& rule, int n_visible) {
  const int k = rule.top_k > 0 ? rule.top_k : (n_visible + 19) / 20;
  return k < n_visible ? k : n_visible;
}
constexpr bool keeps_statistic(ScanRule::Statistic statistic) {
  using enum ScanRule::Statistic;
  return statistic != kNone && statistic != kLastUse && statistic != kHost;
}
constexpr bool keeps_count(ScanRule::Statistic statistic) {
  return statistic == ScanRule::Statistic::kMean || statistic == ScanRule::Statistic::kLastUse;
}

// Of a cached token and selection unit.
inline int slot_state_bytes(const ScanRule& rule) {
  int bytes = rule.statistic == ScanRule::Statistic::kHost ? rule.host_slot_bytes : 0;
  if (keeps_statistic(rule.statistic)) bytes += static_cast<int>(sizeof(float));
  if (keeps_count(rule.statistic)) bytes += static_cast<int>(sizeof(std::uint32_t));
  if (rule.victim == ScanRule::Victim::kPriority) bytes += static_cast<int>(sizeof(std::uint64_t));
  return bytes;
}

}  // namespace kvscope
