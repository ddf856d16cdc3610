// Layer by layer over given tokens for many arms at once (architecture.md §3, "Score"; also the
// prompt of "Generate"). Policies decide within a layer, so all T tokens of all arms can pass a
// layer before the next one begins: the weights are read once a layer, and the numbers are those of
// a token-by-token loop. Where no arm needs dense rows the tokens may also come in chunks, each
// through all layers before the next: a layer sees the same rows in the same order, so the bits
// stay, and memory does not grow with the text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runner/base/scratch.h"
#include "runner/engine/account.h"
#include "runner/engine/engine.h"
#include "runner/engine/forward.h"
#include "runner/engine/prefix_store.h"
#include "runner/engine/prompt_cut.h"
#include "runner/engine/sequence.h"
#include "runner/engine/sparse_prompt.h"

namespace kvscope {

// Rows between two stages of a layer. One pass at a time uses them.
struct PassBuffers {
  explicit PassBuffers(Memory* memory) : x(memory), qkv(memory), attention(memory), lse(memory) {}
  Scratch x;          // [rows][d_model]
  Scratch qkv;        // [rows][row_floats]
  Scratch attention;  // [rows][n_heads * head_dim]
  Scratch lse;        // [n_heads][prompt rows] of the layer in work
};

// Next-token logits of some rows; one user at a time.
struct LogitBuffers {
  explicit LogitBuffers(Memory* memory) : full(memory), own(memory) {}
  Scratch full;  // [rows][n_vocab] of the reference
  Scratch own;   // [rows][n_vocab] of the arm in work
};

// What an engine's passes share.
struct EngineContext {
  EngineContext(const Model& model, Backend& backend);

  const Model& model;
  Backend& backend;
  PagePool pages;        // keys and values
  PagePool ghost_pages;  // evicted keys that probes remember
  RopeTable rope = {};
  RopeTable windowed_rope = {};  // of layers with a window that turn otherwise; else not used
  bool host_rules = false;       // run every rule through its host code (tests)
  PassBuffers pass;
  LogitBuffers logits;
  std::map<KvFormat, PagePool> quantised_pages = {};  // as arms ask for them

  PagePool& pool_of(const Storage& storage);
  void cover_positions(int n);  // makes the rotation tables long enough
  const RopeTable& rope_of(int layer) const {
    return model.config.uses_windowed_rope(layer) ? windowed_rope : rope;
  }
};

struct PassArm {
  const Policy* policy = nullptr;
  ProbeSink* probe = nullptr;
  bool in_stream = true;  // acts from the first token; else at the prompt's end (or chunk by chunk
                          // through the prompt)
  // Its prompt passed all layers before (an arm whose layers share one total, policy.h
  // make_cascade): rows after the prompt go on from there. Emptied.
  struct PassResult* prompt_done = nullptr;
};

struct PassRequest {
  std::span<const std::int32_t> tokens;  // [T]
  int prompt_tokens = 0;                 // N ≤ T, for arms that are not in_stream
  bool dense_needed = false;  // run the dense rows over all T tokens even if no arm is `full`
  bool keep_caches = false;   // decoding goes on from the arms' caches
  bool want_residents = false;
  bool want_hidden = true;  // hidden states after the last layer (for logits)
  // Tokens that pass all layers before the next ones do; 0: all. Without effect where there are
  // dense rows, which would have to keep the caches of all layers.
  int chunk_tokens = 0;
  // Of the prompt, whose leading tokens' dense rows an earlier pass computed; its other blocks are
  // filled in. Only for passes over a prompt alone that want no hidden states.
  PrefixStore::Prompt* prefix = nullptr;
  std::function<void(int layer, std::span<const float> qkv)> full_rows = {};  // as ScoreRequest's
};

// A chunk that makes buffers small and matrix products long: for arms that need no dense rows and
// leave no ghosts (which would be kept for all layers instead of one); 0 for others.
int flat_chunk_tokens(std::span<const PassArm> arms);

// One arm's part of the pass. Arms that never evict are the dense rows themselves.
struct PassResult {
  bool is_dense = false;
  // Of its first own row in `hidden`: 0, or the prompt's length where rows before it are the dense
  // prompt's, or the chunk's first token.
  int first_position = 0;
  std::span<const float> hidden;  // [own rows of the chunk][d_model], valid until the next pass
  Sequence sequence;              // if keep_caches
  std::vector<std::vector<std::int32_t>> resident_positions;  // [n_layers * n_kv_heads], if wanted
  Account account{PageShape{}};
  std::size_t prefill_rows = 0;  // leading account rows that belong to a streamed prompt
  PrefillMode mode = PrefillMode::kInStream;
  std::vector<std::int64_t> bytes_by_layer;  // held at the end
  std::int64_t ghost_bytes = 0;              // of all layers at the end (ghosts only grow)
  double seconds = 0.0;                      // this arm's cuts (monolithic)
  SparseMeasure sparse;                      // of prompt rows that leave columns out
};

class LayerPass {
 public:
  LayerPass(EngineContext& context, Forward& forward, const PassRequest& request,
            std::span<const PassArm> arms);

  // Called when tokens begin … end-1 have passed all layers, while results()[i].hidden holds them;
  // false stops the pass.
  using ChunkDone = std::function<bool(int begin, int end)>;

  bool run(const std::function<bool()>& stop, const ChunkDone& chunk_done = {});  // false: stopped

  std::span<PassResult> results() { return results_; }
  bool has_dense() const { return dense_rows_ > 0; }
  std::span<const float> dense_hidden() const;   // [dense rows][d_model]
  Sequence& dense_sequence() { return dense_; }  // if keep_caches

 private:
  enum class Kind { kDense, kInStream, kCut, kContinued, kSparse, kStreamed };
  struct Rows {
    Kind kind = Kind::kDense;
    std::size_t first_row = 0;  // in the buffers
    int first_token = 0;        // of the rows of this chunk
    int n_rows = 0;
    RowRule prompt;  // kStreamed: rows of the prompt
    RowRule after;   // all other rows
  };
  // Tokens that one rule advances, and those of them in the chunk.
  struct Stretch {
    int begin = 0;
    int end = 0;
    int chunk_begin = 0;
    int chunk_end = 0;
    bool starts = false;  // in this chunk
  };

  void plan_arms();
  bool follows_prompt(const Rows& rows) const {  // own rows begin after a dense prompt
    return rows.kind == Kind::kCut || rows.kind == Kind::kContinued;
  }
  void plan_chunk(int begin, int end);  // rows and buffers
  bool run_chunk(const std::function<bool()>& stop);
  void finish_accounts();
  void run_dense(int layer);
  void run_sparse(std::size_t arm, int layer);  // its own prompt rows, and their cut
  void cut(int layer, std::span<const std::size_t> arms, PromptStatistics& statistics,
           const float* qkv);
  void run_scans(int layer);
  void run_scan_phase(int layer, bool prompt_phase);
  Stretch stretch_of(const Rows& rows, bool prompt_phase) const;
  void start_stretch(std::size_t arm, int layer, bool prompt_phase);
  void leave_layer(int layer);
  float* qkv_row(std::size_t row) { return qkv_.data() + row * shape_.row_floats(); }
  float* attention_row(std::size_t row) {
    return attention_.data() + row * std::size_t(shape_.n_heads) * shape_.head_dim;
  }

  EngineContext& context_;
  Forward& forward_;
  PassRequest request_;
  std::vector<PassArm> arms_;
  AttentionShape shape_;  // of the layer in work
  int n_layers_;
  int n_tokens_;
  int begin_ = 0;  // of the chunk
  int end_ = 0;
  int dense_rows_ = 0;
  int known_rows_ = 0;               // leading dense rows that an earlier pass computed
  std::size_t total_rows_ = 0;       // of the chunk
  std::vector<Rows> rows_;           // [arms]
  std::vector<PassResult> results_;  // [arms]
  Sequence dense_;
  std::vector<std::unique_ptr<PromptCascade>> cascades_;  // [arms], of cut prompts
  std::span<float> x_;                                    // [total_rows][d_model]
  std::span<float> qkv_;                                  // [total_rows][row_floats]
  std::span<float> attention_;                            // [total_rows][n_heads * head_dim]
  std::vector<StepSlots> steps_;
};

// Fresh sequence for all layers; ghosts only where a probe can use them.
Sequence make_sequence(EngineContext& context, const Policy& policy, ProbeSink* probe);
// How rows after the prompt (or all rows in stream) run; the probe only where a full attention over
// the ghosts is defined.
RowRule after_rule(const Policy& policy, ProbeSink* probe);

}  // namespace kvscope
