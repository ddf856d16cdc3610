#include "runner/backend/cpu/attend_ghosts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runner/backend/cpu/slots.h"
#include "runner/base/exp_weights.h"
#include "runner/cache/page_slots.h"

namespace kvscope::cpu {

namespace {

// A query that sees a window of the cache sees it of the ghosts, in the block from slot `first` on.
void see_window(const HeadCache& ghosts, int first, const QueryState& query, QueryState& state) {
  state.positions = query.positions == nullptr ? nullptr : ghosts.positions().data() + first;
}

}  // namespace

void GhostRows::attend(const GhostCache& ghosts, std::span<const QueryState> queries,
                       int head_dim) {
  const auto n_ghosts = std::size_t(ghosts.n_ghosts());
  logits_.resize(queries.size() * n_ghosts);
  states_.assign(queries.begin(), queries.end());
  bound_logits(ghosts, queries, head_dim);
  attend_prompt(ghosts, queries, head_dim);
  const std::size_t first_own = ghosts.prompt_slots().size();
  const int n_own = ghosts.own().n_slots();
  for_each_block(ghosts.own(), n_own, [&](std::span<const PageView> pages, int first) {
    for (std::size_t g = 0; g < states_.size(); ++g) {
      states_[g].live = std::min(kBlockPages * kPageSlots, n_own - first);
      states_[g].logits = logits_.data() + g * n_ghosts + first_own + std::size_t(first);
      see_window(ghosts.own(), first, queries[g], states_[g]);
    }
    block_logits(states_, pages, head_dim);
  });
}

// Blocks of the shared pages in which there is a ghost; of their logits, those of the ghosts.
void GhostRows::attend_prompt(const GhostCache& ghosts, std::span<const QueryState> queries,
                              int head_dim) {
  constexpr int kBlockSlots = kBlockPages * kPageSlots;
  const auto n_ghosts = std::size_t(ghosts.n_ghosts());
  const std::span<const std::int32_t> slots = ghosts.prompt_slots();
  if (slots.empty()) return;
  const int n_slots = ghosts.prompt().n_slots();
  block_.resize(queries.size() * kBlockSlots);
  BlockPages block;
  std::size_t ghost = 0;
  for (int first = 0; first < n_slots; first += kBlockSlots) {
    const int live = std::min(kBlockSlots, n_slots - first);
    std::size_t end = ghost;
    while (end < slots.size() && slots[end] < first + live) ++end;
    if (end == ghost) continue;
    for (std::size_t g = 0; g < states_.size(); ++g) {
      states_[g].live = live;
      states_[g].logits = block_.data() + g * kBlockSlots;
      see_window(ghosts.prompt(), first, queries[g], states_[g]);
    }
    block_logits(states_, block.show(ghosts.prompt(), first, n_slots), head_dim);
    for (std::size_t g = 0; g < states_.size(); ++g) {
      const float* from = block_.data() + g * kBlockSlots - first;
      float* to = logits_.data() + g * n_ghosts;
      for (std::size_t i = ghost; i < end; ++i) to[i] = from[slots[i]];
    }
    ghost = end;
  }
}

// Rounding moves each element of a key by half its scale at most; queries hold 1/√d already.
void GhostRows::bound_logits(const GhostCache& ghosts, std::span<const QueryState> queries,
                             int head_dim) {
  bounds_.clear();
  for (const QueryState& query : queries) {
    float sum = 0.0F;
    for (int i = 0; i < head_dim; ++i) sum += std::abs(query.q[i]);
    bounds_.push_back(sum * ghosts.largest_key_scale() / 2);
  }
}

void GhostRows::take(const GhostCache& ghosts, std::span<const QueryState> queries, int head_dim,
                     std::span<const float> prompt, std::span<const float> own) {
  const std::size_t group = queries.size();
  bound_logits(ghosts, queries, head_dim);
  const auto n_ghosts = std::size_t(ghosts.n_ghosts());
  const std::span<const std::int32_t> slots = ghosts.prompt_slots();
  const std::size_t n_own = n_ghosts - slots.size();
  const std::size_t n_prompt = prompt.size() / group;
  logits_.resize(group * n_ghosts);
  for (std::size_t g = 0; g < group; ++g) {
    float* to = logits_.data() + g * n_ghosts;
    for (std::size_t i = 0; i < slots.size(); ++i)
      to[i] = prompt[g * n_prompt + std::size_t(slots[i])];
    std::copy_n(own.data() + g * n_own, n_own, to + slots.size());
  }
}

void GhostRows::weigh_values(const GhostCache& ghosts, int group, int head_dim) {
  const auto n_ghosts = std::size_t(ghosts.n_ghosts());
  const auto d = std::size_t(head_dim);
  weights_.resize(logits_.size());
  outputs_.assign(std::size_t(group) * d, 0.0F);
  std::vector<double> sums;
  for (std::size_t g = 0; g < std::size_t(group); ++g) {
    sums.push_back(exp_weights(std::span(logits_).subspan(g * n_ghosts, n_ghosts),
                               std::span(weights_).subspan(g * n_ghosts, n_ghosts))
                       .sum);
  }
  const std::span<const std::int32_t> slots = ghosts.prompt_slots();
  for (std::size_t first = 0; first < slots.size();) {
    const int page = slots[first] / kPageSlots;
    lanes_.clear();
    for (std::size_t i = first; i < slots.size() && slots[i] / kPageSlots == page; ++i)
      lanes_.push_back(slots[i] % kPageSlots);
    add_page(ghosts.prompt(), page, lanes_, first, n_ghosts, group, head_dim);
    first += lanes_.size();
  }
  const int n_own = ghosts.own().n_slots();
  for (int first = 0; first < n_own; first += kPageSlots) {
    lanes_.resize(std::size_t(std::min(kPageSlots, n_own - first)));
    std::iota(lanes_.begin(), lanes_.end(), 0);
    add_page(ghosts.own(), first / kPageSlots, lanes_, slots.size() + std::size_t(first), n_ghosts,
             group, head_dim);
  }
  for (std::size_t g = 0; g < std::size_t(group); ++g) {
    for (std::size_t i = 0; i < d; ++i)
      outputs_[g * d + i] = float(double(outputs_[g * d + i]) / sums[g]);
  }
}

// Sums of a page first, then over pages: float's error does not grow with the number of ghosts.
void GhostRows::add_page(const HeadCache& head, int page, std::span<const std::int32_t> lanes,
                         std::size_t first_ghost, std::size_t n_ghosts, int group, int head_dim) {
  const PageShape& shape = head.pool().shape();
  const PageId id = head.page_of(page * kPageSlots);
  const auto d = std::size_t(head_dim);
  const float* values = nullptr;
  if (!shape.is_quantised() && shape.dtype == DType::kF32) {
    values = reinterpret_cast<const float*>(head.pool().values(id));
  } else {
    values_.resize(kPageSlots * d);
    const int first = lanes.front();
    read_values(head.pool(), id, first, lanes.back() - first + 1, values_.data());
    values = values_.data();
  }
  page_sum_.resize(d);
  for (std::size_t g = 0; g < std::size_t(group); ++g) {
    std::fill(page_sum_.begin(), page_sum_.end(), 0.0F);
    const float* weights = weights_.data() + g * n_ghosts + first_ghost;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const float weight = weights[i];
      const float* value = values + std::size_t(lanes[i]) * d;
      for (std::size_t j = 0; j < d; ++j) page_sum_[j] += weight * value[j];
    }
    for (std::size_t j = 0; j < d; ++j) outputs_[g * d + j] += page_sum_[j];
  }
}

}  // namespace kvscope::cpu
