// How much memory probes spend on evicted tokens.
#pragma once

namespace kvscope {

struct GhostMemory {
  // Keys and values rounded to a byte an element, each token with its own scale, a prompt's too:
  // they are copied then. Else as the cache has them.
  bool int8 = false;
  // Copied ghosts of one (layer, KV head); later ones are forgotten. 0: all are remembered.
  int most_copied = 0;

  bool operator==(const GhostMemory&) const = default;
};

}  // namespace kvscope
