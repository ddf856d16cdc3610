// Scans whose rule is data: the caches are opened for the kernels, which leave what the rule
// leaves.
#include <algorithm>
#include <cassert>
#include <map>
#include <vector>

#include "runner/backend/cuda/device_backend.h"
#include "runner/backend/cuda/scan_plan.h"

namespace kvscope::cuda {
namespace {

// What a kernel can do alone. Probes, host code and quantisation by tokens want the host between
// rows.
bool is_data(const ScanJob& job) {
  return job.host == nullptr && job.probe == nullptr && !job.read && job.heads[0].kivi() == nullptr;
}

SlotPositions positions_of(PositionMode mode) {
  switch (mode) {
    case PositionMode::kCacheRelative:
      return SlotPositions::kCacheRelative;
    case PositionMode::kRerotate:
      return SlotPositions::kRerotate;
    case PositionMode::kAbsolute:
      break;
  }
  return SlotPositions::kAbsolute;
}

template <class T>
T* or_null(SharedVector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

std::size_t scratch_floats(const ScanUnit& unit, int group) {
  return std::size_t(unit.most_slots) * (unit.n_kv_heads * group + 1);
}

}  // namespace

void DeviceBackend::scan(const AttentionShape& shape, const RopeTable& rope,
                         std::span<const ScanJob> jobs) {
  // A launch takes units that are stored alike.
  std::map<const PagePool*, std::vector<const ScanJob*>> by_rule;
  std::vector<const ScanJob*> by_host;
  for (const ScanJob& job : jobs) {
    if (job.n_rows == 0) continue;
    if (is_data(job)) {
      by_rule[&job.heads[0].pool()].push_back(&job);
    } else {
      by_host.push_back(&job);
    }
  }
  for (const auto& [pool, same] : by_rule) scan_by_rule(shape, rope, same);
  if (!by_host.empty()) scan_by_host(shape, rope, by_host);
}

void DeviceBackend::scan_by_rule(const AttentionShape& shape, const RopeTable& rope,
                                 std::span<const ScanJob* const> jobs) {
  Uploads::Batch batch(uploads_);
  std::vector<ScanUnit> units;
  std::vector<int> left;
  std::size_t scratch = 0;
  int n_heads = 0;
  int most_slots = 0;
  for (const ScanJob* job : jobs) {
    ScanUnit unit;
    unit.n_kv_heads = job->n_kv_heads;
    unit.first_kv_head = job->first_kv_head;
    unit.layer = job->layer;
    unit.n_slots = job->heads[0].n_slots();
    unit.first_position = job->first_position;
    unit.n_rows = job->n_rows;
    unit.rows_before = job->rows_before;
    unit.rows_after = job->rows_after;
    unit.chunk = job->chunk;
    unit.positions = positions_of(job->positions);
    unit.rule = job->rule;
    const SlotCounts counts = count_slots(*job, unit.n_slots, job->steps);
    for (int h = 1; h < job->n_kv_heads && job->steps != nullptr; ++h)
      std::copy_n(job->steps, job->n_rows, job->steps + std::size_t(h) * job->n_rows);
    unit.most_slots = counts.most;
    left.push_back(counts.left);

    HeadCache::StateInUse use;
    use.statistic = job->rule.evicts() && keeps_statistic(job->rule.statistic);
    use.count = job->rule.evicts() && keeps_count(job->rule.statistic);
    use.priority = job->rule.evicts() && job->rule.victim == ScanRule::Victim::kPriority;
    use.rank = job->positions != PositionMode::kAbsolute;
    std::vector<ScanHead> heads;
    for (int h = 0; h < job->n_kv_heads; ++h) {
      HeadCache& head = job->heads[h];
      head.open_slots(counts.most, counts.slots_move, use);
      heads.push_back(
          {pages_of(head, counts.most, batch), head.mutable_positions(), or_null(head.rank)});
      use.statistic = use.count = use.priority = false;  // a layer's heads share one state
    }
    unit.heads = batch.add(heads);
    unit.statistic = or_null(job->heads[0].statistic);
    unit.count = or_null(job->heads[0].count);
    unit.priority = or_null(job->heads[0].priority);
    unit.qkv = job->qkv;
    unit.qkv_stride = job->qkv_stride;
    unit.out = job->out;
    unit.out_stride = job->out_stride;
    own(job->qkv, (job->n_rows - 1) * job->qkv_stride + shape.row_floats(), "projections");
    own(job->out, (job->n_rows - 1) * job->out_stride + std::size_t(shape.n_heads) * shape.head_dim,
        "attention");
    scratch += scratch_floats(unit, shape.group());
    unit.heads_before = n_heads;
    n_heads += unit.n_kv_heads;
    most_slots = std::max(most_slots, unit.most_slots);
    units.push_back(unit);
  }
  auto* floats = scratch_.get<float>(scratch);
  for (ScanUnit& unit : units) {
    unit.logits = floats;
    unit.victims = reinterpret_cast<std::int32_t*>(floats + std::size_t(unit.most_slots) *
                                                                unit.n_kv_heads * shape.group());
    floats += scratch_floats(unit, shape.group());
  }
  const ScanUnit* on_device = batch.add(units);
  batch.send();
  const ScanShape kernel_shape{shape.n_heads, shape.n_kv_heads,
                               layout_of(jobs[0]->heads[0].pool().shape()), rope_rows(rope)};
  const bool is_step =
      std::all_of(jobs.begin(), jobs.end(), [](const ScanJob* job) { return job->n_rows == 1; });
  if (is_step) {
    auto* partials = partials_.get<float>(
        decode_partial_floats(n_heads, shape.group(), shape.head_dim, most_slots));
    decode_step(on_device, int(units.size()), n_heads, most_slots, kernel_shape, partials,
                stream());
  } else {
    cuda::scan(on_device, int(units.size()), kernel_shape, stream());
  }
  launched();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (int h = 0; h < jobs[i]->n_kv_heads; ++h) jobs[i]->heads[h].close_slots(left[i]);
  }
}

}  // namespace kvscope::cuda
