// KIVI (Liu et al., ICML 2024; policies.md 4.1): keys quantised per channel over groups of
// consecutive tokens, values per token over groups of consecutive channels, both to `bits` bits
// with a float16 scale and zero a group. One store belongs to one HeadCache, whose pages hold the
// newest tokens in full precision:
//
//   keys    [0, n_keys)     in blocks of `residual` tokens, appended whole
//
//   values  [0, n_values)   token by token; every kPageSlots of them are sealed into a block
//
// Sealed blocks are shared between forks and never change.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runner/base/memory.h"

namespace kvscope {

struct KiviOptions {
  int bits = 2;              // 2, 4 or 8
  int group = 32;            // tokens of a key group, channels of a value group
  int residual_tokens = 32;  // a multiple of group: newest values kept whole, keys of a block
  bool operator==(const KiviOptions&) const = default;
};

// Throws UsageError if the options do not suit each other or heads of this size.
void check_kivi(const KiviOptions& options, int head_dim);

// Where n tokens stand once all that is due is quantised, as long as none was removed.
constexpr int kivi_keys(const KiviOptions& options, int n_tokens) {
  return n_tokens / options.residual_tokens * options.residual_tokens;
}
constexpr int kivi_values(const KiviOptions& options, int n_tokens) {
  return n_tokens > options.residual_tokens ? n_tokens - options.residual_tokens : 0;
}

// What the codes, scales and zeros of a store take.
struct KiviBytes {
  std::int64_t logical_bytes = 0;   // of the tokens quantised
  std::int64_t physical_bytes = 0;  // of the blocks held; the last one of values may be part full
  std::int64_t metadata_bytes = 0;  // the tables that find the blocks
};
KiviBytes kivi_bytes(const KiviOptions& options, int head_dim, int n_keys, int n_values);

class KiviStore {
 public:
  // memory: where codes, scales and zeros lie.
  KiviStore(const KiviOptions& options, int head_dim, Memory* memory = nullptr);

  const KiviOptions& options() const { return options_; }
  int n_keys() const { return int(keys_.size()) * options_.residual_tokens; }
  int n_values() const { return n_values_; }
  KiviBytes bytes() const;

  void add_keys(std::span<const float> keys);    // [residual_tokens][head_dim], tokens n_keys() …
  void add_value(std::span<const float> value);  // [head_dim], token n_values()
  void clear();

  // Tokens first … first + n - 1, dequantised: out[i · stride + j] is dimension i of the j-th.
  void read_keys(int first, int n, float* out, int stride) const;
  void read_values(int first, int n, float* out) const;  // [n][head_dim]

  // Blocks as they lie, for kernels: keys of residual_tokens tokens each, values of kPageSlots; the
  // last block of values may be part full.
  struct BlockView {
    const std::uint32_t* codes = nullptr;    // as Block's
    const std::uint16_t* min_max = nullptr;  // likewise
  };
  std::vector<BlockView> key_blocks() const;
  std::vector<BlockView> value_blocks() const;

 private:
  struct Block {
    SharedVector<std::uint32_t> codes;    // keys: [head_dim][words], values: [tokens][words]
    SharedVector<std::uint16_t> min_max;  // keys: [head_dim][residual / group][scale, zero],
                                          // values: [tokens][head_dim / group][scale, zero]
    std::int64_t bytes() const;
  };
  static std::int64_t block_bytes(const KiviOptions& options, int n_rows, int row_length);
  friend KiviBytes kivi_bytes(const KiviOptions&, int, int, int);

  // Row `row` of a block, quantised in groups; `row_length` values.
  Block empty_block(int n_rows, int row_length) const;
  void quantise_row(Block& block, int row, std::span<const float> x) const;
  // Elements first … first + n - 1 of a row of row_length.
  void read_row(const Block& block, int row, int row_length, int first, int n, float* out) const;

  KiviOptions options_;
  int head_dim_ = 0;
  Memory* memory_ = nullptr;
  int n_values_ = 0;
  std::int64_t held_bytes_ = 0;                       // of all blocks, as allocated
  std::vector<std::shared_ptr<const Block>> keys_;    // residual_tokens each
  std::vector<std::shared_ptr<const Block>> values_;  // kPageSlots each
  Block open_;  // values since the last sealed block: n_values % kPageSlots of kPageSlots rows
};

}  // namespace kvscope
