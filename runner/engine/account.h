// Keeps one arm's ledger while its layers and rows are advanced in any order: bytes are summed per
// row over all layers and heads, so that a layer-major pass reports the same peak as a
// token-by-token one.
#pragma once

#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/engine/ledger.h"

namespace kvscope {

// Metadata of one slot: its position and the rule's state (first_of_unit: the head of a unit that
// carries the state).
std::int64_t slot_metadata_bytes(const ScanRule& rule, PositionMode positions, bool first_of_unit);

class Account {
 public:
  explicit Account(PageShape shape) : Account(shape, shape) {}
  // dense: of a prompt before its cut, whatever the arm stores afterwards.
  Account(PageShape shape, PageShape dense) : shape_(shape), dense_shape_(dense) {}

  // The prompt of a monolithic or two-pass arm, per layer in order: `prompt_tokens` dense in each
  // of n_kv_heads heads, then what was kept.
  void prompt_layer(int prompt_tokens, int n_kv_heads, bool two_pass, const HeadCache* kept);
  // What the layers so far hold, where a later layer's cut took from earlier ones.
  void kept_so_far(std::span<const HeadCache> heads);
  // Rows first_row … of one unit's head. stage: rows below n_prompt_rows (set by the constructor's
  // user) are prefill.
  void rows(std::size_t first_row, std::span<const StepSlots> steps, std::int64_t slot_metadata);
  // Rows of a growing cache whose size is known without running it: row r holds first_slots + r + 1
  // slots in each of n_heads heads.
  void growing_rows(std::size_t first_row, int first_slots, int n_rows, int n_heads,
                    std::int64_t slot_metadata);
  void ghosts(std::int64_t bytes) { ghost_bytes_ = std::max(ghost_bytes_, bytes); }

  std::size_t n_rows() const { return visible_.size(); }
  const KvBytes& resident(std::size_t row) const {
    return resident_[row];
  }  // after the row's selection
  // prefill_rows: how many leading rows belong to a streamed prompt. n_heads: all layers' KV heads.
  // tokens_seen: of the sequence.
  Ledger finish(std::size_t prefill_rows, int n_heads, int tokens_seen) const;

 private:
  static KvBytes bytes_of(const PageShape& shape, std::int64_t slots, std::int64_t pages,
                          std::int64_t slot_metadata);
  static void add(KvBytes& to, const KvBytes& x);

  PageShape shape_;
  PageShape dense_shape_;
  std::vector<KvBytes> visible_;              // [row] during the row
  std::vector<KvBytes> resident_;             // [row] after its selection
  std::vector<std::int64_t> resident_slots_;  // [row] summed over heads
  KvBytes kept_;                              // what the layers cut so far hold after the prompt
  KvBytes dense_;                             // two-pass: dense layers so far
  KvBytes prompt_peak_;
  std::int64_t kept_slots_ = 0;
  std::int64_t peak_visible_ = 0;
  std::int64_t peak_resident_ = 0;
  std::int64_t ghost_bytes_ = 0;
};

}  // namespace kvscope
