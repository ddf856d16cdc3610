#include "runner/engine/stage_profile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runner/base/error.h"
#include "runner/base/splitmix.h"
#include "runner/engine/step_batch.h"

namespace kvscope {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Profiler {
 public:
  Profiler(const Model& model, Backend& backend, const ProfileOptions& options)
      : metered_(backend), context_(model, metered_), forward_(model, metered_), options_(options) {
    context_.cover_positions(options.prompt_tokens + options.decode_steps);
    for (int i = 0; i < options.prompt_tokens; ++i) {  // any text: the work is the same
      prompt_.push_back(std::int32_t(smix(std::uint64_t(i)) % std::uint64_t(model.config.n_vocab)));
    }
  }

  std::vector<ProfilePhase> run() {
    prefill();  // warm-up
    std::vector<ProfilePhase> phases{prefill()};
    for (const int rows : options_.decode_rows) {
      decode(rows, 1);  // warm-up
      phases.push_back(decode(rows, options_.decode_steps));
    }
    return phases;
  }

 private:
  ProfilePhase prefill() {
    prompt_cache_ = Sequence{};  // its pages go back before the next ones are taken
    PassRequest request;
    request.tokens = prompt_;
    request.prompt_tokens = int(prompt_.size());
    request.dense_needed = true;
    request.keep_caches = true;
    request.want_hidden = false;  // nothing is predicted before the first decode step
    metered_.reset();
    const auto start = std::chrono::steady_clock::now();
    LayerPass pass(context_, forward_, request, {});
    pass.run({});
    prompt_cache_ = std::move(pass.dense_sequence());
    return {true, int(prompt_.size()), 1, seconds_since(start), metered_.counters()};
  }

  ProfilePhase decode(int n_rows, int n_steps) {
    const auto n_vocab = std::size_t(context_.model.config.n_vocab);
    StepBatch batch(context_, forward_);
    std::vector<Sequence> sequences;
    for (int r = 0; r < n_rows; ++r) sequences.push_back(prompt_cache_.fork());
    std::vector<StepRow> rows(n_rows);
    for (int r = 0; r < n_rows; ++r) {
      rows[r].sequence = &sequences[r];
      rows[r].token = prompt_[r % prompt_.size()];
      rows[r].position = int(prompt_.size());
    }
    Scratch memory(metered_.memory());
    const std::span<float> logits = memory.floats(n_rows * n_vocab);
    std::vector<std::int32_t> ids(n_rows);
    std::vector<double> lse(n_rows);
    metered_.reset();
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < n_steps; ++step) {
      forward_.logits(batch.run(rows), n_rows, logits);
      metered_.log_sum_exp(logits, n_rows, lse);
      metered_.greedy(logits, n_rows, ids);
      for (int r = 0; r < n_rows; ++r) {
        rows[r].token = ids[r];
        ++rows[r].position;
      }
    }
    return {false, n_rows, n_steps, seconds_since(start), metered_.counters()};
  }

  MeteredBackend metered_;
  EngineContext context_;
  Forward forward_;
  ProfileOptions options_;
  std::vector<std::int32_t> prompt_;
  Sequence prompt_cache_;
};

}  // namespace

double ProfilePhase::seconds_outside_stages() const {
  double inside = 0.0;
  for (const StageCounter& stage : stages) inside += stage.seconds;
  return std::max(0.0, seconds - inside);
}

std::vector<ProfilePhase> profile_stages(const Model& model, Backend& backend,
                                         const ProfileOptions& options) {
  ProfileOptions fitted = options;
  fitted.prompt_tokens =
      std::min(options.prompt_tokens, model.config.context_length - options.decode_steps);
  if (fitted.prompt_tokens < 1) {
    throw UsageError("profile: a context of " + std::to_string(model.config.context_length) +
                     " tokens has no room for " + std::to_string(options.decode_steps) +
                     " decode steps; use a model with a longer one");
  }
  return Profiler(model, backend, fitted).run();
}

std::string stage_name(const Model& model, const StageCounter& counter) {
  if (counter.n_out == 0) return std::string(counter.stage);
  const LayerWeights& w = model.layers.front();
  std::string name;
  const auto try_matrix = [&](const char* matrix, const PackedMatrix& m) {
    if (m.n_out() != counter.n_out || m.n_in() != counter.n_in) return;
    if (!name.empty()) name += '+';
    name += matrix;
  };
  try_matrix("qkv", *w.qkv);
  try_matrix("output", *w.output);
  try_matrix("gate_up", *w.gate_up);
  try_matrix("down", *w.down);
  try_matrix("head", *model.head);
  return name.empty() ? std::string(counter.stage) : name;
}

}  // namespace kvscope
