#include "runner/engine/layer_pass.h"

#include <algorithm>
#include <chrono>

namespace kvscope {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ghost keys keep their original positions; an arm whose own positions shift has no full attention
// to compare with.
ProbeSink* usable_probe(const Policy& policy, ProbeSink* probe) {
  return policy.positions() == PositionMode::kAbsolute && !policy.never_evicts() ? probe : nullptr;
}

RowRule row_rule(const Policy& policy, std::optional<ScanRule> rule, ProbeSink* probe, int chunk) {
  return {rule.value_or(ScanRule{}), policy.positions(), chunk, usable_probe(policy, probe)};
}

}  // namespace

RowRule after_rule(const Policy& policy, ProbeSink* probe) {
  return row_rule(policy, policy.scan_rule(), probe, 1);
}

Sequence make_sequence(EngineContext& context, const Policy& policy, ProbeSink* probe) {
  Sequence sequence;
  const ModelConfig& c = context.model.config;
  const auto n = std::size_t(c.n_layers) * c.n_kv_heads;
  sequence.heads.assign(n, HeadCache(&context.pages));
  if (usable_probe(policy, probe) != nullptr)
    sequence.ghosts.assign(n, HeadCache(&context.ghost_pages));
  if (context.host_rules && policy.scan_rule()) sequence.host.resize(n);
  return sequence;
}

LayerPass::LayerPass(EngineContext& context, Forward& forward, const PassRequest& request,
                     std::span<const PassArm> arms)
    : context_(context),
      forward_(forward),
      request_(request),
      arms_(arms.begin(), arms.end()),
      shape_(context.model.attention_shape()),
      n_layers_(context.model.config.n_layers),
      n_tokens_(int(request.tokens.size())) {
  plan_rows(arms);
  const auto d_model = std::size_t(context.model.config.d_model);
  x_.resize(total_rows_ * d_model);
  qkv_.resize(total_rows_ * shape_.row_floats());
  attention_.resize(total_rows_ * std::size_t(shape_.n_heads) * shape_.head_dim);
  if (dense_rows_ > 0) {
    dense_.heads.assign(std::size_t(n_layers_) * shape_.n_kv_heads, HeadCache(&context.pages));
    forward_.embed(request_.tokens.first(dense_rows_), std::span(x_).first(dense_rows_ * d_model));
  }
  for (const Rows& rows : rows_) {
    if (rows.kind == Kind::kDense) continue;
    forward_.embed(request_.tokens.last(rows.n_rows),
                   std::span(x_).subspan(rows.first_row * d_model, rows.n_rows * d_model));
  }
}

void LayerPass::plan_rows(std::span<const PassArm> arms) {
  const int prompt = request_.prompt_tokens;
  if (request_.dense_needed) dense_rows_ = n_tokens_;
  for (const PassArm& arm : arms) {
    const Policy& policy = *arm.policy;
    Rows rows;
    rows.after = after_rule(policy, arm.probe);
    PassResult result;
    result.account = Account(context_.model.page_shape());
    if (policy.never_evicts()) {
      rows.kind = Kind::kDense;
      dense_rows_ = n_tokens_;
      result.is_dense = true;
      result.mode = arm.in_stream ? PrefillMode::kInStream : PrefillMode::kMonolithic;
    } else if (arm.in_stream) {
      rows.kind = Kind::kInStream;
      rows.n_rows = n_tokens_;
    } else if (policy.prefill() == PrefillMode::kStreaming) {
      rows.kind = Kind::kStreamed;
      rows.n_rows = n_tokens_;
      rows.prompt = row_rule(policy, policy.streaming_rule(), arm.probe, policy.chunk());
      result.mode = PrefillMode::kStreaming;
      result.prefill_rows = prompt;
    } else {
      rows.kind = Kind::kCut;
      rows.n_rows = n_tokens_ - prompt;
      dense_rows_ = std::max(dense_rows_, prompt);
      result.first_position = prompt;
      result.mode = policy.prefill();
    }
    if (rows.kind != Kind::kDense) result.sequence = make_sequence(context_, policy, arm.probe);
    rows_.push_back(rows);
    results_.push_back(std::move(result));
  }
  total_rows_ = dense_rows_;
  for (Rows& rows : rows_) {
    rows.first_row = total_rows_;
    total_rows_ += rows.n_rows;
  }
}

bool LayerPass::run(const std::function<bool()>& stop) {
  const int rows = int(total_rows_);
  for (int layer = 0; layer < n_layers_; ++layer) {
    if (stop && stop()) return false;
    forward_.project(layer, x_, rows, qkv_);
    run_dense(layer);
    run_scans(layer);
    leave_layer(layer);
    if (layer + 1 < n_layers_ || request_.want_hidden) forward_.finish(layer, attention_, rows, x_);
  }
  const auto d_model = std::size_t(context_.model.config.d_model);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Rows& r = rows_[i];
    results_[i].hidden = r.kind == Kind::kDense ? dense_hidden()
                                                : std::span<const float>(x_).subspan(
                                                      r.first_row * d_model, r.n_rows * d_model);
    results_[i].account.ghosts(results_[i].ghost_bytes);
    if (r.kind != Kind::kDense) continue;
    const int n_heads = n_layers_ * shape_.n_kv_heads;
    const int prompt = arms_[i].in_stream ? 0 : request_.prompt_tokens;
    results_[i].account.growing_rows(0, 0, n_tokens_, n_heads, sizeof(std::int32_t));
    results_[i].prefill_rows = prompt;
  }
  return true;
}

std::span<const float> LayerPass::dense_hidden() const {
  return std::span<const float>(x_).first(std::size_t(dense_rows_) * context_.model.config.d_model);
}

void LayerPass::run_dense(int layer) {
  if (dense_rows_ == 0) return;
  const int prompt = std::min(request_.prompt_tokens, dense_rows_);
  HeadCache* heads = &dense_.heads[std::size_t(layer) * shape_.n_kv_heads];
  std::vector<std::size_t> cutting;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].kind == Kind::kCut) cutting.push_back(i);
  }
  if (prompt > 0) {
    std::vector<float> lse(cutting.empty() ? 0 : std::size_t(shape_.n_heads) * prompt);
    context_.backend.attend_dense(
        shape_, context_.rope,
        {heads, qkv_row(0), attention_row(0), prompt, 0, lse.empty() ? nullptr : lse.data()});
    PromptStatistics statistics(context_.backend, shape_, context_.rope, heads, qkv_row(0),
                                lse.data(), prompt);
    for (const std::size_t i : cutting) {
      const auto start = std::chrono::steady_clock::now();
      const CutJob cut{arms_[i].policy, &results_[i].sequence, rows_[i].after,
                       rows_[i].after.probe};
      cut_prompt(context_.backend, shape_, context_.rope, layer, n_layers_, prompt, qkv_row(0),
                 statistics, {&cut, 1});
      results_[i].account.prompt_layer(
          prompt, shape_.n_kv_heads, arms_[i].policy->prefill() == PrefillMode::kTwoPass,
          &results_[i].sequence.heads[std::size_t(layer) * shape_.n_kv_heads]);
      results_[i].seconds += seconds_since(start);
    }
  }
  if (dense_rows_ > prompt) {
    context_.backend.attend_dense(
        shape_, context_.rope,
        {heads, qkv_row(prompt), attention_row(prompt), dense_rows_ - prompt, prompt, nullptr});
  }
}

void LayerPass::run_scans(int layer) {
  run_scan_phase(layer, true);
  run_scan_phase(layer, false);
}

void LayerPass::run_scan_phase(int layer, bool prompt_phase) {
  const int prompt = request_.prompt_tokens;
  std::vector<ScanJob> jobs;
  std::vector<std::vector<StepSlots>> steps(rows_.size());
  std::vector<RowSpan> spans(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    Rows& rows = rows_[i];
    const bool streamed = rows.kind == Kind::kStreamed;
    if (rows.kind == Kind::kDense || (prompt_phase && !streamed)) continue;
    RowSpan& span = spans[i];
    if (prompt_phase) {
      span = {qkv_row(rows.first_row), attention_row(rows.first_row), prompt, 0};
    } else {
      const int skip = streamed ? prompt : 0;
      span = {qkv_row(rows.first_row + skip), attention_row(rows.first_row + skip),
              rows.n_rows - skip, results_[i].first_position + skip};
    }
    const RowRule& how = prompt_phase ? rows.prompt : rows.after;
    Sequence& sequence = results_[i].sequence;
    const bool begins = prompt_phase || rows.kind == Kind::kInStream;
    if (begins && !sequence.host.empty()) {
      for (int h = 0; h < shape_.n_kv_heads; ++h) {
        sequence.host[std::size_t(layer) * shape_.n_kv_heads + h] =
            arms_[i].policy->make_state({layer, h}, {});
        if (how.rule.scope == ScanRule::Scope::kLayer) break;
      }
    }
    const bool rule_changes = !prompt_phase && streamed && !(rows.prompt.rule == rows.after.rule);
    if (begins || rule_changes) start_rule(sequence, layer, shape_, how, {});
    if (span.n_rows == 0) continue;
    steps[i].resize(std::size_t(shape_.n_kv_heads) * span.n_rows);
    add_scan_jobs(jobs, sequence, layer, shape_, how, span, steps[i].data());
  }
  if (jobs.empty()) return;
  // Units of a whole layer take longest: first, for balance.
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const ScanJob& a, const ScanJob& b) { return a.n_kv_heads > b.n_kv_heads; });
  context_.backend.scan(shape_, context_.rope, jobs);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (steps[i].empty()) continue;
    const std::size_t first_row = !prompt_phase && rows_[i].kind == Kind::kStreamed ? prompt : 0;
    add_steps(results_[i].account, first_row, spans[i].n_rows, shape_,
              prompt_phase ? rows_[i].prompt : rows_[i].after, steps[i].data());
  }
}

void LayerPass::leave_layer(int layer) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    PassResult& result = results_[i];
    const std::vector<HeadCache>& held = result.is_dense ? dense_.heads : result.sequence.heads;
    result.bytes_by_layer.push_back(layer_bytes(
        std::span(held).subspan(std::size_t(layer) * shape_.n_kv_heads, shape_.n_kv_heads)));
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
      const std::size_t index = std::size_t(layer) * shape_.n_kv_heads + h;
      HeadCache& head = result.is_dense ? dense_.heads[index] : result.sequence.heads[index];
      if (request_.want_residents) result.resident_positions.push_back(head.sorted_positions());
      if (!result.sequence.ghosts.empty())
        result.ghost_bytes += result.sequence.ghosts[index].physical_bytes();
      if (result.is_dense || request_.keep_caches) continue;
      head.clear();
      if (!result.sequence.ghosts.empty()) result.sequence.ghosts[index].clear();
    }
  }
  if (request_.keep_caches) return;
  for (int h = 0; h < shape_.n_kv_heads && dense_rows_ > 0; ++h) {
    dense_.heads[std::size_t(layer) * shape_.n_kv_heads + h].clear();
  }
}

}  // namespace kvscope
