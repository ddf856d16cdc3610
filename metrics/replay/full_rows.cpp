#include "metrics/replay/full_rows.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "metrics/probes/probe_summary.h"
#include "runner/base/exp_weights.h"
#include "runner/trace/trace_replay.h"

namespace kvscope {
namespace {

// Orders like (logit, position): of equals the newer token comes first (policies.md 1.4).
std::uint64_t rank_key(float logit, std::uint32_t position) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);  // -0 is 0
  const std::uint32_t ordered = (bits >> 31U) != 0U ? ~bits : bits | 0x8000'0000U;
  return std::uint64_t{ordered} << 32U | position;
}

std::int32_t position_of(std::uint64_t key) { return std::int32_t(std::uint32_t(key)); }

// Moves the fewest first keys in order that weigh `wanted` to the front; how many, at least 1.
std::size_t choose_mass(std::span<std::uint64_t> keys, std::span<const float> weights,
                        double wanted) {
  std::size_t begin = 0;  // keys before are chosen, the crossing one lies in [begin, end)
  std::size_t end = keys.size();
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    const auto at = [&](std::size_t i) { return keys.begin() + std::ptrdiff_t(i); };
    std::nth_element(at(begin), at(middle), at(end), std::greater<>());
    double upper = 0;
    for (std::size_t i = begin; i < middle; ++i)
      upper += double(weights[std::size_t(position_of(keys[i]))]);
    if (upper >= wanted) {
      end = middle;
    } else {
      wanted -= upper;
      begin = middle;
    }
  }
  return end;
}

}  // namespace

FullRows::FullRows(const TraceFacts& facts, int prompt_tokens, bool keep_group_means)
    : n_tokens_(facts.n_tokens),
      first_row_(std::max(1, prompt_tokens)),
      group_size_(facts.shape().group()),
      keeps_means_(keep_group_means),
      block_(std::size_t(facts.n_heads) * kReplayBlockRows),
      scratch_(std::size_t(facts.n_kv_heads)) {
  if (!keeps_means_) return;
  const auto n_rows = std::size_t(std::max(0, n_tokens_ - first_row_));
  means_.resize(std::size_t(facts.n_kv_heads) * n_rows * std::size_t(n_tokens_));
}

std::size_t FullRows::place(int kv_head, int query_head, int position) const {
  const auto head = std::size_t(kv_head) * std::size_t(group_size_) + std::size_t(query_head);
  return head * kReplayBlockRows + std::size_t(position % kReplayBlockRows);
}

FullRows::Row FullRows::row(int kv_head, int query_head, int position) const {
  const Kept& kept = block_[place(kv_head, query_head, position)];
  return {kept.weights, kept.total, kept.top_keys, kept.mass_keys};
}

DecodeAttention<float> FullRows::attention(int kv_head) const {
  const std::size_t n = std::size_t(n_tokens_ - first_row_) * std::size_t(n_tokens_);
  return {first_row_, n_tokens_, std::span(means_).subspan(std::size_t(kv_head) * n, n)};
}

// Nothing is evicted, so slots are in order of position.
void FullRows::attention_row(const AttentionRow& row) {
  Kept& kept = block_[place(row.kv_head, row.query_head, row.position)];
  kept.weights.resize(row.visible_logits.size());
  const ExpSum sum = exp_weights(row.visible_logits, kept.weights);
  const float scale = float(1.0 / sum.sum);
  kept.total = 0.0;
  for (float& weight : kept.weights) {
    weight *= scale;
    kept.total += double(weight);
  }
  choose_keys(row.visible_logits, scratch_[std::size_t(row.kv_head)], kept);
  if (!keeps_means_ || row.position < first_row_) return;
  const std::size_t n_rows = std::size_t(n_tokens_ - first_row_);
  float* mean =
      means_.data() + (std::size_t(row.kv_head) * n_rows + std::size_t(row.position - first_row_)) *
                          std::size_t(n_tokens_);
  const float share = 1.0F / float(group_size_);
  for (std::size_t i = 0; i < kept.weights.size(); ++i)
    mean[i] = (row.query_head == 0 ? 0.0F : mean[i]) + kept.weights[i] * share;
}

void FullRows::choose_keys(std::span<const float> logits, Scratch& scratch, Kept& kept) const {
  std::vector<std::uint64_t>& keys = scratch.keys;
  keys.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) keys[i] = rank_key(logits[i], std::uint32_t(i));
  const auto take = [&](std::size_t n, std::vector<std::int32_t>& out) {
    out.resize(n);
    std::transform(keys.begin(), keys.begin() + std::ptrdiff_t(n), out.begin(), position_of);
  };
  const std::size_t n_top = std::min(keys.size(), std::size_t(kTopKeys));
  std::nth_element(keys.begin(), keys.begin() + std::ptrdiff_t(n_top) - 1, keys.end(),
                   std::greater<>());
  take(n_top, kept.top_keys);
  take(choose_mass(keys, kept.weights, kHitMassShare * kept.total), kept.mass_keys);
}

}  // namespace kvscope
