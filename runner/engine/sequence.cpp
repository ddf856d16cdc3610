#include "runner/engine/sequence.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "runner/base/splitmix.h"

namespace kvscope {

std::string Sequence::rule_error() const {
  if (!failure.empty()) return failure;
  for (const auto& state : host) {
    if (state == nullptr) continue;
    if (std::string error = state->error(); !error.empty()) return error;
  }
  return {};
}

Sequence Sequence::fork() const {
  Sequence copy;
  copy.failure = failure;
  copy.heads = heads;
  copy.budget_tokens = budget_tokens;
  copy.read_pages = read_pages;
  copy.host.resize(host.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (host[i] != nullptr) copy.host[i] = host[i]->clone();
  }
  return copy;
}

ProbeSink* probe_of_layer(ProbeSink* probe, int layer) {
  return probe != nullptr && probe->layer_view(layer) != RowView::kNothing ? probe : nullptr;
}

bool wants_ghosts(const ProbeSink* probe, int layer) {
  return probe != nullptr && probe->layer_view(layer) >= RowView::kGhosts;
}

void add_scan_jobs(std::vector<ScanJob>& jobs, Sequence& sequence, int layer,
                   const AttentionShape& shape, const RowRule& how, const RowSpan& rows,
                   StepSlots* steps) {
  const bool by_layer = how.rule.evicts() && how.rule.scope == ScanRule::Scope::kLayer;
  const int unit = by_layer ? shape.n_kv_heads : 1;
  for (int h = 0; h < shape.n_kv_heads; h += unit) {
    const std::size_t index = std::size_t(layer) * shape.n_kv_heads + h;
    ScanJob job;
    job.layer = layer;
    job.first_kv_head = h;
    job.n_kv_heads = unit;
    job.heads = &sequence.heads[index];
    job.probe = probe_of_layer(how.probe, layer);
    if (!sequence.ghosts.empty() && wants_ghosts(how.probe, layer))
      job.ghosts = &sequence.ghosts[index];
    job.qkv = rows.qkv;
    job.qkv_stride = shape.row_floats();
    job.out = rows.out;
    job.out_stride = std::size_t(shape.n_heads) * shape.head_dim;
    job.n_rows = rows.n_rows;
    job.rows_before = rows.rows_before;
    job.rows_after = rows.rows_after;
    job.first_position = rows.first_position;
    job.positions = how.positions;
    job.rule = how.rule;
    if (how.rule.evicts() && sequence.budget_tokens[index] > 0)
      job.rule = with_budget(how.rule, sequence.budget_tokens[index]);
    job.read = how.read;
    if (how.read) job.read_pages = &sequence.read_pages[index];
    job.host = sequence.host.empty() ? nullptr : sequence.host[index].get();
    job.chunk = how.chunk;
    job.steps = steps + std::size_t(h) * rows.n_rows;
    jobs.push_back(job);
  }
}

namespace {

// Rank of each slot's position among all: slots keep no order once an eviction has moved one.
std::vector<std::int32_t> ranks_of(std::span<const std::int32_t> positions) {
  std::vector<std::int32_t> by_position(positions.size());
  std::iota(by_position.begin(), by_position.end(), 0);
  std::sort(by_position.begin(), by_position.end(),
            [&](std::int32_t a, std::int32_t b) { return positions[a] < positions[b]; });
  std::vector<std::int32_t> ranks(positions.size());
  for (std::size_t r = 0; r < by_position.size(); ++r) ranks[by_position[r]] = std::int32_t(r);
  return ranks;
}

}  // namespace

void start_rule(Sequence& sequence, int layer, const AttentionShape& shape, const RowRule& how,
                std::span<const KeptHead> kept) {
  const ScanRule& rule = how.rule;
  const bool as_host =
      !sequence.host.empty() && sequence.host[std::size_t(layer) * shape.n_kv_heads] != nullptr;
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    HeadCache& head = sequence.heads[std::size_t(layer) * shape.n_kv_heads + h];
    const auto n = std::size_t(head.n_slots());
    head.statistic.clear();
    head.count.clear();
    head.priority.clear();
    head.rank.clear();
    if (how.positions != PositionMode::kAbsolute) {
      const std::vector<std::int32_t> ranks = ranks_of(head.positions());
      head.rank.assign(ranks.begin(), ranks.end());
    }
    const bool carries_state = rule.scope == ScanRule::Scope::kHead || h == 0;
    if (!rule.evicts() || as_host || !carries_state) continue;
    if (keeps_statistic(rule.statistic)) {
      head.statistic.assign(n, 0.0F);
      if (!kept.empty() && !kept[h].statistic.empty())
        head.statistic.assign(kept[h].statistic.begin(), kept[h].statistic.end());
      assert(head.statistic.size() == n);
    }
    if (keeps_count(rule.statistic)) {
      head.count.assign(n, 0);
      // A token's first use is its own row.
      if (rule.statistic == ScanRule::Statistic::kLastUse)
        std::copy(head.positions().begin(), head.positions().end(), head.count.begin());
      if (!kept.empty() && !kept[h].count.empty())
        head.count.assign(kept[h].count.begin(), kept[h].count.end());
    }
    if (rule.victim == ScanRule::Victim::kPriority) {
      for (const std::int32_t position : head.positions()) {
        head.priority.push_back(token_priority(rule.seed, layer, h, position));
      }
    }
  }
}

namespace {

// Bounds of the pages of what is cached already.
void start_reading(Sequence& sequence, int layer, const AttentionShape& shape,
                   const ReadRule& read) {
  std::vector<float> key(shape.head_dim);
  Memory* memory = sequence.heads[std::size_t(layer) * shape.n_kv_heads].pool().memory();
  if (memory != nullptr) memory->wait();  // keys are read
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    const std::size_t index = std::size_t(layer) * shape.n_kv_heads + h;
    QuestPages pages(shape.head_dim, read.page_tokens);
    for (int slot = 0; slot < sequence.heads[index].n_slots(); ++slot) {
      sequence.heads[index].read_key(slot, key.data());
      pages.append(key);
    }
    sequence.read_pages[index] = std::move(pages);
  }
}

}  // namespace

void start_unit_states(Sequence& sequence, int layer, int n_layers, const AttentionShape& shape,
                       const Policy& policy, const RowRule& how, std::span<const KeptHead> kept) {
  const bool by_layer = how.rule.scope == ScanRule::Scope::kLayer;
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    const std::size_t index = std::size_t(layer) * shape.n_kv_heads + h;
    const int n_kv_heads = by_layer ? shape.n_kv_heads : 1;
    const UnitPlace place{layer,      by_layer ? 0 : h,           n_layers,
                          n_kv_heads, n_kv_heads * shape.group(), shape.head_dim};
    if (!kept.empty() && sequence.failure.empty()) sequence.failure = kept[h].error;
    const int own = kept.empty() ? 0 : kept[h].budget_tokens;
    sequence.budget_tokens[index] = own > 0 ? own : policy.unit_budget(place);
    if (sequence.host.empty()) continue;
    if (sequence.failure.empty() && sequence.host[index] != nullptr)
      sequence.failure = sequence.host[index]->error();
    sequence.host[index] = nullptr;
    if (!how.rule.evicts() || (by_layer && h > 0)) continue;
    if (!kept.empty()) {
      sequence.host[index] = policy.make_state(place, kept[h]);
    } else if (how.streaming) {
      sequence.host[index] = policy.make_streaming_state(place);
    } else {
      KeptHead start;
      const auto positions = sequence.heads[index].positions();
      start.positions.assign(positions.begin(), positions.end());
      start.budget_tokens = sequence.budget_tokens[index];
      sequence.host[index] = policy.make_state(place, start);
    }
  }
  start_rule(sequence, layer, shape, how, kept);
  if (how.read) start_reading(sequence, layer, shape, *how.read);
}

KeptHead in_slot_order(KeptHead kept, std::span<const std::int32_t> slots) {
  KeptHead ordered = kept;
  std::vector<std::int32_t> old_slot_of;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto at = std::lower_bound(kept.positions.begin(), kept.positions.end(), slots[i]);
    const auto from = std::size_t(at - kept.positions.begin());
    ordered.positions[i] = slots[i];
    if (!kept.statistic.empty()) ordered.statistic[i] = kept.statistic[from];
    if (!kept.count.empty()) ordered.count[i] = kept.count[from];
    old_slot_of.push_back(std::int32_t(from));
  }
  if (kept.state != nullptr) {
    auto state = kept.state->clone();
    state->compact(old_slot_of);
    ordered.state = std::move(state);
  }
  return ordered;
}

std::int64_t layer_bytes(const Sequence& sequence, int layer, int n_kv_heads) {
  std::int64_t bytes = 0;
  for (int h = 0; h < n_kv_heads; ++h) {
    const std::size_t index = std::size_t(layer) * n_kv_heads + h;
    const HeadCache& head = sequence.heads[index];
    bytes += head.physical_bytes() + head.metadata_bytes();
    if (!sequence.host.empty() && sequence.host[index] != nullptr)
      bytes += sequence.host[index]->state_bytes();
    if (!sequence.read_pages.empty())
      bytes += std::int64_t(sequence.read_pages[index].metadata_bytes());
  }
  return bytes;
}

void add_layer_kinds(const Sequence& sequence, int layer, int n_kv_heads, KvBytesByKind& kinds) {
  const auto add = [](KindBytes& to, std::int64_t bytes) {
    to.logical_bytes += bytes;
    to.physical_bytes += bytes;
  };
  for (int h = 0; h < n_kv_heads; ++h) {
    const std::size_t index = std::size_t(layer) * n_kv_heads + h;
    add_kinds(sequence.heads[index], kinds);
    if (!sequence.host.empty() && sequence.host[index] != nullptr)
      add(kinds.scores, sequence.host[index]->state_bytes());
    if (!sequence.read_pages.empty())
      add(kinds.tables, std::int64_t(sequence.read_pages[index].metadata_bytes()));
  }
}

void add_steps(Account& account, std::size_t first_row, int n_rows, const AttentionShape& shape,
               const RowRule& how, const StepSlots* steps) {
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    const bool carries_state = how.rule.scope == ScanRule::Scope::kHead || h == 0;
    account.rows(first_row, {steps + std::size_t(h) * n_rows, std::size_t(n_rows)},
                 slot_metadata_bytes(how.rule, how.positions, carries_state));
  }
}

}  // namespace kvscope
