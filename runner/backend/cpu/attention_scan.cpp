// The scan: row after row of one selection unit, with the policy's rule run in place
// (policies.md 1.2: append, attend, observe, select, evict). A decode step is a scan of one row.
// The same code runs the rule as data and the rule as a host callback.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "runner/backend/cpu/attend_selected.h"
#include "runner/backend/cpu/attention.h"
#include "runner/backend/cpu/page_kernels.h"
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

class UnitScan {
 public:
  UnitScan(const AttentionShape& shape, const RopeTable& rope, const ScanJob& job)
      : shape_(shape), rope_(rope), job_(job), d_(shape.head_dim), group_(shape.group()) {
    const bool has_rule = job.rule.evicts() && job.host == nullptr;
    use_.statistic = has_rule && keeps_statistic(job.rule.statistic);
    use_.count = has_rule && keeps_count(job.rule.statistic);
    use_.priority = has_rule && job.rule.victim == ScanRule::Victim::kPriority;
    observes_ =
        job.host != nullptr || (has_rule && job.rule.statistic != ScanRule::Statistic::kNone &&
                                job.rule.statistic != ScanRule::Statistic::kKeyNorm);
    q_.resize(std::size_t(group_) * d_);
    states_.resize(group_);
  }

  void run() {
    for (int r = 0; r < job_.n_rows; ++r) {
      n_slots_ = job_.heads[0].n_slots() + 1;
      for (int h = 0; h < job_.n_kv_heads; ++h) append(h, r);
      if (observes_) probabilities_.resize(std::size_t(job_.n_kv_heads) * group_ * n_slots_);
      for (int h = 0; h < job_.n_kv_heads; ++h) attend(h, r);
      observe(r);
      record_visible(r);
      const bool chunk_ends =
          (job_.rows_before + r + 1) % job_.chunk == 0 || r + 1 == job_.n_rows + job_.rows_after;
      if (chunk_ends && (job_.rule.evicts() || job_.host != nullptr)) evict(r);
      for (int h = 0; h < job_.n_kv_heads; ++h) job_.heads[h].advance_quantisation();
      record_resident(r);
    }
  }

 private:
  const float* row(int r) const { return job_.qkv + r * job_.qkv_stride; }
  int position(int r) const { return job_.first_position + r; }
  bool relative() const { return job_.positions != PositionMode::kAbsolute; }

  void append(int h, int r) {
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

  void attend(int h, int r) {
    const HeadCache& head = job_.heads[h];
    const int kv_head = job_.first_kv_head + h;
    if (job_.probe != nullptr) logits_.resize(std::size_t(group_) * n_slots_);
    const float scale = 1.0F / std::sqrt(float(d_));
    for (int g = 0; g < group_; ++g) {
      const std::size_t offset = std::size_t(kv_head * group_ + g) * d_;
      float* q = q_.data() + std::size_t(g) * d_;
      rotate_row(rope_, row(r) + offset, relative() ? n_slots_ - 1 : position(r), scale, q);
      float* out = job_.out + r * job_.out_stride + offset;
      std::fill_n(out, d_, 0.0F);
      states_[g] = {q, out};
    }
    if (job_.read && attend_pages(h, r)) return;
    block_max_.clear();
    for_each_block(head, n_slots_, [&](std::span<PageView> pages, int first) {
      if (job_.positions == PositionMode::kCacheRelative) rotate_keys(head, pages, first);
      for (int g = 0; g < group_; ++g) {
        states_[g].live = std::min(kBlockPages * kPageSlots, n_slots_ - first);
        if (job_.probe != nullptr) states_[g].logits = logits_of(g) + first;
        if (observes_) states_[g].weights = probabilities_of(h, g) + first;
      }
      attend_block(states_, pages, d_);
      for (int g = 0; g < group_; ++g) block_max_.push_back(states_[g].max);
    });
    for (int g = 0; g < group_; ++g) {
      const float inverse = 1.0F / states_[g].sum;
      scale_row(states_[g].out, d_, inverse);
      if (observes_) normalise(g, inverse, probabilities_of(h, g));
    }
    if (job_.probe != nullptr) show_probe(h, kv_head, r);
  }

  // Selection without eviction: each query head reads the pages that can matter to it. False: that
  // is all of them, and the ordinary attention is to run.
  bool attend_pages(int h, int r) {
    const int kv_head = job_.first_kv_head + h;
    QuestPages& pages = job_.read_pages[h];
    std::vector<float> key(d_);
    job_.heads[h].read_key(n_slots_ - 1, key.data());
    pages.append(key);
    if (pages.n_pages() <= job_.read->n_pages || n_slots_ <= job_.read->budget_tokens) return false;
    const std::vector<float> of_group =
        job_.read->group_max ? pages.group_upper_bounds(q_) : std::vector<float>();
    std::vector<float> scratch;
    for (int g = 0; g < group_; ++g) {
      const std::span<const float> q(states_[g].q, std::size_t(d_));
      const std::vector<std::int32_t> chosen =
          choose_pages(job_.read->group_max ? of_group : pages.upper_bounds(q), job_.read->n_pages);
      std::vector<KeyRange> slots;
      for (const std::int32_t page : chosen) {
        const int first = page * job_.read->page_tokens;
        slots.push_back({first, std::min(n_slots_, first + job_.read->page_tokens)});
      }
      std::vector<float> z(n_slots_);
      QueryState state;
      state.q = states_[g].q;
      for_each_block(job_.heads[h], n_slots_, [&](std::span<const PageView> views, int first) {
        state.live = std::min(kBlockPages * kPageSlots, n_slots_ - first);
        state.logits = z.data() + first;
        block_logits({&state, 1}, views, d_);
      });
      const std::size_t offset = std::size_t(kv_head * group_ + g) * d_;
      attend_selected(job_.heads[h], z, slots,
                      {job_.out + r * job_.out_stride + offset, std::size_t(d_)}, scratch);
    }
    return true;
  }

  float* logits_of(int g) { return logits_.data() + std::size_t(g) * n_slots_; }
  float* probabilities_of(int h, int g) {
    return probabilities_.data() + std::size_t(h * group_ + g) * n_slots_;
  }

  // Each block's weights are relative to the largest logit up to it.
  void normalise(int g, float inverse_sum, float* weights) {
    for (int first = 0, block = 0; first < n_slots_; first += kBlockPages * kPageSlots, ++block) {
      const float below = block_max_[std::size_t(block) * group_ + g] - states_[g].max;
      const float factor = below == 0.0F ? inverse_sum : std::exp(below) * inverse_sum;
      scale_row(weights + first, std::min(kBlockPages * kPageSlots, n_slots_ - first), factor);
    }
  }

  void rotate_keys(const HeadCache& head, std::span<PageView> pages, int first) {
    const std::size_t page_floats = std::size_t(d_) * kPageSlots;
    rotated_.resize(page_floats * kBlockPages);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      float* keys = rotated_.data() + i * page_floats;
      rotate_page(pages[i].keys, pages[i].dtype, d_, rope_,
                  head.rank.data() + first + i * kPageSlots, pages[i].live, keys);
      pages[i].keys = reinterpret_cast<const std::byte*>(keys);
      pages[i].keys_rotated = true;
    }
  }

  void show_probe(int h, int kv_head, int r) {
    static const HeadCache kNoGhosts;
    const HeadCache& ghosts = job_.ghosts != nullptr ? job_.ghosts[h] : kNoGhosts;
    const int n_ghosts = ghosts.n_slots();
    ghost_logits_.resize(std::size_t(group_) * n_ghosts);
    for_each_block(ghosts, n_ghosts, [&](std::span<const PageView> pages, int first) {
      for (int g = 0; g < group_; ++g) {
        states_[g].live = std::min(kBlockPages * kPageSlots, n_ghosts - first);
        states_[g].logits = ghost_logits_.data() + std::size_t(g) * n_ghosts + first;
      }
      block_logits(states_, pages, d_);
    });
    for (int g = 0; g < group_; ++g) {
      job_.probe->attention_row(
          {job_.layer,
           kv_head,
           g,
           position(r),
           {logits_of(g), std::size_t(n_slots_)},
           job_.heads[h].positions(),
           {ghost_logits_.data() + std::size_t(g) * n_ghosts, std::size_t(n_ghosts)},
           ghosts.positions()});
    }
  }

  void observe(int r) {
    if (!observes_) return;
    const int n_query_heads = job_.n_kv_heads * group_;
    if (job_.host != nullptr) {
      const UnitReader reader(job_.heads, job_.n_kv_heads);
      VisibleRow seen{job_.heads[0].positions(), probabilities_, n_query_heads, &reader};
      const float* q = row(r) + std::size_t(job_.first_kv_head) * group_ * d_;
      const float* k = row(r) + std::size_t(shape_.n_heads + job_.first_kv_head) * d_;
      seen.queries = {q, std::size_t(n_query_heads) * d_};
      seen.keys = {k, std::size_t(job_.n_kv_heads) * d_};
      seen.values = {k + std::size_t(shape_.n_kv_heads) * d_, std::size_t(job_.n_kv_heads) * d_};
      seen.inverse_frequency = rope_.inverse_frequency;
      job_.host->observe(seen);
      return;
    }
    update_statistic(job_.rule, probabilities_, n_query_heads, job_.heads[0]);
  }

  void evict(int r) {
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

  void choose_host_victims() {
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

  void compact_host() {
    old_slot_of_.resize(n_slots_);
    std::iota(old_slot_of_.begin(), old_slot_of_.end(), 0);
    for (const int slot : victims_) {
      old_slot_of_[slot] = old_slot_of_.back();
      old_slot_of_.pop_back();
    }
    job_.host->compact(old_slot_of_);
  }

  // Every rank above a victim falls by one a victim; re-rotated keys turn with it.
  void close_ranks(HeadCache& head) {
    const auto positions = head.positions();
    for (int slot = 0; slot < head.n_slots(); ++slot) {
      int steps = 0;
      for (const int victim : victims_) steps += positions[victim] < positions[slot] ? 1 : 0;
      if (steps == 0) continue;
      head.rank[slot] -= steps;
      if (job_.positions == PositionMode::kRerotate) turn_back_slot(head, slot, steps, rope_);
    }
  }

  KvBytes beyond_pages(int h) const {
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

  void record_visible(int r) {
    if (job_.steps == nullptr) return;
    for (int h = 0; h < job_.n_kv_heads; ++h) {
      StepSlots& step = job_.steps[std::size_t(h) * job_.n_rows + r];
      step.visible_slots = job_.heads[h].n_slots();
      step.visible_pages = job_.heads[h].n_pages();
      step.visible_beyond = beyond_pages(h);
    }
  }
  void record_resident(int r) {
    if (job_.steps == nullptr) return;
    for (int h = 0; h < job_.n_kv_heads; ++h) {
      StepSlots& step = job_.steps[std::size_t(h) * job_.n_rows + r];
      step.resident_slots = job_.heads[h].n_slots();
      step.resident_pages = job_.heads[h].n_pages();
      step.resident_beyond = beyond_pages(h);
    }
  }

  const AttentionShape& shape_;
  const RopeTable& rope_;
  const ScanJob& job_;
  const int d_;
  const int group_;
  HeadCache::StateInUse use_;
  bool observes_ = false;
  int n_slots_ = 0;                   // visible in this row
  std::vector<float> q_;              // [group][head_dim]
  std::vector<QueryState> states_;    // [group]
  std::vector<float> logits_;         // [group][n_slots]
  std::vector<float> ghost_logits_;   // [group][n_ghosts]
  std::vector<float> probabilities_;  // [n_kv_heads * group][n_slots]
  std::vector<float> block_max_;      // [blocks][group] largest logit up to the block's end
  std::vector<float> rotated_;        // [kBlockPages][head_dim][kPageSlots]
  std::vector<int> victims_;
  std::vector<std::int32_t> old_slot_of_;
};

}  // namespace

void scan(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
          std::span<const ScanJob> jobs) {
  pool.parallel_for(jobs.size(), [&](std::size_t i, int) { UnitScan(shape, rope, jobs[i]).run(); });
}

}  // namespace kvscope::cpu
