// One block runs a unit's rule after a row has attended: statistics of the visible slots, victims,
// their removal. runner/backend/cpu/victims.cpp and attention_scan.cpp, decision for decision.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/attend_chunk_block.h"
#include "runner/backend/cuda/scan_unit.h"
#include "runner/backend/cuda/select_least.h"

namespace kvscope::cuda {

__host__ __device__ constexpr bool observes(const ScanRule& rule) {
  return rule.evicts() && rule.statistic != ScanRule::Statistic::kNone &&
         rule.statistic != ScanRule::Statistic::kKeyNorm;  // known since the token joined
}

// A row as the rule sees it.
struct ObservedRow {
  int n_slots;              // visible
  int newest_position;      // of the row itself
  int n_heads;              // query heads of the unit
  const RowSoftmax* whole;  // [n_heads]
  float* logits;            // [n_heads] rows of logit_stride
  int logit_stride;
};

// Mean over the query heads of a slot's probability, summed in order of heads.
__device__ inline float mean_probability(const ObservedRow& row, int slot) {
  float a = probability(row.logits[slot], row.whole[0]);
  for (int h = 1; h < row.n_heads; ++h)
    a += probability(row.logits[std::size_t(h) * row.logit_stride + slot], row.whole[h]);
  return a * (1.0F / float(row.n_heads));
}

// mark_used() of runner/policies/last_use.cpp.
__device__ inline void mark_used(const ScanUnit& unit, const ObservedRow& row,
                                 SelectShared& shared) {
  const int n = row.n_slots;
  const auto now = std::uint32_t(row.newest_position);
  const auto mark = [&](const auto& is_used) {
    for (int slot = int(threadIdx.x); slot < n; slot += int(blockDim.x)) {
      if (slot == n - 1 || is_used(slot)) unit.count[slot] = now;
    }
  };
  if (unit.rule.threshold > 0.0F) {
    const float bar = use_bar(unit.rule, n);
    mark([&](int slot) { return mean_probability(row, slot) >= bar; });
    return;
  }
  for (int slot = int(threadIdx.x); slot < n; slot += int(blockDim.x))
    row.logits[slot] = mean_probability(row, slot);
  // The heaviest first, then the newer; NaN after everything. A thread only reads what it wrote.
  const std::int32_t* positions = unit.heads[0].positions;
  const auto key_of = [&](int slot) {
    const std::uint32_t weight = ~ordered(row.logits[slot]);
    return OrderKey{std::uint64_t(weight) << 32 | std::uint32_t(~positions[slot]), 0};
  };
  const OrderKey bound = bound_of_least(n, used_top_k(unit.rule, n), kHighDigits, key_of, shared);
  mark([&](int slot) { return !(bound < key_of(slot)); });
}

// Updates the statistic of every visible slot.
__device__ inline void observe(const ScanUnit& unit, const ObservedRow& row, SelectShared& shared) {
  if (unit.rule.statistic == ScanRule::Statistic::kLastUse) return mark_used(unit, row, shared);
  for (int slot = int(threadIdx.x); slot < row.n_slots; slot += int(blockDim.x)) {
    const float a = mean_probability(row, slot);
    float& statistic = unit.statistic[slot];
    switch (unit.rule.statistic) {
      case ScanRule::Statistic::kNone:
      case ScanRule::Statistic::kLastUse:
      case ScanRule::Statistic::kKeyNorm:
      case ScanRule::Statistic::kHost:
        break;
      case ScanRule::Statistic::kSum:
        statistic += a;
        break;
      case ScanRule::Statistic::kMean:
        statistic += a;
        ++unit.count[slot];
        break;
      case ScanRule::Statistic::kDecay:
        statistic = unit.rule.decay * statistic + a;
        break;
      case ScanRule::Statistic::kLast:
        statistic = a;
        break;
    }
  }
}

__device__ inline bool is_protected(const ScanRule& rule, int position, int newest) {
  return position < rule.sinks || position > newest - rule.recent ||
         (rule.protect_last && position == newest);
}

// Slots in the order in which they leave: the unprotected by the rule, then the protected, each
// time the older first.
__device__ inline OrderKey leave_key(const ScanUnit& unit, int newest, int slot) {
  const auto position = std::uint32_t(unit.heads[0].positions[slot]);
  if (is_protected(unit.rule, int(position), newest))
    return unit.rule.victim == ScanRule::Victim::kPriority
               ? OrderKey{~std::uint64_t(0), 0x80000000U | position}
               : OrderKey{std::uint64_t(~0U) << 32 | 0x80000000U | position, 0};
  std::uint32_t score = 0;
  switch (unit.rule.victim) {
    case ScanRule::Victim::kOldest:
      break;
    case ScanRule::Victim::kPriority:
      return {unit.priority[slot], position};
    case ScanRule::Victim::kLowest:
      if (unit.rule.statistic == ScanRule::Statistic::kLastUse) {
        score = unit.count[slot];
      } else if (unit.rule.statistic == ScanRule::Statistic::kMean) {
        score = ordered(unit.statistic[slot] / float(unit.count[slot]));
      } else {
        score = ordered(unit.statistic[slot]);
      }
      break;
  }
  return {std::uint64_t(score) << 32 | position, 0};
}

// Turns the stored keys of a page back (turn_back_slot of the CPU: read, turned, encoded anew),
// each lane its own slot's by `steps`: neighbouring lanes meet neighbouring elements.
template <SlotFormat kFormat>
__device__ inline void turn_back_page(std::byte* page, int head_dim, int steps,
                                      const RopeRows& rope) {
  if (steps == 0) return;
  const int slot = int(threadIdx.x) % kWarpSize;
  const std::size_t first = std::size_t(steps) * (head_dim / 2);
  const float old_scale = kIsCoded<kFormat> ? scales_of(page, head_dim)[slot] : 1.0F;
  const auto turned_back = [&](int i) {
    return turned(load_key_pair<kFormat>(page, i, slot, old_scale), rope.cos[first + i / 2],
                  -rope.sin[first + i / 2]);
  };
  float scale = 1.0F;
  if constexpr (kIsCoded<kFormat>) {
    std::uint32_t largest = 0;
    for (int i = 0; i < head_dim; i += 2) largest = max(largest, magnitude_of(turned_back(i)));
    scale = token_scale<kFormat>(largest);
    scales_of(page, head_dim)[slot] = scale;
  }
  for (int i = 0; i < head_dim; i += 2)
    store_key_pair<kFormat>(page, i, slot, turned_back(i), scale);
}

// Every rank above a victim falls by one a victim; re-rotated keys turn with it. A warp a page.
template <SlotFormat kFormat>
__device__ inline void close_ranks(const ScanUnit& unit, const ScanShape& shape, int n_slots,
                                   int n_victims) {
  const std::int32_t* positions = unit.heads[0].positions;
  const int lane = int(threadIdx.x) % kWarpSize;
  for (int page = int(threadIdx.x) / kWarpSize; page * kPageSlots < n_slots;
       page += block_warps()) {
    const int slot = page * kPageSlots + lane;
    int steps = 0;
    if (slot < n_slots) {
      const int position = positions[slot];
      for (int v = 0; v < n_victims; ++v) steps += positions[unit.victims[v]] < position ? 1 : 0;
    }
    for (int h = 0; h < unit.n_kv_heads; ++h) {
      if (steps > 0) unit.heads[h].rank[slot] -= steps;
      if (unit.positions == SlotPositions::kRerotate)
        turn_back_page<kFormat>(unit.heads[h].pages[page], shape.layout.head_dim, steps,
                                shape.rope);
    }
  }
}

// First of the ascending victims that is ≥ slot.
__device__ inline int first_victim_from(const std::int32_t* victims, int n, int slot) {
  int begin = 0;
  int end = n;
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (victims[middle] < slot) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// What HeadCache::remove_slot() leaves after the victims by descending slot, moved at once. Of V
// ascending victims v, v[i] is removed when n_left + i is the last slot, n_left = n_slots − V; what
// lies there is its own token, or (where that was a victim v[j] itself) what was moved into it,
// that is what lay at n_left + j. Only slots from n_left on are read, only lower ones written.
template <SlotFormat kFormat>
__device__ inline void fill_holes(const ScanUnit& unit, const ScanShape& shape, int n_slots,
                                  int n_victims) {
  const std::int32_t* victims = unit.victims;
  const int n_left = n_slots - n_victims;
  const int n_holes = first_victim_from(victims, n_victims, n_left);
  for (int move = int(threadIdx.x) / kWarpSize; move < n_holes * unit.n_kv_heads;
       move += block_warps()) {
    const int hole = move / unit.n_kv_heads;
    const int h = move % unit.n_kv_heads;
    const int to = victims[hole];
    int from = n_left + hole;
    for (;;) {
      const int i = first_victim_from(victims, n_victims, from);
      if (i == n_victims || victims[i] != from) break;
      from = n_left + i;
    }
    const ScanHead& head = unit.heads[h];
    copy_slot<kFormat>(head.pages[from / kPageSlots], from % kPageSlots,
                       head.pages[to / kPageSlots], to % kPageSlots, shape.layout,
                       int(threadIdx.x) % kWarpSize);
    if (threadIdx.x % kWarpSize != 0) continue;
    head.positions[to] = head.positions[from];
    if (is_relative(unit)) head.rank[to] = head.rank[from];
    if (h != 0) continue;
    if (unit.statistic != nullptr) unit.statistic[to] = unit.statistic[from];
    if (unit.count != nullptr) unit.count[to] = unit.count[from];
    if (unit.priority != nullptr) unit.priority[to] = unit.priority[from];
  }
}

// After row r of the unit: observe, and where a chunk of rows ends evict what exceeds the budget.
// Returns the slots that are left. Begin and end with the block in step.
template <SlotFormat kFormat>
__device__ inline int apply_rule(const ScanUnit& unit, const ScanShape& shape, int r,
                                 const ObservedRow& row, SelectShared& shared) {
  if (observes(unit.rule)) observe(unit, row, shared);
  const bool chunk_ends =
      (unit.rows_before + r + 1) % unit.chunk == 0 || r + 1 == unit.n_rows + unit.rows_after;
  const int surplus = row.n_slots - unit.rule.budget_tokens;
  if (!unit.rule.evicts() || !chunk_ends || surplus <= 0) return row.n_slots;
  __syncthreads();
  const bool by_priority = unit.rule.victim == ScanRule::Victim::kPriority;
  least_items(
      row.n_slots, surplus, by_priority ? kKeyDigits : kHighDigits,
      [&](int slot) { return leave_key(unit, row.newest_position, slot); }, unit.victims, shared);
  if (is_relative(unit)) {
    close_ranks<kFormat>(unit, shape, row.n_slots, surplus);
    __syncthreads();
  }
  fill_holes<kFormat>(unit, shape, row.n_slots, surplus);
  __syncthreads();
  return unit.rule.budget_tokens;
}

}  // namespace kvscope::cuda
