// Dense causal attention, statistics over prompt rows, and the gather of what an arm keeps.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "runner/backend/cpu/attend_selected.h"
#include "runner/backend/cpu/attention.h"
#include "runner/backend/cpu/page_kernels.h"
#include "runner/backend/cpu/slots.h"

namespace kvscope::cpu {

namespace {

// Rows a task advances together over each block of pages: 8 rows × a group of 3 heads keep queries,
// outputs and a page within 32 KiB.
constexpr int kTileRows = 8;
constexpr int kWeightSlots = kBlockPages * kPageSlots;

struct RowLayout {  // of one row of raw projections
  const AttentionShape& shape;
  std::size_t query(int head) const { return std::size_t(head) * shape.head_dim; }
  std::size_t key(int kv_head) const {
    return std::size_t(shape.n_heads + kv_head) * shape.head_dim;
  }
  std::size_t value(int kv_head) const {
    return std::size_t(shape.n_heads + shape.n_kv_heads + kv_head) * shape.head_dim;
  }
};

// The first of a dense cache's slots (in order of position, from 0) that the row of slot u sees.
int first_slot_seen(const AttentionShape& shape, int u) { return std::max(0, shape.first_seen(u)); }

// Lets a query see only its window of the block that begins at slot `first`.
void see_window(const AttentionShape& shape, const HeadCache& head, int first, int u,
                QueryState& state) {
  if (shape.window == 0) return;
  state.positions = head.positions().data() + first;
  state.first_seen = head.positions()[std::size_t(first_slot_seen(shape, u))];
}

void attend_tile(const AttentionShape& shape, const RopeTable& rope, const DenseJob& job,
                 int kv_head, int begin, int end, int slots_before) {
  const RowLayout layout{shape};
  const int d = shape.head_dim;
  const int group = shape.group();
  const auto out_stride = std::size_t(shape.n_heads) * d;
  std::vector<float> q(std::size_t(end - begin) * group * d);
  std::vector<QueryState> states(std::size_t(end - begin) * group);
  for (int r = begin; r < end; ++r) {
    for (int g = 0; g < group; ++g) {
      const std::size_t i = std::size_t(r - begin) * group + g;
      const int head = kv_head * group + g;
      rotate_row(rope, job.qkv + r * shape.row_floats() + layout.query(head),
                 job.first_position + r, shape.scale(), q.data() + i * d);
      states[i].q = q.data() + i * d;
      states[i].out = job.out + r * out_stride + std::size_t(head) * d;
      std::fill_n(states[i].out, d, 0.0F);
    }
  }
  for_each_block(
      job.heads[kv_head], slots_before + end,
      [&](std::span<const PageView> pages, int first) {
        // Rows whose last visible slot lies before the block have done.
        const int first_row = std::max(begin, first - slots_before);
        int last_row = end;  // and those from here on have it behind their window
        while (shape.window > 0 && last_row > first_row &&
               first_slot_seen(shape, slots_before + last_row - 1) >= first + kWeightSlots)
          --last_row;
        const std::span<QueryState> seeing = std::span(states).subspan(
            std::size_t(first_row - begin) * group, std::size_t(last_row - first_row) * group);
        for (int r = first_row; r < last_row; ++r) {
          const int visible = std::min(kWeightSlots, slots_before + r + 1 - first);
          for (int g = 0; g < group; ++g) {
            QueryState& state = seeing[std::size_t(r - first_row) * group + g];
            state.live = visible;
            see_window(shape, job.heads[kv_head], first, slots_before + r, state);
          }
        }
        attend_block(seeing, pages, d);
      },
      first_slot_seen(shape, slots_before + begin));
  for (int r = begin; r < end; ++r) {
    const std::span<QueryState> row(states.data() + std::size_t(r - begin) * group, group);
    for (int g = 0; g < group; ++g) {
      scale_row(row[g].out, d, 1.0F / row[g].sum);
      if (job.lse != nullptr) {
        job.lse[std::size_t(kv_head * group + g) * job.n_rows + r] =
            row[g].max + float(std::log(double(row[g].sum)));
      }
    }
  }
}

}  // namespace

void attend_dense(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                  const DenseJob& job) {
  const RowLayout layout{shape};
  const int slots_before = job.heads[0].n_slots();
  pool.parallel_for(shape.n_kv_heads, [&](std::size_t h, int) {
    HeadCache& head = job.heads[h];
    assert(head.n_slots() == slots_before);
    for (int r = 0; r < job.n_rows; ++r) {
      const float* row = job.qkv + r * shape.row_floats();
      const int slot = head.append_slot(job.first_position + r, {});
      write_slot(head, slot, row + layout.key(int(h)), row + layout.value(int(h)), rope,
                 job.first_position + r);
    }
  });
  const int tiles = (job.n_rows - job.n_known + kTileRows - 1) / kTileRows;
  pool.parallel_for(std::size_t(tiles) * shape.n_kv_heads, [&](std::size_t i, int) {
    const int tile = tiles - 1 - int(i) / shape.n_kv_heads;  // the longest first, for balance
    const int first = job.n_known + tile * kTileRows;
    attend_tile(shape, rope, job, int(i) % shape.n_kv_heads, first,
                std::min(job.n_rows, first + kTileRows), slots_before);
  });
  for (int h = 0; h < shape.n_kv_heads; ++h) job.heads[h].advance_quantisation();
}

void attend_sparse(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                   const SparseJob& job) {
  const RowLayout layout{shape};
  const int d = shape.head_dim;
  const auto out_stride = std::size_t(shape.n_heads) * d;
  pool.parallel_for(std::size_t(job.n_rows) * shape.n_heads, [&](std::size_t i, int) {
    const int head = int(i) % shape.n_heads;
    const int u = job.n_rows - 1 - int(i) / shape.n_heads;  // the longest first, for balance
    const HeadCache& cache = job.heads[head / shape.group()];
    std::vector<float> q(d);
    rotate_row(rope, job.qkv + u * shape.row_floats() + layout.query(head), u, shape.scale(),
               q.data());
    std::vector<float> z(u + 1);
    QueryState state;
    state.q = q.data();
    for_each_block(cache, u + 1, [&](std::span<const PageView> pages, int first) {
      state.live = std::min(kWeightSlots, u + 1 - first);
      state.logits = z.data() + first;
      block_logits({&state, 1}, pages, d);
    });
    std::vector<KeyRange> ranges;
    job.index[head]->key_ranges(u, ranges);
    keep_seen(ranges, first_slot_seen(shape, u));
    std::vector<float> scratch;
    attend_selected(cache, z, ranges,
                    {job.out + u * out_stride + std::size_t(head) * d, std::size_t(d)}, scratch);
  });
}

void column_weights(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                    const ColumnWeightsJob& job) {
  const RowLayout layout{shape};
  const int d = shape.head_dim;
  const int group = shape.group();
  const int first =
      job.need.rows == PromptNeed::Rows::kLast ? std::max(0, job.n_rows - job.need.last_rows) : 0;
  const int n_used = job.n_rows - first;
  std::vector<float> q(std::size_t(n_used) * shape.n_heads * d);  // [n_used][n_heads][head_dim]
  pool.parallel_for(n_used, [&](std::size_t r, int) {
    for (int head = 0; head < shape.n_heads; ++head) {
      rotate_row(rope, job.qkv + (first + r) * shape.row_floats() + layout.query(head),
                 first + int(r), shape.scale(), q.data() + (r * shape.n_heads + head) * d);
    }
  });
  std::vector<float> row_weight(n_used);
  double weight = job.need.mean ? 1.0 / n_used : 1.0;
  for (int r = n_used - 1; r >= 0; --r) {
    row_weight[r] = float(weight);
    weight *= double(job.need.decay);
  }
  const int n_blocks = (job.n_rows + kWeightSlots - 1) / kWeightSlots;
  pool.parallel_for(std::size_t(n_blocks) * shape.n_kv_heads, [&](std::size_t i, int) {
    const int kv_head = int(i) % shape.n_kv_heads;
    const int first_slot =
        int(i) / shape.n_kv_heads * kWeightSlots;  // the first: seen by most rows
    const int n_slots = std::min(kWeightSlots, job.n_rows - first_slot);
    BlockPages block;
    const std::span<const PageView> pages =
        block.show(job.heads[kv_head], first_slot, first_slot + n_slots);
    std::vector<float> sums(std::size_t(group) * kWeightSlots, 0.0F);
    std::vector<float> z(std::size_t(kTileRows) * group * kWeightSlots);
    std::vector<QueryState> states(std::size_t(kTileRows) * group);
    // Rows from here on have the whole block behind their window.
    const int end_row = shape.window > 0
                            ? std::min(job.n_rows, first_slot + n_slots + shape.window - 1)
                            : job.n_rows;
    for (int begin = std::max(first, first_slot); begin < end_row; begin += kTileRows) {
      const int end = std::min(end_row, begin + kTileRows);
      std::size_t n = 0;
      for (int u = begin; u < end; ++u) {
        for (int g = 0; g < group; ++g, ++n) {
          states[n].q =
              q.data() + (std::size_t(u - first) * shape.n_heads + kv_head * group + g) * d;
          states[n].live = std::min(n_slots, u - first_slot + 1);
          states[n].logits = z.data() + n * kWeightSlots;
          see_window(shape, job.heads[kv_head], first_slot, u, states[n]);
        }
      }
      block_logits({states.data(), n}, pages, d);
      for (std::size_t k = 0; k < n; ++k) {
        const int u = begin + int(k) / group;
        const int g = int(k) % group;
        accumulate_weights({states[k].logits, std::size_t(states[k].live)},
                           job.lse[std::size_t(kv_head * group + g) * job.n_rows + u],
                           row_weight[u - first], sums.data() + std::size_t(g) * kWeightSlots);
      }
    }
    for (int g = 0; g < group; ++g) {
      std::copy_n(sums.data() + std::size_t(g) * kWeightSlots, n_slots,
                  job.out + std::size_t(kv_head * group + g) * job.n_rows + first_slot);
    }
  });
}

void attention_rows(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                    const AttentionRowsJob& job) {
  const RowLayout layout{shape};
  const int d = shape.head_dim;
  const int group = shape.group();
  pool.parallel_for(std::size_t(job.n_rows) * shape.n_kv_heads, [&](std::size_t i, int) {
    const int kv_head = int(i) % shape.n_kv_heads;
    const int r = int(i) / shape.n_kv_heads;
    const int u = job.first_row + r;
    std::vector<float> q(std::size_t(group) * d);
    std::vector<float> z(std::size_t(group) * kWeightSlots);
    std::vector<QueryState> states(group);
    for (int g = 0; g < group; ++g) {
      rotate_row(rope, job.qkv + u * shape.row_floats() + layout.query(kv_head * group + g), u,
                 shape.scale(), q.data() + std::size_t(g) * d);
    }
    for_each_block(job.heads[kv_head], u + 1, [&](std::span<const PageView> pages, int first) {
      const int live = std::min(kWeightSlots, u + 1 - first);
      for (int g = 0; g < group; ++g) {
        states[g].q = q.data() + std::size_t(g) * d;
        states[g].live = live;
        states[g].logits = z.data() + std::size_t(g) * kWeightSlots;
        see_window(shape, job.heads[kv_head], first, u, states[g]);
      }
      block_logits(states, pages, d);
      for (int g = 0; g < group; ++g) {
        const std::size_t head = std::size_t(kv_head) * group + g;
        float* out = job.out + (std::size_t(r) * shape.n_heads + head) * job.n_prompt + first;
        std::fill_n(out, live, 0.0F);
        accumulate_weights({states[g].logits, std::size_t(live)}, job.lse[head * job.n_prompt + u],
                           1.0F, out);
      }
    });
  });
}

void gather(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
            std::span<const GatherJob> jobs) {
  const RowLayout layout{shape};
  pool.parallel_for(jobs.size(), [&](std::size_t i, int) {
    const GatherJob& job = jobs[i];
    const int first_slot = job.head->n_slots();
    job.head->append_slots(job.keep);
    std::size_t next = 0;
    for (int position = 0; position < job.n_rows; ++position) {
      const float* row = job.qkv + position * shape.row_floats();
      const float* k = row + layout.key(job.kv_head);
      const float* v = row + layout.value(job.kv_head);
      const bool kept = next < job.keep.size() && job.keep[next] == position;
      if (kept) {
        std::optional<int> angle = position;
        if (job.positions == PositionMode::kCacheRelative) angle.reset();
        if (job.positions == PositionMode::kRerotate) angle = int(next);
        write_slot(*job.head, first_slot + int(next), k, v, rope, angle);
        ++next;
      } else if (job.ghosts != nullptr) {
        const int slot = job.ghosts->append_slot(position, {});
        write_slot(*job.ghosts, slot, k, v, rope, position);
      }
    }
    job.head->advance_quantisation();  // the prompt's rows have attended, in full precision
  });
}

}  // namespace kvscope::cpu
