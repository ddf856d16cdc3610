#include "runner/engine/prompt_cut.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runner/engine/rope_table.h"

namespace kvscope {

PromptStatistics::PromptStatistics(Backend& backend, const AttentionShape& shape,
                                   const RopeTable& rope, const HeadCache* heads, const float* qkv,
                                   const float* lse, int prompt_tokens)
    : backend_(backend), shape_(shape), rope_(rope), job_{heads,         qkv, lse,
                                                          prompt_tokens, {},  nullptr} {}

std::span<const float> PromptStatistics::weights(const PromptNeed& need) {
  if (need.rows == PromptNeed::Rows::kNone) return {};
  if (need != need.sums()) return weights(need.sums());
  for (const auto& [known, weights] : done_) {
    if (known == need) return weights;
  }
  std::vector<float> out(std::size_t(shape_.n_heads) * job_.n_rows);
  job_.need = need;
  job_.out = out.data();
  backend_.column_weights(shape_, rope_, job_);
  return done_.emplace_back(need, std::move(out)).second;
}

std::vector<float> PromptStatistics::by_head(int first, int n, bool rotated) const {
  const int d = shape_.head_dim;
  const int n_rows = job_.n_rows;
  std::vector<float> out(std::size_t(n) * n_rows * d);
  for (int h = 0; h < n; ++h) {
    for (int u = 0; u < n_rows; ++u) {
      const float* x = job_.qkv + u * shape_.row_floats() + std::size_t(first + h) * d;
      float* y = out.data() + (std::size_t(h) * n_rows + u) * d;
      if (rotated) {
        rotate_to(rope_, x, u, y);
      } else {
        std::copy_n(x, d, y);
      }
    }
  }
  return out;
}

PromptLayer PromptStatistics::view(const PromptNeed& need, int layer, int n_layers) {
  PromptLayer view{layer,       n_layers,      shape_.n_heads, shape_.n_kv_heads,
                   job_.n_rows, weights(need), shape_.head_dim};
  const int n_heads = shape_.n_heads;
  const int n_kv_heads = shape_.n_kv_heads;
  if (need.keys || need.raw_keys || need.values || need.queries) backend_.sync();
  if (need.keys && keys_.empty()) keys_ = by_head(n_heads, n_kv_heads, true);
  if (need.raw_keys && raw_keys_.empty()) raw_keys_ = by_head(n_heads, n_kv_heads, false);
  if (need.values && values_.empty()) values_ = by_head(n_heads + n_kv_heads, n_kv_heads, false);
  if (need.queries && queries_.empty()) {
    queries_ = by_head(0, n_heads, false);
    // Policies take q·k/√d for a logit; here another scale is the model's.
    const float scale = shape_.scale() * std::sqrt(float(shape_.head_dim));
    if (shape_.query_scale > 0.0F) {
      for (float& q : queries_) q *= scale;
    }
  }
  if (need.keys) view.keys = keys_;
  if (need.raw_keys) view.raw_keys = raw_keys_;
  if (need.values) view.values = values_;
  if (need.queries) view.queries = queries_;
  view.inverse_frequency = rope_.inverse_frequency;
  if (need.replay_rows > 0) view.rows = this;
  return view;
}

void PromptStatistics::for_each(int first_row, const Visit& visit) const {
  constexpr int kRows = 16;
  const auto n_heads = std::size_t(shape_.n_heads);
  std::vector<float> out(kRows * n_heads * job_.n_rows);
  AttentionRowsJob rows{job_.heads, job_.qkv, job_.lse, job_.n_rows, 0, 0, out.data()};
  for (int u = std::max(0, first_row); u < job_.n_rows; u += kRows) {
    rows.first_row = u;
    rows.n_rows = std::min(kRows, job_.n_rows - u);
    backend_.attention_rows(shape_, rope_, rows);
    for (int r = 0; r < rows.n_rows; ++r) {
      visit(u + r, std::span(out).subspan(r * n_heads * job_.n_rows, n_heads * job_.n_rows),
            job_.n_rows);
    }
  }
}

namespace {

// Mean weight over the prompt's last rows of the tokens at `positions`, group mean of one KV head.
std::vector<float> recent_means(std::span<const float> weights, const AttentionShape& shape,
                                int kv_head, int prompt_tokens,
                                std::span<const std::int32_t> positions) {
  std::vector<float> means;
  means.reserve(positions.size());
  for (const std::int32_t position : positions) {
    float sum = 0.0F;
    for (int g = 0; g < shape.group(); ++g) {
      sum += weights[std::size_t(kv_head * shape.group() + g) * prompt_tokens + position];
    }
    means.push_back(sum / float(shape.group()));
  }
  return means;
}

// Takes from an earlier layer what a cascade no longer leaves it.
void recut_layer(Sequence& sequence, const PromptCascade::Recut& recut, int n_layers,
                 const AttentionShape& shape, const Policy& policy, const RowRule& after,
                 ProbeSink* probe) {
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    const std::size_t index = std::size_t(recut.layer) * shape.n_kv_heads + h;
    HeadCache& head = sequence.heads[index];
    const std::vector<std::int32_t>& stay = recut.heads[h].positions;
    for (int slot = head.n_slots() - 1; slot >= 0; --slot) {
      const std::int32_t position = head.positions()[slot];
      if (std::binary_search(stay.begin(), stay.end(), position)) continue;
      if (!sequence.ghosts.empty()) {
        HeadCache& ghosts = sequence.ghosts[index];
        const int ghost = ghosts.append_slot(position, {});
        copy_slot(head.pool(), head.page_of(slot), slot % kPageSlots, ghosts.pool(),
                  ghosts.page_of(ghost), ghost % kPageSlots);
      }
      if (probe != nullptr) probe->evicted(recut.layer, h, position, slot, head.n_slots() - 1);
      head.remove_slot(slot);
    }
  }
  // The kept positions are ascending, the slots no longer are.
  std::vector<KeptHead> by_slot = recut.heads;
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    const HeadCache& head = sequence.heads[std::size_t(recut.layer) * shape.n_kv_heads + h];
    by_slot[h] = in_slot_order(std::move(by_slot[h]), head.positions());
  }
  start_unit_states(sequence, recut.layer, n_layers, shape, policy, after, by_slot);
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::size_t slots_of(std::span<const KeptHead> heads) {
  std::size_t n = 0;
  for (const KeptHead& head : heads) n += head.positions.size();
  return n;
}

}  // namespace

void cut_prompt(Backend& backend, const AttentionShape& shape, const RopeTable& rope, int layer,
                int n_layers, int prompt_tokens, const float* qkv, PromptStatistics& statistics,
                std::span<CutJob> cuts) {
  std::vector<std::vector<KeptHead>> kept;
  std::vector<GatherJob> jobs;
  kept.reserve(cuts.size());  // jobs point into it
  std::size_t all_kept = 0;
  for (CutJob& cut : cuts) {
    const auto start = Clock::now();
    const PromptLayer view = statistics.view(cut.policy->prompt_need(), layer, n_layers);
    kept.push_back(cut.cascade != nullptr ? cut.cascade->cut(view)
                                          : cut.policy->select_prompt(view));
    for (int h = 0; h < shape.n_kv_heads; ++h) {
      const std::size_t index = std::size_t(layer) * shape.n_kv_heads + h;
      jobs.push_back({&cut.sequence->heads[index],
                      cut.sequence->ghosts.empty() ? nullptr : &cut.sequence->ghosts[index], h,
                      kept.back()[h].positions, qkv, prompt_tokens, cut.policy->positions()});
    }
    all_kept += slots_of(kept.back());
    cut.seconds = seconds_since(start);
  }
  const auto start = Clock::now();
  backend.gather(shape, rope, jobs);
  const double gather_seconds = seconds_since(start);
  for (std::size_t i = 0; i < cuts.size(); ++i)
    cuts[i].seconds +=
        gather_seconds * double(slots_of(kept[i])) / double(std::max<std::size_t>(1, all_kept));
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const CutJob& cut = cuts[i];
    start_unit_states(*cut.sequence, layer, n_layers, shape, *cut.policy, cut.after, kept[i]);
    if (cut.cascade != nullptr) {
      backend.sync();  // slots are moved
      for (const PromptCascade::Recut& recut : cut.cascade->take_recuts())
        recut_layer(*cut.sequence, recut, n_layers, shape, *cut.policy, cut.after, cut.probe);
    }
    if (cut.probe == nullptr) continue;
    const auto weights = statistics.weights({PromptNeed::Rows::kLast, kHistoryRows, 1.0F, true});
    for (int h = 0; h < shape.n_kv_heads; ++h) {
      const std::size_t index = std::size_t(layer) * shape.n_kv_heads + h;
      const auto ghosts = cut.sequence->ghosts[index].positions();
      const auto residents = cut.sequence->heads[index].positions();
      cut.probe->prompt_cut(layer, h, prompt_tokens, ghosts,
                            recent_means(weights, shape, h, prompt_tokens, ghosts), residents,
                            recent_means(weights, shape, h, prompt_tokens, residents));
    }
  }
}

}  // namespace kvscope
