// Prompt rows: what the engine asks, as launches of the kernels in prompt_attention.h and rows.h.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <vector>

#include "runner/backend/cuda/device_backend.h"
#include "runner/backend/cuda/gather.h"
#include "runner/backend/cuda/rows.h"

namespace kvscope::cuda {
namespace {

// Rows whose turned queries are held at once.
constexpr int kQueryRows = 2048;

HeadCounts counts_of(const AttentionShape& shape) { return {shape.n_heads, shape.n_kv_heads}; }

GatherAngle angle_of(PositionMode positions) {
  switch (positions) {
    case PositionMode::kCacheRelative:
      return GatherAngle::kNone;
    case PositionMode::kRerotate:
      return GatherAngle::kOrder;
    case PositionMode::kAbsolute:
      break;
  }
  return GatherAngle::kPosition;
}

}  // namespace

std::byte* const* DeviceBackend::pages_of(const HeadCache& head, int n_slots,
                                          Uploads::Batch& batch) {
  std::vector<std::byte*> pages;
  pages.reserve((n_slots + kPageSlots - 1) / kPageSlots);
  for (int slot = 0; slot < n_slots; slot += kPageSlots)
    pages.push_back(head.pool().keys(head.page_of(slot)));
  return batch.add(pages);
}

const HeadSlots* DeviceBackend::head_slots(const HeadCache* heads, int n, Uploads::Batch& batch) {
  std::vector<HeadSlots> slots;
  for (int h = 0; h < n; ++h) {
    const int n_slots = heads[h].n_slots();
    slots.push_back({pages_of(heads[h], n_slots, batch), nullptr, n_slots});
  }
  return batch.add(slots);
}

const float* DeviceBackend::turned_queries(const AttentionShape& shape, const RopeTable& rope,
                                           const float* qkv, int first_row, int n_rows,
                                           SlotFormat format, int row_0_angle) {
  const std::size_t floats = std::size_t(n_rows) * shape.n_heads * shape.head_dim;
  QueryRows job;
  job.qkv = own(qkv + first_row * shape.row_floats(), n_rows * shape.row_floats(), "projections");
  job.row_floats = shape.row_floats();
  job.n_heads = shape.n_heads;
  job.n_rows = n_rows;
  job.first_angle = row_0_angle + first_row;
  job.scale = 1.0F / std::sqrt(float(shape.head_dim));
  job.round_to_bf16 = format == SlotFormat::kBF16;
  job.out = queries_.get<float>(floats);
  rotate_queries(job, shape.head_dim, rope_rows(rope), stream());
  return job.out;
}

void DeviceBackend::attend_dense(const AttentionShape& shape, const RopeTable& rope,
                                 const DenseJob& job) {
  if (job.n_rows == 0) return;
  const int slots_before = job.heads[0].n_slots();
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    job.heads[h].open_slots(slots_before + job.n_rows, false, {});
    job.heads[h].write_positions(slots_before, job.first_position);
  }
  const PageLayout layout = layout_of(job.heads[0].pool().shape());
  const std::size_t row = std::size_t(shape.n_heads) * shape.head_dim;
  Uploads::Batch batch(uploads_);
  const HeadSlots* heads = head_slots(job.heads, shape.n_kv_heads, batch);
  batch.send();
  AppendRows append;
  append.heads = heads;
  append.qkv = own(job.qkv, job.n_rows * shape.row_floats(), "projections");
  append.row_floats = int(shape.row_floats());
  append.n_heads = shape.n_heads;
  append.n_kv_heads = shape.n_kv_heads;
  append.n_rows = job.n_rows;
  append.first_slot = slots_before;
  append.first_position = job.first_position;
  append_rows(append, layout, rope_rows(rope), stream());
  own(job.out, job.n_rows * row, "attention");
  if (job.lse != nullptr) own(job.lse, std::size_t(shape.n_heads) * job.n_rows, "log-sum-exps");
  for (int first = job.n_known; first < job.n_rows; first += kQueryRows) {
    DenseRows dense;
    dense.n_rows = std::min(kQueryRows, job.n_rows - first);
    dense.heads = heads;
    // Positions of rows are consecutive: row r of the job stands at first_position + r.
    dense.q = turned_queries(shape, rope, job.qkv, first, dense.n_rows, layout.format,
                             job.first_position);
    dense.out = job.out + first * row;
    dense.lse = job.lse == nullptr ? nullptr : job.lse + first;
    dense.lse_stride = std::size_t(job.n_rows);
    dense.counts = counts_of(shape);
    dense.slots_before = slots_before + first;
    cuda::attend_dense(dense, layout, stream());
  }
  launched();
  if (job.heads[0].kivi() == nullptr) return;
  sync();
  for (int h = 0; h < shape.n_kv_heads; ++h) job.heads[h].advance_quantisation();
}

void DeviceBackend::attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                                  const SparseJob& job) {
  constexpr int kRows = 256;
  const PageLayout layout = layout_of(job.heads[0].pool().shape());
  const int d = shape.head_dim;
  for (int first = 0; first < job.n_rows; first += kRows) {
    const int n = std::min(kRows, job.n_rows - first);
    std::vector<std::int32_t> head_of_query;
    std::vector<SlotRange> ranges;
    std::vector<std::int32_t> first_range{0};
    std::vector<float*> out;
    std::vector<KeyRange> of_row;
    for (int r = first; r < first + n; ++r) {
      for (int head = 0; head < shape.n_heads; ++head) {
        job.index[head]->key_ranges(r, of_row);
        for (const KeyRange& range : of_row) ranges.push_back({range.begin, range.end});
        first_range.push_back(std::int32_t(ranges.size()));
        head_of_query.push_back(head / shape.group());
        out.push_back(job.out + (std::size_t(r) * shape.n_heads + head) * d);
      }
    }
    Uploads::Batch batch(uploads_);
    SelectedRows selected;
    selected.heads = head_slots(job.heads, shape.n_kv_heads, batch);
    selected.head_of_query = batch.add(head_of_query);
    selected.ranges = batch.add(ranges);
    selected.first_range = batch.add(first_range);
    selected.out = batch.add(out);
    selected.n_queries = n * shape.n_heads;
    batch.send();
    selected.q = turned_queries(shape, rope, job.qkv, first, n, layout.format, 0);
    own(job.out, std::size_t(job.n_rows) * shape.n_heads * d, "attention");
    attend_selected(selected, layout, stream());
    launched();
  }
}

void DeviceBackend::column_weights(const AttentionShape& shape, const RopeTable& rope,
                                   const ColumnWeightsJob& job) {
  const int first =
      job.need.rows == PromptNeed::Rows::kLast ? std::max(0, job.n_rows - job.need.last_rows) : 0;
  const int n_used = job.n_rows - first;
  std::vector<float> row_weight(n_used);
  double weight = job.need.mean ? 1.0 / n_used : 1.0;
  for (int r = n_used - 1; r >= 0; --r) {
    row_weight[r] = float(weight);
    weight *= double(job.need.decay);
  }
  const PageLayout layout = layout_of(job.heads[0].pool().shape());
  const std::size_t n_out = std::size_t(shape.n_heads) * job.n_rows;
  Uploads::Batch batch(uploads_);
  ColumnWeights columns;
  columns.heads = head_slots(job.heads, shape.n_kv_heads, batch);
  columns.row_weight = batch.add(row_weight);
  batch.send();
  // All rows at once: a column's sum runs over them in order.
  columns.q = turned_queries(shape, rope, job.qkv, first, n_used, layout.format, 0);
  columns.lse = own(job.lse, n_out, "log-sum-exps");
  columns.out = results_.get<float>(n_out);
  columns.counts = counts_of(shape);
  columns.n_rows = n_used;
  columns.first_row = first;
  columns.n_prompt = job.n_rows;
  cuda::column_weights(columns, layout, stream());
  download(static_cast<const float*>(columns.out), std::span<float>(job.out, n_out));
}

void DeviceBackend::attention_rows(const AttentionShape& shape, const RopeTable& rope,
                                   const AttentionRowsJob& job) {
  const PageLayout layout = layout_of(job.heads[0].pool().shape());
  const std::size_t n_out = std::size_t(job.n_rows) * shape.n_heads * job.n_prompt;
  Uploads::Batch batch(uploads_);
  AttentionRows rows;
  rows.heads = head_slots(job.heads, shape.n_kv_heads, batch);
  batch.send();
  rows.q = turned_queries(shape, rope, job.qkv, job.first_row, job.n_rows, layout.format, 0);
  rows.lse = own(job.lse, std::size_t(shape.n_heads) * job.n_prompt, "log-sum-exps");
  rows.out = results_.get<float>(n_out);
  gpu_check(cudaMemsetAsync(rows.out, 0, n_out * sizeof(float), stream()), "cudaMemsetAsync");
  rows.counts = counts_of(shape);
  rows.n_rows = job.n_rows;
  rows.first_row = job.first_row;
  rows.n_prompt = job.n_prompt;
  cuda::attention_rows(rows, layout, stream());
  download(static_cast<const float*>(rows.out), std::span<float>(job.out, n_out));
}

void DeviceBackend::gather(const AttentionShape& shape, const RopeTable& rope,
                           std::span<const GatherJob> jobs) {
  // Caches stored alike go together.
  std::map<const PagePool*, std::vector<GatherHead>> by_pool;
  Uploads::Batch batch(uploads_);
  const auto add = [&](HeadCache& head, int kv_head, std::span<const std::int32_t> positions,
                       GatherAngle angle) {
    const int first_slot = head.n_slots();
    head.open_slots(first_slot + int(positions.size()), false, {});
    head.write_positions(first_slot, positions);
    by_pool[&head.pool()].push_back({pages_of(head, head.n_slots(), batch), batch.add(positions),
                                     int(positions.size()), first_slot, kv_head, angle});
  };
  for (const GatherJob& job : jobs) {
    add(*job.head, job.kv_head, job.keep, angle_of(job.positions));
  }
  for (const auto& [pool, heads] : by_pool) {
    GatherRows rows;
    rows.heads = batch.add(heads);
    rows.n_jobs = int(heads.size());
    for (const GatherHead& head : heads) rows.most = std::max(rows.most, head.n);
    // Jobs of one call are about one prompt.
    rows.qkv = own(jobs[0].qkv, jobs[0].n_rows * shape.row_floats(), "projections");
    rows.row_floats = shape.row_floats();
    rows.n_heads = shape.n_heads;
    rows.n_kv_heads = shape.n_kv_heads;
    batch.send();
    gather_rows(rows, layout_of(pool->shape()), rope_rows(rope), stream());
  }
  launched();
  if (std::none_of(jobs.begin(), jobs.end(),
                   [](const GatherJob& job) { return job.head->kivi() != nullptr; }))
    return;
  sync();
  for (const GatherJob& job : jobs) job.head->advance_quantisation();
}

}  // namespace kvscope::cuda
