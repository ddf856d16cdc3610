// Advances arms together (architecture.md §3). Two ways, both exact: `score` is layer-major over
// given tokens, `generate` shares one dense prefill a sample and decodes all arms as rows of one
// batch. An arm's numbers are bit-identical alone and beside any others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/cache/prefix_cache.h"
#include "runner/engine/ledger.h"
#include "runner/engine/probe_sink.h"
#include "runner/model/model.h"
#include "runner/policies/policy.h"

namespace kvscope {

// Rotation angles that stay within the model's trained range however long the text is: shifting
// positions, a cache that never holds a dense prompt, and a budget (with the chunk that may stand
// on top of it) that fits the context.
bool has_bounded_positions(const Policy& policy, bool in_stream, int context_length);

// Throws DoesNotFit where the policy's storage does not suit heads of the model's size, or its
// position mode the model's positions.
void require_suited(const Policy& policy, const ModelConfig& config);

// ---- score ----

struct ScoreArm {
  std::shared_ptr<const Policy> policy;  // fitted to this text
  ProbeSink* probe = nullptr;            // optional, this arm's own
  // What really runs follows from the policy and the request: in stream from the first token, or
  // cut at the prompt's end.
  bool in_stream = true;
};

struct ScoreRequest {
  std::span<const std::int32_t> tokens;
  int prompt_tokens = 0;  // for arms that are not in_stream: the dense (or streaming) prompt
  int first_scored = 1;   // logits are computed for predictions of tokens first_scored … T-1 (and
                          // after T-1 if top > 0)
  int top = 0;            // keep the `top` most likely next tokens of every position
  bool want_residents = false;
  bool compare_full = false;  // KL and top-1 against a full pass over the same tokens, at every
                              // scored position and after the last token
  bool token_major = false;   // one token at a time through all layers: slower, the same bits (the
                              // check of the layer-major scan)
  // Where no arm needs dense rows: tokens that pass all layers before the next ones do. 0: the
  // engine's choice. The bits are the same for any.
  int chunk_tokens = 0;
  // Called with 0 when the request was accepted, then with every number of tokens that were scored.
  std::function<void(int n_tokens)> advanced = {};
  // Called for each layer in order with the full run's rows, which a `full` arm or compare_full
  // brings: [tokens][row_floats] raw projections, before RoPE. Not where token_major.
  std::function<void(int layer, std::span<const float> qkv)> full_rows = {};
};

struct ScoreArmResult {
  std::string error;  // not empty: the arm failed (non-finite, …); the rest is then void
  std::vector<double> nll_nats;  // [T]; NaN where not scored (always the first)
  std::vector<float>
      kl_full_nats;  // [T] of the distribution after token t, if compare_full; NaN where not scored
  std::vector<std::uint8_t> top1_agrees;  // [T] likewise
  std::vector<std::vector<std::pair<std::int32_t, float>>>
      top;  // [T] (id, log-probability), most likely first
  std::vector<std::vector<std::int32_t>> resident_positions;  // [n_layers * n_kv_heads], ascending
  PrefillMode mode = PrefillMode::kInStream;                  // really run
  Ledger ledger;
};

// ---- generate ----

struct GenerateArm {
  std::shared_ptr<const Policy> policy;  // fitted to this sample's prompt
  ProbeSink* probe = nullptr;            // watches the free-running row
};

struct GenerateRequest {
  std::span<const std::int32_t>
      prompt;  // selection runs at its end. Where there is no prefix its last token is held back
               // and fed after the selection, in every arm.
  std::span<const std::int32_t>
      prefix;  // fed token by token after the selection (assistant header, restated fact)
  std::span<const std::int32_t> gold;  // gold answer: a row forced along it, if not empty
  std::vector<GenerateArm> arms;       // arms[0] must be `full` if forced is set
  int max_new_tokens = 16;
  std::optional<std::int32_t> stop_token;
  bool forced = false;  // a row forced along the full arm's greedy answer: KL, top-1
  bool want_residents = false;
};

struct GenerateArmResult {
  std::string error;
  std::vector<std::int32_t> new_ids;  // the stop token is included
  std::vector<float> gold_nll_nats;   // [gold]
  std::vector<float> kl_full_nats;    // [answer tokens of full] of the distribution that predicts
                                      // each of them, forced rows
  std::vector<std::uint8_t> top1_agrees;     // likewise
  std::vector<float> forced_delta_nll_nats;  // likewise: NLL of full's token, arm minus full
  std::vector<std::vector<std::int32_t>> resident_positions;  // after the prompt's cut
  PrefillMode mode = PrefillMode::kMonolithic;
  Ledger ledger;
  // Wall time of the sample's shared prefill with everything in it but the other arms' cuts.
  double prefill_seconds = 0.0;
  double decode_seconds_per_step = 0.0;  // wall time of the batch's steps (all rows together)
  int decode_steps = 0;
};

// Polled between stages; true ends the call early with no result (the caller discards the sample).
using StopRequested = std::function<bool()>;

class Engine {
 public:
  // Both references must outlive the engine. One engine serves one thread.
  Engine(const Model& model, Backend& backend);
  ~Engine();

  // One result an arm, in order; nullopt if stopped. Throws UsageError for requests that cannot be
  // (empty tokens, prompt longer than the text, a prompt-end policy without a prompt) and for
  // absolute positions beyond the model's context unless allow_beyond_context.
  std::optional<std::vector<ScoreArmResult>> score(const ScoreRequest& request,
                                                   std::span<const ScoreArm> arms,
                                                   const StopRequested& stop = {});
  // Several samples decode together. results[sample][arm].
  std::optional<std::vector<std::vector<GenerateArmResult>>> generate(
      std::span<const GenerateRequest> requests, const StopRequested& stop = {});

  void allow_beyond_context(bool allow);
  // Keeps dense rows of prompts so that later samples with a common beginning do not compute them
  // again (generate); the bits are the same. 0: off, which it is until asked for.
  void use_prefix_cache(std::int64_t max_bytes);
  PrefixCacheCounters prefix_counters() const;  // zeros where it is off

  // Runs every in-stream rule through its host code instead of as data: slower, the same bits (that
  // is what it is for).
  void use_host_rules(bool use);

  // Gives back what is kept between calls only to be fast: free pages, buffers of rows. After a
  // call that ran out of memory, so that the next one does not fail for what this one took.
  void release_memory();

  const Model& model() const;
  Backend& backend() const;
  std::int64_t pool_peak_bytes() const;  // all sequences of all arms, shared pages once
  std::int64_t pool_held_pages() const;  // 0 between calls: nothing leaks

 private:
  struct Impl;  // engine_impl.h
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope
