// Selection units on the device beside the CPU's: the same start, rows and rule on both sides.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/cuda/scan.h"
#include "runner/cache/page_slots.h"
#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/device_pages.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda::testing {

// Rows of projections of a layer and the outputs of their attention.
struct LayerRows {
  AttentionShape shape;
  std::vector<float> qkv;  // [n][row_floats]
  int n = 0;
  DeviceArray<float> device_qkv;
  DeviceArray<float> out;  // [n][n_heads · head_dim]

  LayerRows(AttentionShape s, std::vector<float> rows)
      : shape(s),
        qkv(std::move(rows)),
        n(int(qkv.size() / s.row_floats())),
        device_qkv(qkv),
        out(n * out_stride()) {}
  std::size_t out_stride() const { return std::size_t(shape.n_heads) * shape.head_dim; }
  // 0: queries, 1: keys, 2: values
  float* part(int row, int which, int head) {
    const int first = which == 0   ? 0
                      : which == 1 ? shape.n_heads
                                   : shape.n_heads + shape.n_kv_heads;
    return qkv.data() + row * shape.row_floats() + std::size_t(first + head) * shape.head_dim;
  }
};

inline std::vector<float> random_rows(AttentionShape shape, int n, float scale, unsigned seed) {
  return random_floats(n * shape.row_floats(), scale, seed);
}

// What is alike for the units of a case.
struct UnitKind {
  PageShape page;
  PositionMode positions = PositionMode::kAbsolute;
  ScanRule rule;
  int chunk = 1;
  int rows_before = 0;
  int rows_after = 0;
  int first_position = 0;  // of the first row
};

// The state of a unit's slots, on either side.
struct UnitState {
  std::vector<std::vector<std::int32_t>> positions;  // [n_kv_heads][n_slots]
  std::vector<std::vector<std::int32_t>> rank;
  std::vector<std::vector<std::byte>> slots;  // [n_kv_heads] bytes of all slots
  std::vector<float> statistic;
  std::vector<std::uint32_t> count;
  std::vector<std::uint64_t> priority;
};

// A unit as the CPU holds it.
struct HostUnit {
  std::unique_ptr<PagePool> pool;
  std::vector<HeadCache> heads;

  HostUnit(const PageShape& page, int n_kv_heads)
      : pool(std::make_unique<PagePool>(page)), heads(n_kv_heads, HeadCache(pool.get())) {}

  UnitState state() const {
    UnitState state;
    for (const HeadCache& head : heads) {
      const auto positions = head.positions();
      state.positions.emplace_back(positions.begin(), positions.end());
      state.rank.emplace_back(head.rank.begin(), head.rank.end());
      std::vector<std::byte>& bytes = state.slots.emplace_back();
      for (int slot = 0; slot < head.n_slots(); ++slot) {
        const auto of_slot =
            slot_bytes(pool->shape(), pool->keys(head.page_of(slot)), slot % kPageSlots);
        bytes.insert(bytes.end(), of_slot.begin(), of_slot.end());
      }
    }
    state.statistic = {heads[0].statistic.begin(), heads[0].statistic.end()};
    state.count = {heads[0].count.begin(), heads[0].count.end()};
    state.priority = {heads[0].priority.begin(), heads[0].priority.end()};
    return state;
  }
};

// A unit on the device, with room for `most_slots`. What was not written is NaN in every format.
class DeviceUnit {
 public:
  DeviceUnit(const UnitKind& kind, const HostUnit& start, int first_kv_head, int most_slots)
      : kind_(kind),
        first_kv_head_(first_kv_head),
        n_kv_heads_(int(start.heads.size())),
        n_slots_(start.heads[0].n_slots()),
        most_slots_(most_slots) {
    const UnitState state = start.state();
    const bool has_rule = kind.rule.evicts();
    std::vector<ScanHead> heads;
    for (int h = 0; h < n_kv_heads_; ++h) {
      load_pages(start.heads[h]);
      positions_.push_back(filled(state.positions[h]));
      ScanHead head{tables_[h].data(), positions_[h].data(), nullptr};
      if (kind.positions != PositionMode::kAbsolute) {
        rank_.push_back(filled(state.rank[h]));
        head.rank = rank_[h].data();
      }
      heads.push_back(head);
    }
    heads_.emplace_back(heads);
    if (has_rule && keeps_statistic(kind.rule.statistic))
      statistic_.push_back(filled(state.statistic));
    if (has_rule && keeps_count(kind.rule.statistic)) count_.push_back(filled(state.count));
    if (has_rule && kind.rule.victim == ScanRule::Victim::kPriority)
      priority_.push_back(filled(state.priority));
    victims_.emplace_back(most_slots_);
  }

  int n_kv_heads() const { return n_kv_heads_; }
  int n_slots() const { return n_slots_; }

  // The next n rows of the layer; after the kernel that runs them n_slots() is what is left.
  ScanUnit next(const LayerRows& rows, int n, int heads_before = 0) {
    const int group = rows.shape.group();
    if (logits_.empty()) logits_.emplace_back(std::size_t(n_kv_heads_) * group * most_slots_);
    ScanUnit unit;
    unit.heads = heads_[0].data();
    unit.n_kv_heads = n_kv_heads_;
    unit.first_kv_head = first_kv_head_;
    unit.layer = kLayer;
    unit.n_slots = n_slots_;
    unit.first_position = kind_.first_position + row_;
    unit.n_rows = n;
    unit.rows_before = kind_.rows_before + row_;
    unit.rows_after = kind_.rows_after + rows.n - row_ - n;
    unit.chunk = kind_.chunk;
    unit.positions = SlotPositions(int(kind_.positions));
    unit.rule = kind_.rule;
    if (!statistic_.empty()) unit.statistic = statistic_[0].data();
    if (!count_.empty()) unit.count = count_[0].data();
    if (!priority_.empty()) unit.priority = priority_[0].data();
    unit.qkv = rows.device_qkv.data() + row_ * rows.shape.row_floats();
    unit.qkv_stride = rows.shape.row_floats();
    unit.out = rows.out.data() + row_ * rows.out_stride();
    unit.out_stride = rows.out_stride();
    unit.logits = logits_[0].data();
    unit.victims = victims_[0].data();
    unit.most_slots = most_slots_;
    unit.heads_before = heads_before;
    for (int r = 0; r < n; ++r) {
      ++n_slots_;
      const bool chunk_ends =
          (unit.rows_before + r + 1) % unit.chunk == 0 || r + 1 == n + unit.rows_after;
      if (chunk_ends && unit.rule.evicts()) n_slots_ = std::min(n_slots_, unit.rule.budget_tokens);
    }
    row_ += n;
    return unit;
  }

  UnitState state() const {
    UnitState state;
    for (int h = 0; h < n_kv_heads_; ++h) {
      state.positions.push_back(first(positions_[h]));
      state.rank.push_back(rank_.empty() ? std::vector<std::int32_t>() : first(rank_[h]));
      std::vector<std::byte>& bytes = state.slots.emplace_back();
      std::vector<std::byte> page;
      for (int slot = 0; slot < n_slots_; ++slot) {
        if (slot % kPageSlots == 0) page = pages_[h][slot / kPageSlots].read();
        const auto of_slot = slot_bytes(kind_.page, page.data(), slot % kPageSlots);
        bytes.insert(bytes.end(), of_slot.begin(), of_slot.end());
      }
    }
    if (!statistic_.empty()) state.statistic = first(statistic_[0]);
    if (!count_.empty()) state.count = first(count_[0]);
    if (!priority_.empty()) state.priority = first(priority_[0]);
    return state;
  }
  std::vector<float> logits() const { return logits_[0].read(); }  // of the last row, raw scratch
  std::byte* const* pages(int h) const { return tables_[h].data(); }
  const std::int32_t* rank(int h) const { return rank_.empty() ? nullptr : rank_[h].data(); }

  static constexpr int kLayer = 3;

 private:
  template <class T>
  DeviceArray<T> filled(std::vector<T> values) const {
    T rest;
    std::memset(&rest, 0xFF, sizeof rest);
    values.resize(most_slots_, rest);
    return DeviceArray<T>(values);
  }
  template <class T>
  std::vector<T> first(const DeviceArray<T>& array) const {
    std::vector<T> values = array.read();
    values.resize(n_slots_);
    return values;
  }
  void load_pages(const HeadCache& head) {
    PagePool pool(kind_.page);
    const PageId image = pool.acquire();
    std::vector<DeviceArray<std::byte>>& pages = pages_.emplace_back();
    std::vector<std::byte*> table;
    for (int first = 0; first < most_slots_; first += kPageSlots) {
      std::memset(pool.keys(image), 0xFF, kind_.page.page_bytes());
      for (int slot = first; slot < std::min(head.n_slots(), first + kPageSlots); ++slot)
        copy_slot(head.pool(), head.page_of(slot), slot % kPageSlots, pool, image,
                  slot % kPageSlots);
      const std::byte* bytes = pool.keys(image);
      pages.emplace_back(std::vector<std::byte>(bytes, bytes + kind_.page.page_bytes()));
      table.push_back(pages.back().data());
    }
    tables_.emplace_back(table);
  }

  UnitKind kind_;
  int first_kv_head_;
  int n_kv_heads_;
  int n_slots_;
  int most_slots_;
  int row_ = 0;
  std::vector<std::vector<DeviceArray<std::byte>>> pages_;  // [n_kv_heads][pages]
  std::vector<DeviceArray<std::byte*>> tables_;
  std::vector<DeviceArray<std::int32_t>> positions_;
  std::vector<DeviceArray<std::int32_t>> rank_;
  // Of one element, or empty where the unit has no such thing.
  std::vector<DeviceArray<ScanHead>> heads_;
  std::vector<DeviceArray<float>> statistic_;
  std::vector<DeviceArray<std::uint32_t>> count_;
  std::vector<DeviceArray<std::uint64_t>> priority_;
  std::vector<DeviceArray<float>> logits_;
  std::vector<DeviceArray<std::int32_t>> victims_;
};

inline ScanShape scan_shape(const AttentionShape& shape, const PageShape& page,
                            const DeviceRope& rope) {
  return {shape.n_heads, shape.n_kv_heads, layout_of(page), rope.rows()};
}

// A unit and the layer's rows that it goes through.
struct UnitRows {
  DeviceUnit* unit;
  const LayerRows* rows;
};

// The next n rows of all units in one scan, or as steps of one row each.
inline void run_scan(const std::vector<UnitRows>& units, int n, const ScanShape& shape) {
  std::vector<ScanUnit> all;
  for (const auto& [unit, rows] : units) all.push_back(unit->next(*rows, n));
  const DeviceArray<ScanUnit> on_device(all);
  scan(on_device.data(), int(all.size()), shape, nullptr);
  gpu_check(cudaDeviceSynchronize(), "scan");
}
inline void run_steps(const std::vector<UnitRows>& units, int n, const ScanShape& shape) {
  for (int r = 0; r < n; ++r) {
    std::vector<ScanUnit> all;
    int heads = 0;
    int most_slots = 0;
    for (const auto& [unit, rows] : units) {
      most_slots = std::max(most_slots, unit->n_slots() + 1);
      all.push_back(unit->next(*rows, 1, heads));
      heads += unit->n_kv_heads();
    }
    const DeviceArray<ScanUnit> on_device(all);
    const DeviceArray<float> partials(decode_partial_floats(heads, shape.n_heads / shape.n_kv_heads,
                                                            shape.layout.head_dim, most_slots));
    decode_step(on_device.data(), int(all.size()), heads, most_slots, shape, partials.data(),
                nullptr);
    gpu_check(cudaDeviceSynchronize(), "decode_step");
  }
}

// The CPU's scan of rows first … first + n - 1. out: as rows.out.
inline void run_host(HostUnit& unit, const UnitKind& kind, int first_kv_head, const LayerRows& rows,
                     int first, int n, const RopeTable& rope, float* out) {
  ScanJob job;
  job.layer = DeviceUnit::kLayer;
  job.first_kv_head = first_kv_head;
  job.n_kv_heads = int(unit.heads.size());
  job.heads = unit.heads.data();
  job.qkv = rows.qkv.data() + first * rows.shape.row_floats();
  job.qkv_stride = rows.shape.row_floats();
  job.out = out + first * rows.out_stride();
  job.out_stride = rows.out_stride();
  job.n_rows = n;
  job.rows_before = kind.rows_before + first;
  job.rows_after = kind.rows_after + rows.n - first - n;
  job.first_position = kind.first_position + first;
  job.positions = kind.positions;
  job.rule = kind.rule;
  job.chunk = kind.chunk;
  make_cpu_backend(1)->scan(rows.shape, rope, {&job, 1});
}

}  // namespace kvscope::cuda::testing
