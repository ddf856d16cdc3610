// Which evicted tokens a few rows would have looked at most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/probes/mass_log.h"

namespace kvscope {

// Whose queries weigh the tokens (policies.md 8).
enum class Frame : std::uint8_t {
  kLocal,   // the arm's own, which have drifted from the full cache's by all it missed before
  kPaired,  // the full cache's, on the same tokens
};
std::string_view name_of(Frame frame);  // local | paired

struct MissedToken {
  std::int32_t position = 0;
  double mass = 0.0;  // shares of full attention where it was missing, summed over layers and KV
                      // heads, mean over the rows
  int n_missing = 0;  // (layer, KV head) pairs without it
  int layer = 0;      // where it weighed most
  int kv_head = 0;
  double heaviest = 0.0;          // its share there
  std::optional<int> evicted_at;  // there: position of the last row that saw it
  bool is_evidence = false;

  bool operator==(const MissedToken&) const = default;
};

struct MissedRequest {
  int n_layers = 0;
  int n_kv_heads = 0;
  int n_tokens = 0;  // only positions below
  // [n_layers * n_kv_heads] ascending: what the arm kept at the prompt's cut; what `when` saw leave
  // later is missing, too.
  std::span<const std::vector<std::int32_t>> residents;
  int evidence_begin = -1;
  int evidence_end = -1;
};

// Heaviest first, of equal ones the older; only tokens that some pair lacks. Local: masses of
// ghosts that the arm's own log saw. Paired: what `full` gave to tokens that the arm's residents
// lack. when: the arm's log, for evicted_at; null where it could not be watched.
std::vector<MissedToken> missed_tokens(Frame frame, const MissedRequest& request,
                                       const MassLog& masses, const MassLog* when);

}  // namespace kvscope
