#include "runner/backend/cpu/unit_scan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "runner/backend/cpu/attend_selected.h"
#include "runner/backend/cpu/slots.h"
#include "runner/backend/cpu/victims.h"
#include "runner/base/norm.h"
#include "runner/base/splitmix.h"

namespace kvscope::cpu {

namespace {

class UnitReader final : public SlotReader {
 public:
  UnitReader(const HeadCache* heads, int n_kv_heads) : heads_(heads), n_kv_heads_(n_kv_heads) {}
  int n_kv_heads() const override { return n_kv_heads_; }
  int head_dim() const override { return heads_[0].pool().shape().head_dim; }
  void read_key(int kv_head, int slot, std::span<float> out) const override {
    heads_[kv_head].read_key(slot, out.data());
  }
  void read_value(int kv_head, int slot, std::span<float> out) const override {
    heads_[kv_head].read_value(slot, out.data());
  }

 private:
  const HeadCache* heads_;
  int n_kv_heads_;
};

}  // namespace

UnitScan::UnitScan(const AttentionShape& shape, const RopeTable& rope, const ScanJob& job)
    : shape_(shape),
      rope_(rope),
      job_(job),
      d_(shape.head_dim),
      group_(shape.group()),
      probabilities_(job.heads[0].pool().memory()) {
  const bool has_rule = job.rule.evicts() && job.host == nullptr;
  use_.statistic = has_rule && keeps_statistic(job.rule.statistic);
  use_.count = has_rule && keeps_count(job.rule.statistic);
  use_.priority = has_rule && job.rule.victim == ScanRule::Victim::kPriority;
  observes_ =
      job.host != nullptr || (has_rule && job.rule.statistic != ScanRule::Statistic::kNone &&
                              job.rule.statistic != ScanRule::Statistic::kKeyNorm);
}

void UnitScan::open_row(int r) {
  n_slots_ = job_.heads[0].n_slots() + 1;
  row_ = r;
  for (int h = 0; h < job_.n_kv_heads; ++h) append(h, r);
  if (observes_) probabilities_.resize(std::size_t(job_.n_kv_heads) * group_ * n_slots_);
}

void UnitScan::close_row(int r) {
  observe(r);
  record_visible(r);
  const bool chunk_ends =
      (job_.rows_before + r + 1) % job_.chunk == 0 || r + 1 == job_.n_rows + job_.rows_after;
  if (chunk_ends && (job_.rule.evicts() || job_.host != nullptr)) evict(r);
  for (int h = 0; h < job_.n_kv_heads; ++h) job_.heads[h].advance_quantisation();
  record_resident(r);
}

void UnitScan::append(int h, int r) {
  HeadCache& head = job_.heads[h];
  assert(head.n_slots() == n_slots_ - 1);
  HeadCache::StateInUse use;
  if (h == 0) use = use_;  // a layer's heads share one statistic
  use.rank = relative();
  const int slot = head.append_slot(position(r), use);
  if (use.rank) head.rank[slot] = slot;  // the newest has the highest rank
  if (use.priority) {
    head.priority[slot] =
        token_priority(job_.rule.seed, job_.layer, job_.first_kv_head, position(r));
  }
  const int kv_head = job_.first_kv_head + h;
  const float* k = row(r) + std::size_t(shape_.n_heads + kv_head) * d_;
  const float* v = k + std::size_t(shape_.n_kv_heads) * d_;
  if (use_.statistic && job_.rule.statistic == ScanRule::Statistic::kKeyNorm && h == 0)
    head.statistic[slot] = -norm({k, std::size_t(d_)});
  if (use_.count && job_.rule.statistic == ScanRule::Statistic::kLastUse && h == 0)
    head.count[slot] = std::uint32_t(position(r));
  std::optional<int> angle = position(r);
  if (job_.positions == PositionMode::kCacheRelative) angle.reset();
  if (job_.positions == PositionMode::kRerotate) angle = slot;
  write_slot(head, slot, k, v, rope_, angle);
}

void UnitScan::note_key(int h) {
  std::vector<float> key(d_);
  job_.heads[h].read_key(n_slots_ - 1, key.data());
  job_.read_pages[h].append(key);
}

bool UnitScan::reads_all(int h) const {
  return job_.read_pages[h].n_pages() <= job_.read->n_pages || n_slots_ <= job_.read->budget_tokens;
}

// Nothing is evicted here, so slots are in order of position.
std::vector<KeyRange> UnitScan::chosen_slots(int h, int g, std::span<const float> q) const {
  const QuestPages& pages = job_.read_pages[h];
  std::vector<float> bounds = job_.read->group_max
                                  ? pages.group_upper_bounds(q)
                                  : pages.upper_bounds(q.subspan(std::size_t(g) * d_, d_));
  const auto positions = job_.heads[h].positions();
  const auto first = std::lower_bound(positions.begin(), positions.end(), first_seen(row_));
  const int first_slot = int(first - positions.begin());
  for (int page = 0; page < first_slot / job_.read->page_tokens; ++page)
    bounds[page] = -std::numeric_limits<float>::infinity();  // behind the window as a whole
  std::vector<KeyRange> slots;
  for (const std::int32_t page : choose_pages(bounds, job_.read->n_pages)) {
    const int begin = page * job_.read->page_tokens;
    slots.push_back({begin, std::min(n_slots_, begin + job_.read->page_tokens)});
  }
  keep_seen(slots, first_slot);
  return slots;
}

const HeadCache& UnitScan::ghosts_of(int h) const {
  static const HeadCache kNoGhosts;
  return job_.ghosts != nullptr ? job_.ghosts[h] : kNoGhosts;
}

void UnitScan::show_probe(int h, int r, const float* logits, const float* ghost_logits) {
  const HeadCache& ghosts = ghosts_of(h);
  const auto n_ghosts = std::size_t(ghosts.n_slots());
  for (int g = 0; g < group_; ++g) {
    job_.probe->attention_row({job_.layer,
                               job_.first_kv_head + h,
                               g,
                               position(r),
                               {logits + std::size_t(g) * n_slots_, std::size_t(n_slots_)},
                               job_.heads[h].positions(),
                               {ghost_logits + g * n_ghosts, n_ghosts},
                               ghosts.positions()});
  }
}

std::span<const float> UnitScan::in_usual_scale(std::span<const float> queries) {
  if (shape_.query_scale == 0.0F) return queries;
  const float scale = shape_.scale() * std::sqrt(float(d_));
  scaled_queries_.assign(queries.begin(), queries.end());
  for (float& q : scaled_queries_) q *= scale;
  return scaled_queries_;
}

void UnitScan::observe(int r) {
  if (!observes_) return;
  const int n_query_heads = job_.n_kv_heads * group_;
  if (job_.host != nullptr) {
    const UnitReader reader(job_.heads, job_.n_kv_heads);
    VisibleRow seen{job_.heads[0].positions(), probabilities_, n_query_heads, &reader};
    const float* q = row(r) + std::size_t(job_.first_kv_head) * group_ * d_;
    const float* k = row(r) + std::size_t(shape_.n_heads + job_.first_kv_head) * d_;
    seen.queries = in_usual_scale({q, std::size_t(n_query_heads) * d_});
    seen.keys = {k, std::size_t(job_.n_kv_heads) * d_};
    seen.values = {k + std::size_t(shape_.n_kv_heads) * d_, std::size_t(job_.n_kv_heads) * d_};
    seen.inverse_frequency = rope_.inverse_frequency;
    job_.host->observe(seen);
    return;
  }
  update_statistic(job_.rule, probabilities_, n_query_heads, job_.heads[0]);
}

void UnitScan::evict(int r) {
  if (job_.host != nullptr) {
    choose_host_victims();
  } else {
    choose_victims(job_.rule, position(r), job_.heads[0], victims_);
  }
  if (victims_.empty()) {
    if (job_.host != nullptr) compact_host();  // a selection took place
    return;
  }
  // Highest slot first, so that what moves into a hole is never itself a victim; the rule and the
  // host code agree on the order.
  std::sort(victims_.begin(), victims_.end(), std::greater<>());
  for (int h = 0; h < job_.n_kv_heads; ++h) {
    HeadCache& head = job_.heads[h];
    if (relative()) close_ranks(head);
    for (const int slot : victims_) {
      if (job_.ghosts != nullptr) append_ghost(job_.ghosts[h], head, slot);
      if (job_.probe != nullptr) {
        job_.probe->evicted(job_.layer, job_.first_kv_head + h, head.positions()[slot], slot,
                            head.n_slots() - 1);
      }
      head.remove_slot(slot);
    }
  }
  if (job_.host != nullptr) compact_host();
}

void UnitScan::choose_host_victims() {
  const UnitReader reader(job_.heads, job_.n_kv_heads);
  const std::vector<std::int32_t> keep = job_.host->select({job_.heads[0].positions(), &reader});
  victims_.clear();
  std::size_t next = 0;
  for (int slot = 0; slot < n_slots_; ++slot) {
    if (next < keep.size() && keep[next] == slot) {
      ++next;
    } else {
      victims_.push_back(slot);
    }
  }
}

void UnitScan::compact_host() {
  old_slot_of_.resize(n_slots_);
  std::iota(old_slot_of_.begin(), old_slot_of_.end(), 0);
  for (const int slot : victims_) {
    old_slot_of_[slot] = old_slot_of_.back();
    old_slot_of_.pop_back();
  }
  job_.host->compact(old_slot_of_);
}

// Every rank above a victim falls by one a victim; re-rotated keys turn with it.
void UnitScan::close_ranks(HeadCache& head) {
  const auto positions = head.positions();
  for (int slot = 0; slot < head.n_slots(); ++slot) {
    int steps = 0;
    for (const int victim : victims_) steps += positions[victim] < positions[slot] ? 1 : 0;
    if (steps == 0) continue;
    head.rank[slot] -= steps;
    if (job_.positions == PositionMode::kRerotate) turn_back_slot(head, slot, steps, rope_);
  }
}

KvBytes UnitScan::beyond_pages(int h) const {
  KvBytes beyond;
  const HeadCache& head = job_.heads[h];
  if (head.kivi() != nullptr) {
    const PageShape& shape = head.pool().shape();
    beyond.logical_bytes =
        head.logical_bytes() - head.n_slots() * std::int64_t(shape.token_bytes());
    beyond.physical_bytes =
        head.physical_bytes() - head.n_pages() * std::int64_t(shape.page_bytes());
    beyond.metadata_bytes = head.kivi()->bytes().metadata_bytes;
  }
  if (job_.read_pages != nullptr)
    beyond.metadata_bytes += std::int64_t(job_.read_pages[h].metadata_bytes());
  return beyond;
}

void UnitScan::record_visible(int r) {
  if (job_.steps == nullptr) return;
  for (int h = 0; h < job_.n_kv_heads; ++h) {
    StepSlots& step = job_.steps[std::size_t(h) * job_.n_rows + r];
    step.visible_slots = job_.heads[h].n_slots();
    step.visible_pages = job_.heads[h].n_pages();
    step.visible_beyond = beyond_pages(h);
  }
}

void UnitScan::record_resident(int r) {
  if (job_.steps == nullptr) return;
  for (int h = 0; h < job_.n_kv_heads; ++h) {
    StepSlots& step = job_.steps[std::size_t(h) * job_.n_rows + r];
    step.resident_slots = job_.heads[h].n_slots();
    step.resident_pages = job_.heads[h].n_pages();
    step.resident_beyond = beyond_pages(h);
  }
}

}  // namespace kvscope::cpu
