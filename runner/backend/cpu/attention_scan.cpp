// The scan's attention on this machine. A decode step is a scan of one row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runner/backend/cpu/attend_selected.h"
#include "runner/backend/cpu/attention.h"
#include "runner/backend/cpu/page_kernels.h"
#include "runner/backend/cpu/slots.h"
#include "runner/backend/cpu/unit_scan.h"

namespace kvscope::cpu {

namespace {

class CpuUnitScan final : private UnitScan {
 public:
  CpuUnitScan(const AttentionShape& shape, const RopeTable& rope, const ScanJob& job)
      : UnitScan(shape, rope, job), q_(std::size_t(group()) * shape.head_dim), states_(group()) {}

  void run() {
    for (int r = 0; r < job().n_rows; ++r) {
      open_row(r);
      for (int h = 0; h < job().n_kv_heads; ++h) attend(h, r);
      close_row(r);
    }
  }

 private:
  void attend(int h, int r) {
    const HeadCache& head = job().heads[h];
    const int d = head_dim();
    if (job().probe != nullptr) logits_.resize(std::size_t(group()) * n_slots());
    const float scale = shape().scale();
    for (int g = 0; g < group(); ++g) {
      float* q = q_.data() + std::size_t(g) * d;
      rotate_row(rope(), query(h, g, r), query_angle(r), scale, q);
      std::fill_n(out(h, g, r), d, 0.0F);
      states_[g] = {q, out(h, g, r)};
      states_[g].first_seen = first_seen(r);
    }
    const std::int32_t* positions = leaves_window(r) ? head.positions().data() : nullptr;
    if (job().read && attend_pages(h, r)) return;
    block_max_.clear();
    for_each_block(head, n_slots(), [&](std::span<PageView> pages, int first) {
      if (job().positions == PositionMode::kCacheRelative) rotate_keys(head, pages, first);
      for (int g = 0; g < group(); ++g) {
        states_[g].live = std::min(kBlockPages * kPageSlots, n_slots() - first);
        if (job().probe != nullptr) states_[g].logits = logits_of(g) + first;
        if (observes()) states_[g].weights = probabilities_of(h, g) + first;
        states_[g].positions = positions == nullptr ? nullptr : positions + first;
      }
      if (sees_any()) {
        attend_block(states_, pages, d);
      } else {
        pass_over();
      }
      for (const QueryState& state : states_) {
        const bool seen = positions == nullptr || state.sum > 0.0F;
        block_max_.push_back(seen ? state.max : -std::numeric_limits<float>::infinity());
      }
    });
    for (int g = 0; g < group(); ++g) {
      const float inverse = 1.0F / states_[g].sum;
      scale_row(states_[g].out, d, inverse);
      if (observes()) normalise(g, inverse, probabilities_of(h, g));
    }
    if (job().probe != nullptr) attend_ghosts(h, r);
  }

  // Selection without eviction: each query head reads the pages that can matter to it. False: that
  // is all of them, and the ordinary attention is to run.
  bool attend_pages(int h, int r) {
    note_key(h);
    if (reads_all(h)) return false;
    std::vector<float> scratch;
    for (int g = 0; g < group(); ++g) {
      std::vector<float> z(n_slots());
      QueryState state;
      state.q = states_[g].q;
      for_each_block(job().heads[h], n_slots(), [&](std::span<const PageView> views, int first) {
        state.live = std::min(kBlockPages * kPageSlots, n_slots() - first);
        state.logits = z.data() + first;
        block_logits({&state, 1}, views, head_dim());
      });
      attend_selected(job().heads[h], z, chosen_slots(h, g, q_),
                      {out(h, g, r), std::size_t(head_dim())}, scratch);
    }
    return true;
  }

  // Of the block at hand; all queries of a row have the same window.
  bool sees_any() const {
    const QueryState& state = states_.front();
    if (state.positions == nullptr) return true;
    return std::any_of(state.positions, state.positions + state.live,
                       [&](std::int32_t position) { return position >= state.first_seen; });
  }
  void pass_over() {
    for (const QueryState& state : states_) {
      if (state.logits != nullptr) std::fill_n(state.logits, state.live, kUnseen);
      if (state.weights != nullptr) std::fill_n(state.weights, state.live, 0.0F);
    }
  }

  float* logits_of(int g) { return logits_.data() + std::size_t(g) * n_slots(); }

  // Each block's weights are relative to the largest logit up to it.
  void normalise(int g, float inverse_sum, float* weights) {
    for (int first = 0, block = 0; first < n_slots(); first += kBlockPages * kPageSlots, ++block) {
      const float below = block_max_[std::size_t(block) * group() + g] - states_[g].max;
      const float factor = below == 0.0F ? inverse_sum : std::exp(below) * inverse_sum;
      scale_row(weights + first, std::min(kBlockPages * kPageSlots, n_slots() - first), factor);
    }
  }

  void rotate_keys(const HeadCache& head, std::span<PageView> pages, int first) {
    const std::size_t page_floats = std::size_t(head_dim()) * kPageSlots;
    rotated_.resize(page_floats * kBlockPages);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      float* keys = rotated_.data() + i * page_floats;
      rotate_page(pages[i].keys, pages[i].dtype, head_dim(), rope(),
                  head.rank.data() + first + i * kPageSlots, pages[i].live, keys);
      pages[i].keys = reinterpret_cast<const std::byte*>(keys);
      pages[i].keys_rotated = true;
    }
  }

  void attend_ghosts(int h, int r) {
    const HeadCache& ghosts = ghosts_of(h);
    const int n_ghosts = ghosts.n_slots();
    ghost_logits_.resize(std::size_t(group()) * n_ghosts);
    for_each_block(ghosts, n_ghosts, [&](std::span<const PageView> pages, int first) {
      for (int g = 0; g < group(); ++g) {
        states_[g].live = std::min(kBlockPages * kPageSlots, n_ghosts - first);
        states_[g].logits = ghost_logits_.data() + std::size_t(g) * n_ghosts + first;
        states_[g].positions = leaves_window(r) ? ghosts.positions().data() + first : nullptr;
      }
      block_logits(states_, pages, head_dim());
    });
    show_probe(h, r, logits_.data(), ghost_logits_.data());
  }

  std::vector<float> q_;             // [group][head_dim]
  std::vector<QueryState> states_;   // [group]
  std::vector<float> logits_;        // [group][n_slots]
  std::vector<float> ghost_logits_;  // [group][n_ghosts]
  std::vector<float> block_max_;     // [blocks][group] largest logit up to the block's end
  std::vector<float> rotated_;       // [kBlockPages][head_dim][kPageSlots]
};

}  // namespace

void scan(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
          std::span<const ScanJob> jobs) {
  pool.parallel_for(jobs.size(),
                    [&](std::size_t i, int) { CpuUnitScan(shape, rope, jobs[i]).run(); });
}

}  // namespace kvscope::cpu
