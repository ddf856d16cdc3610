// Tokens that stay in the cache whatever an arm's policy says: what a policy's loss is explained
// with. Wraps any fitted policy; no policy knows of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runner/policies/policy.h"

namespace kvscope {

// Put back at the prompt's end with the keys and values that the prompt's rows gave them, attended
// to by every later row, never evicted, and unseen by the rule from there on: it scores and counts
// the other tokens alone. In stream, and while a prompt is streamed, they never leave at all.
// Where one set serves all KV heads of a layer (tova), every head gets the union of its layer's.
struct Restoration {
  enum class Room : std::uint8_t {
    kBeside,  // beside what the policy keeps: memory grows by what was missing
    kWithin,  // within its budget: the cut gives up as many others, lightest first by mean
              // attention of the prompt's last kWeighedRows rows, never the newest; the rule has
              // that much less
  };
  static constexpr int kWeighedRows = 32;

  Room room = Room::kBeside;
  int n_kv_heads = 0;
  std::vector<std::vector<std::int32_t>> positions;  // [n_layers * n_kv_heads] original, ascending

  bool empty() const;
};

// The same tokens in every (layer, KV head), or in those that `where` accepts. positions: any
// order.
Restoration restore_everywhere(std::span<const std::int32_t> positions, int n_layers,
                               int n_kv_heads,
                               const std::function<bool(int layer, int kv_head)>& where = {});

// `policy` itself where there is nothing to restore: an empty request, or an arm that holds
// everything. Throws DoesNotFit for kWithin where a unit's budget does not hold more than the given
// tokens, where layers share one total (cake), where the rule after the prompt is host code, and
// where the prompt is streamed. Rules run as host code then, whose state no prefill peak counts.
std::shared_ptr<const Policy> restore_tokens(std::shared_ptr<const Policy> policy,
                                             Restoration restoration);

}  // namespace kvscope
