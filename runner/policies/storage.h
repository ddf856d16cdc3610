// How an arm stores what it keeps, and what its prompt rows leave out: parts of an arm beside its
// score, as data.
#pragma once

#include <cstdint>

namespace kvscope {

// Of keys and values in the cache (policies.md 4).
struct Storage {
  enum class Format : std::uint8_t { kPlain, kInt8, kFp8E4M3, kFp8E5M2, kKivi };
  Format format = Format::kPlain;
  int bits = 2;              // kKivi
  int group_tokens = 32;     // kKivi: tokens of a key group, channels of a value group
  int residual_tokens = 32;  // kKivi: newest tokens in full precision

  bool is_quantised() const { return format != Format::kPlain; }
  bool operator==(const Storage&) const = default;
};

// Which columns a prompt row attends to (policies.md 5); chosen per query head.
struct SparsePrefill {
  enum class Pattern : std::uint8_t { kAShape, kVerticalSlash, kBlockSparse };
  Pattern pattern = Pattern::kVerticalSlash;
  int n_init = 128;       // kAShape
  int n_local = 3968;     // kAShape
  int n_vertical = 1000;  // kVerticalSlash
  int n_slash = 6096;     // kVerticalSlash
  int top_blocks = 100;   // kBlockSparse
  int granularity = 1;    // kVerticalSlash: tokens of a slash band
  bool operator==(const SparsePrefill&) const = default;
};

// Which pages a row reads (policies.md 3): the newest and the best others by their bound.
struct ReadRule {
  int page_tokens = 16;
  int n_pages = 1;         // read by a row, the newest included; all while budget_tokens hold them
  int budget_tokens = 0;   // read at most
  bool group_max = false;  // one choice for all query heads of a KV head
  bool operator==(const ReadRule&) const = default;
};

}  // namespace kvscope
