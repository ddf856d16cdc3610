// Replays policies on a recorded run, layer by layer, with the engine's own code: the prompt's cut,
// the scan, the rules. Every row attends with the full run's query to the full run's keys that are
// still visible, which is the replay mode of policies.md 1.9.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runner/engine/layer_pass.h"
#include "runner/trace/trace.h"

namespace kvscope {

// Rows after the prompt (or all rows in stream) that every arm sees before the next ones come.
inline constexpr int kReplayBlockRows = 128;

struct ReplayArm {
  std::shared_ptr<const Policy> policy;  // of fit_replay_policy(), and no policy that never evicts
  // Sees the rows after the prompt, without ghosts: what is not visible is known from the full
  // rows.
  ProbeSink* probe = nullptr;
};

struct ReplayRequest {
  int prompt_tokens = 0;      // 0: policies act from the first token on
  ProbeSink* full = nullptr;  // optional: the same rows of the full cache, a block ahead of the
                              // arms
  std::vector<ReplayArm> arms = {};
};

class TraceReplay {
 public:
  // `backend` must outlive this.
  TraceReplay(const TraceFacts& facts, Backend& backend, ReplayRequest request);

  // [n_tokens][row_floats] of layer facts.layers[index].
  using ReadLayer = std::function<std::vector<float>(std::size_t index)>;
  using LayerDone = std::function<void(std::size_t index)>;
  // Once. False: stopped.
  // A rule that fails ends it (std::runtime_error).
  bool run(const ReadLayer& read, const LayerDone& layer_done = {},
           const std::function<bool()>& stop = {});

  // Of one unit when run() is over: ascending positions that stayed after the last row, and the
  // budget it had.
  const std::vector<std::int32_t>& residents(std::size_t arm, std::size_t index,
                                             int kv_head) const {
    return arms_[arm].residents[index * shape_.n_kv_heads + kv_head];
  }
  int unit_budget(std::size_t arm, std::size_t index, int kv_head) const {
    return arms_[arm].budgets[index * shape_.n_kv_heads + kv_head];
  }

 private:
  struct Arm {
    std::shared_ptr<const Policy> policy;
    Sequence sequence;
    RowRule after;
    std::unique_ptr<PromptCascade> cascade;
    std::vector<std::vector<std::int32_t>> residents;  // [recorded layers][n_kv_heads]
    std::vector<int> budgets;                          // likewise
  };

  void run_prompt(int layer, const float* qkv, bool cascading);
  void stream_prompt(Arm& arm, int layer, const float* qkv);
  void run_rows(int layer, const float* qkv);
  void leave_layer(int layer);
  std::size_t unit(int layer, int kv_head) const {
    return std::size_t(layer) * shape_.n_kv_heads + kv_head;
  }

  TraceFacts facts_;
  AttentionShape shape_;
  Model model_;  // a shape without weights
  EngineContext context_;
  int prompt_tokens_;
  Sequence full_;
  RowRule full_rule_;
  bool wants_full_rows_;
  std::vector<Arm> arms_;
  std::vector<float> out_;  // attention output nobody reads
  std::vector<StepSlots> steps_;
};

}  // namespace kvscope
