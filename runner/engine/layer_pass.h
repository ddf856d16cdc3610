// Layer by layer over given tokens for many arms at once (architecture.md §3, "Score"; also the
// prompt of "Generate"). Policies decide within a layer, so all T tokens of all arms can pass a
// layer before the next one begins: the weights are read once a layer, and the numbers are those of
// a token-by-token loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runner/engine/account.h"
#include "runner/engine/engine.h"
#include "runner/engine/forward.h"
#include "runner/engine/prompt_cut.h"
#include "runner/engine/sequence.h"

namespace kvscope {

// What an engine's passes share.
struct EngineContext {
  const Model& model;
  Backend& backend;
  PagePool pages;        // keys and values
  PagePool ghost_pages;  // evicted keys that probes remember
  RopeTable rope;
  bool host_rules = false;  // run every rule through its host code (tests)
};

struct PassArm {
  const Policy* policy = nullptr;
  ProbeSink* probe = nullptr;
  bool in_stream = true;  // acts from the first token; else at the prompt's end (or chunk by chunk
                          // through the prompt)
};

struct PassRequest {
  std::span<const std::int32_t> tokens;  // [T]
  int prompt_tokens = 0;                 // N ≤ T, for arms that are not in_stream
  bool dense_needed = false;  // run the dense rows over all T tokens even if no arm is `full`
  bool keep_caches = false;   // decoding goes on from the arms' caches
  bool want_residents = false;
  bool want_hidden = true;  // hidden states after the last layer (for logits)
};

// One arm's part of the pass. Arms that never evict are the dense rows themselves.
struct PassResult {
  bool is_dense = false;
  int first_position = 0;         // of its first own row; rows before it are the dense prompt's
  std::span<const float> hidden;  // [T - first_position][d_model]
  Sequence sequence;              // if keep_caches
  std::vector<std::vector<std::int32_t>> resident_positions;  // [n_layers * n_kv_heads], if wanted
  Account account{PageShape{}};
  std::size_t prefill_rows = 0;  // leading account rows that belong to a streamed prompt
  PrefillMode mode = PrefillMode::kInStream;
  std::vector<std::int64_t> bytes_by_layer;  // held at the end
  std::int64_t ghost_bytes = 0;              // of all layers at the end (ghosts only grow)
  double seconds = 0.0;                      // this arm's cuts (monolithic)
};

class LayerPass {
 public:
  LayerPass(EngineContext& context, Forward& forward, const PassRequest& request,
            std::span<const PassArm> arms);

  bool run(const std::function<bool()>& stop);  // false: stopped

  std::span<PassResult> results() { return results_; }
  bool has_dense() const { return dense_rows_ > 0; }
  std::span<const float> dense_hidden() const;   // [dense rows][d_model]
  Sequence& dense_sequence() { return dense_; }  // if keep_caches

 private:
  enum class Kind { kDense, kInStream, kCut, kStreamed };
  struct Rows {
    Kind kind = Kind::kDense;
    std::size_t first_row = 0;  // in the buffers
    int n_rows = 0;
    RowRule prompt;  // kStreamed: rows of the prompt
    RowRule after;   // all other rows
  };

  void plan_rows(std::span<const PassArm> arms);
  void run_dense(int layer);
  void run_scans(int layer);
  void run_scan_phase(int layer, bool prompt_phase);
  void leave_layer(int layer);
  float* qkv_row(std::size_t row) { return qkv_.data() + row * shape_.row_floats(); }
  float* attention_row(std::size_t row) {
    return attention_.data() + row * std::size_t(shape_.n_heads) * shape_.head_dim;
  }

  EngineContext& context_;
  Forward& forward_;
  PassRequest request_;
  std::vector<PassArm> arms_;
  AttentionShape shape_;
  int n_layers_;
  int n_tokens_;
  int dense_rows_ = 0;
  std::size_t total_rows_ = 0;
  std::vector<Rows> rows_;           // [arms]
  std::vector<PassResult> results_;  // [arms]
  Sequence dense_;
  std::vector<float> x_;          // [total_rows][d_model]
  std::vector<float> qkv_;        // [total_rows][row_floats]
  std::vector<float> attention_;  // [total_rows][n_heads * head_dim]
};

// Fresh sequence for all layers; ghosts only where a probe can use them.
Sequence make_sequence(EngineContext& context, const Policy& policy, ProbeSink* probe);
// How rows after the prompt (or all rows in stream) run; the probe only where a full attention over
// the ghosts is defined.
RowRule after_rule(const Policy& policy, ProbeSink* probe);

}  // namespace kvscope
