#include "runner/engine/prompt_cut.h"

#include <algorithm>
#include <chrono>

namespace kvscope {

PromptStatistics::PromptStatistics(Backend& backend, const AttentionShape& shape,
                                   const RopeTable& rope, const HeadCache* heads, const float* qkv,
                                   const float* lse, int prompt_tokens)
    : backend_(backend), shape_(shape), rope_(rope), job_{heads,         qkv, lse,
                                                          prompt_tokens, {},  nullptr} {}

std::span<const float> PromptStatistics::weights(const PromptNeed& need) {
  if (need.rows == PromptNeed::Rows::kNone) return {};
  for (const auto& [known, weights] : done_) {
    if (known == need) return weights;
  }
  std::vector<float> out(std::size_t(shape_.n_heads) * job_.n_rows);
  job_.need = need;
  job_.out = out.data();
  backend_.column_weights(shape_, rope_, job_);
  return done_.emplace_back(need, std::move(out)).second;
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
    kept.push_back(
        cut.policy->select_prompt({layer, n_layers, shape.n_heads, shape.n_kv_heads, prompt_tokens,
                                   statistics.weights(cut.policy->prompt_need())}));
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
    for (int h = 0; !cut.sequence->host.empty() && h < shape.n_kv_heads; ++h) {
      const bool by_layer = cut.after.rule.scope == ScanRule::Scope::kLayer;
      if (by_layer && h > 0) break;
      cut.sequence->host[std::size_t(layer) * shape.n_kv_heads + h] =
          cut.policy->make_state({layer, h}, kept[i][h]);
    }
    start_rule(*cut.sequence, layer, shape, cut.after, kept[i]);
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
