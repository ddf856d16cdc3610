#include "runner/trace/trace_replay.h"

#include <algorithm>
#include <stdexcept>

namespace kvscope {

namespace {

Model shape_of(const TraceFacts& facts) {
  Model model;
  model.config.n_layers = facts.n_layers;
  model.config.n_heads = facts.n_heads;
  model.config.n_kv_heads = facts.n_kv_heads;
  model.config.head_dim = facts.head_dim;
  model.config.rope_theta = facts.rope_theta;
  model.kv_dtype = facts.kv_dtype;
  return model;
}

}  // namespace

TraceReplay::TraceReplay(const TraceFacts& facts, Backend& backend, ReplayRequest request)
    : facts_(facts),
      shape_(facts.shape()),
      model_(shape_of(facts)),
      context_(model_, backend),
      prompt_tokens_(request.prompt_tokens),
      wants_full_rows_(request.full != nullptr) {
  context_.cover_positions(facts.n_tokens + 1);
  const std::size_t n_units = std::size_t(facts.n_layers) * shape_.n_kv_heads;
  full_.heads.assign(n_units, HeadCache(&context_.pages));
  full_.budget_tokens.assign(n_units, 0);
  full_rule_.probe = request.full;
  for (ReplayArm& from : request.arms) {
    Arm arm;
    arm.policy = std::move(from.policy);
    arm.sequence = make_sequence(context_, *arm.policy, nullptr);
    arm.after = after_rule(*arm.policy, nullptr);
    arm.after.probe = from.probe;
    if (prompt_tokens_ > 0 && arm.policy->prefill() != PrefillMode::kStreaming)
      arm.cascade = arm.policy->make_cascade();
    arms_.push_back(std::move(arm));
  }
}

bool TraceReplay::run(const ReadLayer& read, const LayerDone& layer_done,
                      const std::function<bool()>& stop) {
  // A layer's rows after the prompt need the cuts of all layers where those share one total.
  const bool any_cascade = std::any_of(arms_.begin(), arms_.end(),
                                       [](const Arm& arm) { return arm.cascade != nullptr; });
  for (std::size_t index = 0; any_cascade && index < facts_.layers.size(); ++index) {
    if (stop && stop()) return false;
    run_prompt(facts_.layers[index], read(index).data(), true);
  }
  for (std::size_t index = 0; index < facts_.layers.size(); ++index) {
    if (stop && stop()) return false;
    const int layer = facts_.layers[index];
    const std::vector<float> qkv = read(index);
    run_prompt(layer, qkv.data(), false);
    run_rows(layer, qkv.data());
    leave_layer(layer);
    if (layer_done) layer_done(index);
  }
  return true;
}

// The dense prompt, and the cuts of the arms that share totals or of all others.
void TraceReplay::run_prompt(int layer, const float* qkv, bool cascading) {
  if (prompt_tokens_ == 0) {
    for (Arm& arm : arms_)
      start_unit_states(arm.sequence, layer, facts_.n_layers, shape_, *arm.policy, arm.after, {});
    return;
  }
  std::vector<CutJob> cuts;
  for (Arm& arm : arms_) {
    if (arm.policy->prefill() == PrefillMode::kStreaming) {
      if (!cascading) stream_prompt(arm, layer, qkv);
    } else if ((arm.cascade != nullptr) == cascading) {
      cuts.push_back({arm.policy.get(), &arm.sequence, arm.after, nullptr, arm.cascade.get()});
    }
  }
  HeadCache* heads = &full_.heads[unit(layer, 0)];
  std::vector<float> lse(std::size_t(shape_.n_heads) * prompt_tokens_);
  out_.resize(
      std::max(out_.size(), std::size_t(prompt_tokens_) * shape_.n_heads * shape_.head_dim));
  context_.backend.attend_dense(shape_, context_.rope,
                                {heads, qkv, out_.data(), prompt_tokens_, 0, lse.data()});
  PromptStatistics statistics(context_.backend, shape_, context_.rope, heads, qkv, lse.data(),
                              prompt_tokens_);
  if (!cuts.empty()) {
    cut_prompt(context_.backend, shape_, context_.rope, layer, facts_.n_layers, prompt_tokens_, qkv,
               statistics, cuts);
  }
  if (!cascading) return;
  for (int h = 0; h < shape_.n_kv_heads; ++h) heads[h].clear();
}

void TraceReplay::stream_prompt(Arm& arm, int layer, const float* qkv) {
  const Policy& policy = *arm.policy;
  RowRule prompt;
  prompt.rule = policy.streaming_rule().value_or(ScanRule{});
  prompt.chunk = policy.chunk();
  prompt.streaming = true;
  const auto n = std::size_t(prompt_tokens_);
  start_unit_states(arm.sequence, layer, facts_.n_layers, shape_, policy, prompt, {});
  out_.resize(std::max(out_.size(), n * shape_.n_heads * shape_.head_dim));
  steps_.resize(std::max(steps_.size(), n * shape_.n_kv_heads));
  std::vector<ScanJob> jobs;
  add_scan_jobs(jobs, arm.sequence, layer, shape_, prompt,
                {qkv, out_.data(), prompt_tokens_, 0, 0, 0}, steps_.data());
  context_.backend.scan(shape_, context_.rope, jobs);
  if (!(prompt.rule == arm.after.rule))
    start_unit_states(arm.sequence, layer, facts_.n_layers, shape_, policy, arm.after, {});
}

void TraceReplay::run_rows(int layer, const float* qkv) {
  const std::size_t out_row = std::size_t(shape_.n_heads) * shape_.head_dim;
  out_.resize(std::max(out_.size(), (arms_.size() + 1) * kReplayBlockRows * out_row));
  steps_.resize(std::max(steps_.size(),
                         (arms_.size() + 1) * kReplayBlockRows * std::size_t(shape_.n_kv_heads)));
  for (int begin = prompt_tokens_; begin < facts_.n_tokens; begin += kReplayBlockRows) {
    const int end = std::min(facts_.n_tokens, begin + kReplayBlockRows);
    std::vector<ScanJob> jobs;
    const auto add = [&](std::size_t place, Sequence& sequence, const RowRule& rule) {
      const RowSpan rows{qkv + std::size_t(begin) * shape_.row_floats(),
                         out_.data() + place * kReplayBlockRows * out_row,
                         end - begin,
                         begin,
                         begin - prompt_tokens_,
                         facts_.n_tokens - end};
      add_scan_jobs(jobs, sequence, layer, shape_, rule, rows,
                    steps_.data() + place * kReplayBlockRows * shape_.n_kv_heads);
    };
    if (wants_full_rows_) {
      add(arms_.size(), full_, full_rule_);
      context_.backend.scan(shape_, context_.rope, jobs);
      jobs.clear();
    }
    for (std::size_t i = 0; i < arms_.size(); ++i) add(i, arms_[i].sequence, arms_[i].after);
    // Units of a whole layer take longest: first, for balance.
    std::stable_sort(jobs.begin(), jobs.end(), [](const ScanJob& a, const ScanJob& b) {
      return a.n_kv_heads > b.n_kv_heads;
    });
    context_.backend.scan(shape_, context_.rope, jobs);
  }
}

void TraceReplay::leave_layer(int layer) {
  for (Arm& arm : arms_) {
    if (const std::string error = arm.sequence.rule_error(); !error.empty())
      throw std::runtime_error(error);
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
      HeadCache& head = arm.sequence.heads[unit(layer, h)];
      arm.residents.push_back(head.sorted_positions());
      const int own = arm.sequence.budget_tokens[unit(layer, h)];
      arm.budgets.push_back(own > 0 ? own : arm.policy->budget_tokens());
      head.clear();
      if (!arm.sequence.host.empty()) arm.sequence.host[unit(layer, h)] = nullptr;
    }
  }
  for (int h = 0; h < shape_.n_kv_heads; ++h) full_.heads[unit(layer, h)].clear();
}

}  // namespace kvscope
