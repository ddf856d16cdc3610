#include "runner/engine/layer_pass.h"

#include <algorithm>

#include "runner/engine/rope_table.h"

namespace kvscope {

namespace {

// Ghost keys keep their original positions; an arm whose own positions shift has no full attention
// to compare with.
ProbeSink* usable_probe(const Policy& policy, ProbeSink* probe) {
  const bool defined = policy.positions() == PositionMode::kAbsolute && !policy.never_evicts() &&
                       !policy.read_rule();
  return defined ? probe : nullptr;
}

RowRule row_rule(const Policy& policy, std::optional<ScanRule> rule, ProbeSink* probe, int chunk) {
  return {rule.value_or(ScanRule{}), policy.positions(), chunk, usable_probe(policy, probe),
          policy.read_rule()};
}

}  // namespace

RowRule after_rule(const Policy& policy, ProbeSink* probe) {
  return row_rule(policy, policy.scan_rule(), probe, policy.every());
}

EngineContext::EngineContext(const Model& own_model, Backend& own_backend)
    : model(own_model),
      backend(own_backend),
      pages(model.page_shape(), backend.memory()),
      ghost_pages({model.config.head_dim, model.kv_dtype, false}, backend.memory()),
      pass(backend.memory()),
      logits(backend.memory()) {}

void EngineContext::cover_positions(int n) {
  if (n <= rope.n_positions) return;
  const ModelConfig& c = model.config;
  const int n_positions = std::max(n, std::min(c.context_length, 2 * n));
  rope = make_rope_table(c, c.rope_frequency, n_positions, backend.memory());
  if (!c.windowed_rope_frequency.empty())
    windowed_rope = make_rope_table(c, c.windowed_rope_frequency, n_positions, backend.memory());
}

PagePool& EngineContext::pool_of(const Storage& storage) {
  const auto format = [&] {
    switch (storage.format) {
      case Storage::Format::kInt8:
        return KvFormat::kInt8;
      case Storage::Format::kFp8E4M3:
        return KvFormat::kFp8E4M3;
      case Storage::Format::kFp8E5M2:
        return KvFormat::kFp8E5M2;
      case Storage::Format::kKivi:  // its newest tokens are plain, the rest in a store of its own
      case Storage::Format::kPlain:
        break;
    }
    return KvFormat::kPlain;
  }();
  if (format == KvFormat::kPlain) return pages;
  PageShape shape = pages.shape();
  shape.format = format;
  return quantised_pages.try_emplace(format, shape, backend.memory()).first->second;
}

Sequence make_sequence(EngineContext& context, const Policy& policy, ProbeSink* probe) {
  Sequence sequence;
  const ModelConfig& c = context.model.config;
  const auto n = std::size_t(c.n_layers) * c.n_kv_heads;
  const Storage& storage = policy.storage();
  sequence.heads.assign(n, HeadCache(&context.pool_of(storage)));
  if (storage.format == Storage::Format::kKivi) {
    for (HeadCache& head : sequence.heads)
      head.set_kivi({storage.bits, storage.group_tokens, storage.residual_tokens});
  }
  if (usable_probe(policy, probe) != nullptr)
    sequence.ghosts.assign(n, HeadCache(&context.ghost_pages));
  sequence.budget_tokens.assign(n, 0);
  const auto runs_as_host = [&](const std::optional<ScanRule>& rule) {
    return rule && (context.host_rules || rule->statistic == ScanRule::Statistic::kHost);
  };
  if (policy.read_rule()) {
    sequence.read_pages.assign(n, QuestPages(c.head_dim, policy.read_rule()->page_tokens));
  }
  if (runs_as_host(policy.scan_rule()) ||
      (policy.prefill() == PrefillMode::kStreaming && runs_as_host(policy.streaming_rule())))
    sequence.host.resize(n);
  return sequence;
}

int flat_chunk_tokens(std::span<const PassArm> arms) {
  constexpr int kRows = 4096;  // of all arms together: 34 MB of buffers for rows of 8.4 KB
  constexpr int kLeastTokens = 256;
  for (const PassArm& arm : arms) {
    const Policy& policy = *arm.policy;
    const bool dense =
        policy.is_dense() || (!arm.in_stream && policy.prefill() != PrefillMode::kStreaming);
    if (dense || usable_probe(policy, arm.probe) != nullptr) return 0;
  }
  return std::max(kLeastTokens, kRows / std::max(1, int(arms.size())));
}

LayerPass::LayerPass(EngineContext& context, Forward& forward, const PassRequest& request,
                     std::span<const PassArm> arms)
    : context_(context),
      forward_(forward),
      request_(request),
      arms_(arms.begin(), arms.end()),
      shape_(context.model.attention_shape(0)),
      n_layers_(context.model.config.n_layers),
      n_tokens_(int(request.tokens.size())),
      cascades_(arms.size()) {
  plan_arms();
  if (request.prefix != nullptr && dense_rows_ > 0) known_rows_ = request.prefix->hit_tokens();
  if (dense_rows_ > 0) {
    dense_.heads.assign(std::size_t(n_layers_) * shape_.n_kv_heads, HeadCache(&context.pages));
  }
}

void LayerPass::plan_arms() {
  const int prompt = request_.prompt_tokens;
  if (request_.dense_needed) dense_rows_ = n_tokens_;
  for (const PassArm& arm : arms_) {
    const Policy& policy = *arm.policy;
    Rows rows;
    rows.after = after_rule(policy, arm.probe);
    PassResult result;
    result.account =
        Account(context_.pool_of(policy.storage()).shape(), context_.model.page_shape());
    if (policy.is_dense()) {
      rows.kind = Kind::kDense;
      dense_rows_ = n_tokens_;
      result.is_dense = true;
      result.mode = arm.in_stream ? PrefillMode::kInStream : PrefillMode::kMonolithic;
    } else if (arm.prompt_done != nullptr) {
      rows.kind = Kind::kContinued;
      dense_rows_ = std::max(dense_rows_, prompt);
      result = std::move(*arm.prompt_done);
      result.resident_positions.clear();
      result.bytes_by_layer.clear();
      result.ghost_bytes = 0;
      rows_.push_back(rows);
      results_.push_back(std::move(result));
      continue;
    } else if (arm.in_stream) {
      rows.kind = Kind::kInStream;
    } else if (policy.prefill() == PrefillMode::kStreaming) {
      rows.kind = Kind::kStreamed;
      rows.prompt = row_rule(policy, policy.streaming_rule(), arm.probe, policy.chunk());
      rows.prompt.streaming = true;
      result.mode = PrefillMode::kStreaming;
      result.prefill_rows = prompt;
    } else if (policy.sparse_prefill()) {
      rows.kind = Kind::kSparse;
      result.mode = policy.prefill();
    } else {
      rows.kind = Kind::kCut;
      dense_rows_ = std::max(dense_rows_, prompt);
      result.mode = policy.prefill();
    }
    if (rows.kind != Kind::kDense) result.sequence = make_sequence(context_, policy, arm.probe);
    rows_.push_back(rows);
    results_.push_back(std::move(result));
  }
}

void LayerPass::plan_chunk(int begin, int end) {
  begin_ = begin;
  end_ = end;
  total_rows_ = dense_rows_;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    Rows& rows = rows_[i];
    if (rows.kind == Kind::kDense) continue;
    rows.first_row = total_rows_;
    rows.first_token = follows_prompt(rows) ? request_.prompt_tokens : begin;
    rows.n_rows = end - rows.first_token;
    results_[i].first_position = rows.first_token;
    total_rows_ += rows.n_rows;
  }
  const auto d_model = std::size_t(context_.model.config.d_model);
  x_ = context_.pass.x.floats(total_rows_ * d_model);
  qkv_ = context_.pass.qkv.floats(total_rows_ * shape_.row_floats());
  attention_ =
      context_.pass.attention.floats(total_rows_ * std::size_t(shape_.n_heads) * shape_.head_dim);
}

bool LayerPass::run(const std::function<bool()>& stop, const ChunkDone& chunk_done) {
  const bool whole = dense_rows_ > 0 || request_.chunk_tokens <= 0;
  const int chunk = whole ? n_tokens_ : request_.chunk_tokens;
  for (int begin = 0; begin < n_tokens_; begin += chunk) {
    plan_chunk(begin, std::min(n_tokens_, begin + chunk));
    if (!run_chunk(stop)) return false;
    if (chunk_done && !chunk_done(begin_, end_)) return false;
  }
  finish_accounts();
  return true;
}

bool LayerPass::run_chunk(const std::function<bool()>& stop) {
  const auto d_model = std::size_t(context_.model.config.d_model);
  if (dense_rows_ > 0) {
    forward_.embed(request_.tokens.first(dense_rows_).subspan(known_rows_), known_rows_,
                   x_.subspan(known_rows_ * d_model, (dense_rows_ - known_rows_) * d_model));
  }
  for (const Rows& rows : rows_) {
    if (rows.kind == Kind::kDense) continue;
    forward_.embed(request_.tokens.subspan(rows.first_token, rows.n_rows), rows.first_token,
                   x_.subspan(rows.first_row * d_model, rows.n_rows * d_model));
  }
  const int n_rows = int(total_rows_) - known_rows_;
  const auto d_attention = std::size_t(shape_.n_heads) * shape_.head_dim;
  const std::span<float> x = x_.subspan(known_rows_ * d_model);
  for (int layer = 0; layer < n_layers_; ++layer) {
    if (stop && stop()) return false;
    shape_ = context_.model.attention_shape(layer);
    forward_.project(layer, x, n_rows, RowKind::kPass,
                     qkv_.subspan(known_rows_ * shape_.row_floats()));
    run_dense(layer);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].kind == Kind::kSparse) run_sparse(i, layer);
    }
    run_scans(layer);
    if (end_ == n_tokens_) leave_layer(layer);
    if (layer + 1 < n_layers_ || request_.want_hidden)
      forward_.finish(layer, attention_.subspan(known_rows_ * d_attention), n_rows, RowKind::kPass,
                      x);
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Rows& r = rows_[i];
    results_[i].hidden = r.kind == Kind::kDense
                             ? dense_hidden()
                             : x_.subspan(r.first_row * d_model, r.n_rows * d_model);
  }
  return true;
}

void LayerPass::finish_accounts() {
  context_.backend.sync();  // positions are read
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    // Not layer by layer: where layers share one total, a later cut takes from earlier ones.
    if (request_.want_residents && request_.keep_caches) {
      for (const HeadCache& head : (results_[i].is_dense ? dense_ : results_[i].sequence).heads)
        results_[i].resident_positions.push_back(head.sorted_positions());
    }
    results_[i].account.ghosts(results_[i].ghost_bytes);
    if (rows_[i].kind != Kind::kDense) continue;
    const int n_heads = n_layers_ * shape_.n_kv_heads;
    results_[i].account.growing_rows(0, 0, n_tokens_, n_heads, sizeof(std::int32_t));
    results_[i].prefill_rows = arms_[i].in_stream ? 0 : request_.prompt_tokens;
  }
}

std::span<const float> LayerPass::dense_hidden() const {
  return x_.first(std::size_t(dense_rows_) * context_.model.config.d_model);
}

void LayerPass::run_dense(int layer) {
  if (dense_rows_ == 0) return;
  if (request_.full_rows && dense_rows_ == n_tokens_) {
    context_.backend.sync();
    request_.full_rows(layer, qkv_.first(std::size_t(dense_rows_) * shape_.row_floats()));
  }
  const int prompt = std::min(request_.prompt_tokens, dense_rows_);
  HeadCache* heads = &dense_.heads[std::size_t(layer) * shape_.n_kv_heads];
  std::vector<std::size_t> cutting;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].kind == Kind::kCut) cutting.push_back(i);
  }
  if (prompt > 0) {
    const bool wants_lse = !cutting.empty() || request_.prefix != nullptr;
    const std::span<float> lse =
        context_.pass.lse.floats(wants_lse ? std::size_t(shape_.n_heads) * prompt : 0);
    if (request_.prefix != nullptr) {
      context_.backend.sync();
      request_.prefix->read(layer, qkv_row(0), lse.data());
    }
    context_.backend.attend_dense(shape_, context_.rope_of(layer),
                                  {heads, qkv_row(0), attention_row(0), prompt, 0,
                                   wants_lse ? lse.data() : nullptr, known_rows_});
    if (request_.prefix != nullptr) {
      context_.backend.sync();
      request_.prefix->write(layer, qkv_row(0), lse.data());
    }
    PromptStatistics statistics(context_.backend, shape_, context_.rope_of(layer), heads,
                                qkv_row(0), lse.data(), prompt);
    if (!cutting.empty()) cut(layer, cutting, statistics, qkv_row(0));
  }
  if (dense_rows_ > prompt) {
    context_.backend.attend_dense(
        shape_, context_.rope_of(layer),
        {heads, qkv_row(prompt), attention_row(prompt), dense_rows_ - prompt, prompt, nullptr});
  }
}

void LayerPass::cut(int layer, std::span<const std::size_t> arms, PromptStatistics& statistics,
                    const float* qkv) {
  const int prompt = request_.prompt_tokens;
  std::vector<CutJob> cuts;  // together, so that all arms' heads share the threads
  for (const std::size_t i : arms) {
    cuts.push_back({arms_[i].policy, &results_[i].sequence, rows_[i].after, rows_[i].after.probe});
    if (layer == 0) cascades_[i] = arms_[i].policy->make_cascade();
    cuts.back().cascade = cascades_[i].get();
  }
  cut_prompt(context_.backend, shape_, context_.rope_of(layer), layer, n_layers_, prompt, qkv,
             statistics, cuts);
  for (std::size_t k = 0; k < arms.size(); ++k) {
    PassResult& result = results_[arms[k]];
    result.account.prompt_layer(prompt, shape_.n_kv_heads,
                                cuts[k].policy->prefill() == PrefillMode::kTwoPass,
                                &result.sequence.heads[std::size_t(layer) * shape_.n_kv_heads]);
    if (cuts[k].cascade != nullptr) {
      result.account.kept_so_far(std::span<const HeadCache>(result.sequence.heads)
                                     .first(std::size_t(layer + 1) * shape_.n_kv_heads));
    }
    result.seconds += cuts[k].seconds;
  }
}

void LayerPass::run_sparse(std::size_t arm, int layer) {
  const int prompt = request_.prompt_tokens;
  const float* qkv = qkv_row(rows_[arm].first_row);
  std::vector<HeadCache> heads(shape_.n_kv_heads, HeadCache(&context_.pages));
  const std::span<float> lse = context_.pass.lse.floats(std::size_t(shape_.n_heads) * prompt);
  attend_sparse_prompt(context_.backend, shape_, context_.rope_of(layer),
                       *arms_[arm].policy->sparse_prefill(), heads.data(), qkv, prompt,
                       attention_row(rows_[arm].first_row), lse.data(), results_[arm].sparse);
  PromptStatistics statistics(context_.backend, shape_, context_.rope_of(layer), heads.data(), qkv,
                              lse.data(), prompt);
  cut(layer, {&arm, 1}, statistics, qkv);
}

void LayerPass::run_scans(int layer) {
  run_scan_phase(layer, true);
  run_scan_phase(layer, false);
}

LayerPass::Stretch LayerPass::stretch_of(const Rows& rows, bool prompt_phase) const {
  Stretch s;
  const int prompt = request_.prompt_tokens;
  s.begin = rows.kind == Kind::kInStream || prompt_phase ? 0 : prompt;
  s.end = prompt_phase ? prompt : n_tokens_;
  s.chunk_begin = std::max(s.begin, begin_);
  s.chunk_end = std::min(s.end, end_);
  // One that is empty (nothing follows the prompt) starts at the end: its state is decoded from.
  s.starts = s.begin >= begin_ && (s.begin < end_ || end_ == n_tokens_);
  return s;
}

// The caches of a prompt that was cut have their state already (cut_prompt).
void LayerPass::start_stretch(std::size_t arm, int layer, bool prompt_phase) {
  const Rows& rows = rows_[arm];
  const RowRule& how = prompt_phase ? rows.prompt : rows.after;
  Sequence& sequence = results_[arm].sequence;
  const bool begins = prompt_phase || rows.kind == Kind::kInStream;
  const bool rule_changes =
      rows.kind == Kind::kStreamed && !prompt_phase && !(rows.prompt.rule == rows.after.rule);
  if (rule_changes) context_.backend.sync();
  if (begins || rule_changes)
    start_unit_states(sequence, layer, n_layers_, shape_, *arms_[arm].policy, how, {});
}

void LayerPass::run_scan_phase(int layer, bool prompt_phase) {
  struct Scan {
    std::size_t arm;
    Stretch stretch;
    std::size_t first_step;  // in steps_
    int n_rows() const { return stretch.chunk_end - stretch.chunk_begin; }
  };
  std::vector<Scan> scans;
  std::size_t n_steps = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Rows& rows = rows_[i];
    if (rows.kind == Kind::kDense || (prompt_phase && rows.kind != Kind::kStreamed)) continue;
    const Stretch s = stretch_of(rows, prompt_phase);
    if (s.starts) start_stretch(i, layer, prompt_phase);
    if (s.chunk_begin >= s.chunk_end) continue;
    scans.push_back({i, s, n_steps});
    n_steps += std::size_t(shape_.n_kv_heads) * scans.back().n_rows();
  }
  if (scans.empty()) return;
  const auto rule = [&](const Scan& scan) -> const RowRule& {
    return prompt_phase ? rows_[scan.arm].prompt : rows_[scan.arm].after;
  };
  steps_.resize(std::max(steps_.size(), n_steps));
  std::vector<ScanJob> jobs;
  for (const Scan& scan : scans) {
    const Rows& rows = rows_[scan.arm];
    const Stretch& s = scan.stretch;
    const std::size_t row = rows.first_row + std::size_t(s.chunk_begin - rows.first_token);
    const RowSpan span{qkv_row(row),  attention_row(row),      scan.n_rows(),
                       s.chunk_begin, s.chunk_begin - s.begin, s.end - s.chunk_end};
    add_scan_jobs(jobs, results_[scan.arm].sequence, layer, shape_, rule(scan), span,
                  steps_.data() + scan.first_step);
  }
  // Units of a whole layer take longest: first, for balance.
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const ScanJob& a, const ScanJob& b) { return a.n_kv_heads > b.n_kv_heads; });
  context_.backend.scan(shape_, context_.rope_of(layer), jobs);
  for (const Scan& scan : scans) {
    const bool cut = follows_prompt(rows_[scan.arm]) || rows_[scan.arm].kind == Kind::kSparse;
    const int first_own = cut ? request_.prompt_tokens : 0;
    add_steps(results_[scan.arm].account, std::size_t(scan.stretch.chunk_begin - first_own),
              scan.n_rows(), shape_, rule(scan), steps_.data() + scan.first_step);
  }
}

void LayerPass::leave_layer(int layer) {
  if (request_.want_residents && !request_.keep_caches) context_.backend.sync();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    PassResult& result = results_[i];
    result.bytes_by_layer.push_back(
        layer_bytes(result.is_dense ? dense_ : result.sequence, layer, shape_.n_kv_heads));
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
      const std::size_t index = std::size_t(layer) * shape_.n_kv_heads + h;
      HeadCache& head = result.is_dense ? dense_.heads[index] : result.sequence.heads[index];
      if (request_.want_residents && !request_.keep_caches)
        result.resident_positions.push_back(head.sorted_positions());
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
