// What the scan and the decode step do alike for a row of a unit before its attention: append the
// row's token, rotate its queries.
#pragma once

#include "gpu_runtime.h"
#include "runner/backend/cuda/page_write.h"
#include "runner/backend/cuda/scan.h"
#include "runner/backend/cuda/warp.h"
#include "runner/base/splitmix.h"

namespace kvscope::cuda {

__device__ inline int group_of(const ScanShape& shape) { return shape.n_heads / shape.n_kv_heads; }
__device__ inline bool is_relative(const ScanUnit& unit) {
  return unit.positions != SlotPositions::kAbsolute;
}
__device__ inline HeadSlots slots_of(const ScanUnit& unit, int h, int n_slots) {
  const ScanHead& head = unit.heads[h];
  // Only cache-relative keys lie unrotated.
  const bool turns = unit.positions == SlotPositions::kCacheRelative;
  return {head.pages, turns ? head.rank : nullptr, n_slots};
}

// ‖x‖ by one warp, in the order of sums of norm.h: eight interleaved ones, then those.
__device__ inline float warp_norm(const float* x, int n) {
  constexpr int kSums = 8;
  const int lane = int(threadIdx.x) % kWarpSize;
  float sum = 0.0F;
  for (int i = lane % kSums; i < n; i += kSums) sum += x[i] * x[i];
  float total = 0.0F;
#pragma unroll
  for (int k = 0; k < kSums; ++k) total += __shfl_sync(kAllLanes, sum, k);
  return sqrtf(total);
}

// By one warp: row r's token of the unit's head h into `slot`, with its rank and (for the first
// head) the rule's state.
template <SlotFormat kFormat>
__device__ inline void append_token(const ScanUnit& unit, const ScanShape& shape, int r, int slot,
                                    int h) {
  const ScanHead& head = unit.heads[h];
  const int d = shape.layout.head_dim;
  const int position = unit.first_position + r;
  const float* key = unit.qkv + std::size_t(r) * unit.qkv_stride +
                     std::size_t(shape.n_heads + unit.first_kv_head + h) * d;
  const float* value = key + std::size_t(shape.n_kv_heads) * d;
  int angle = position;
  if (unit.positions == SlotPositions::kCacheRelative) angle = -1;
  if (unit.positions == SlotPositions::kRerotate) angle = slot;  // the newest has the highest rank
  store_slot<kFormat>({key, value, head.pages[slot / kPageSlots], slot % kPageSlots, angle},
                      shape.layout, shape.rope, int(threadIdx.x) % kWarpSize);
  using Statistic = ScanRule::Statistic;
  const bool has_key_norm =
      h == 0 && unit.statistic != nullptr && unit.rule.statistic == Statistic::kKeyNorm;
  const float statistic = has_key_norm ? -warp_norm(key, d) : 0.0F;
  if (threadIdx.x % kWarpSize != 0) return;
  head.positions[slot] = position;
  if (is_relative(unit)) head.rank[slot] = slot;
  if (h != 0) return;  // a layer's heads share one statistic
  if (unit.statistic != nullptr) unit.statistic[slot] = statistic;
  if (unit.count != nullptr) {
    unit.count[slot] = unit.rule.statistic == Statistic::kLastUse ? std::uint32_t(position) : 0U;
  }
  if (unit.priority != nullptr) {
    unit.priority[slot] = token_priority(unit.rule.seed, unit.layer, unit.first_kv_head, position);
  }
}

// By one block: n queries of row r, from query `first` of the unit's head h on, into shared memory
// as rotate_queries() makes them. slot: of the row's token. q: [n][head_dim], 8-byte aligned.
template <SlotFormat kFormat>
__device__ inline void load_queries(const ScanUnit& unit, const ScanShape& shape, int r, int slot,
                                    int h, int first, int n, float* q) {
  const int d = shape.layout.head_dim;
  const int n_pairs = d / 2;
  const float* raw = unit.qkv + std::size_t(r) * unit.qkv_stride +
                     (std::size_t(unit.first_kv_head + h) * group_of(shape) + first) * d;
  const int angle = is_relative(unit) ? slot : unit.first_position + r;
  const float* cos = shape.rope.cos + std::size_t(angle) * n_pairs;
  const float* sin = shape.rope.sin + std::size_t(angle) * n_pairs;
  const float scale = 1.0F / sqrtf(float(d));
  // Keys that are rotated at read are float32, and so are their queries.
  const bool rounds =
      kFormat == SlotFormat::kBF16 && unit.positions != SlotPositions::kCacheRelative;
  for (int at = int(threadIdx.x); at < n * n_pairs; at += int(blockDim.x)) {
    const int i = at % n_pairs;
    KeyPair x = turned({raw[2 * at], raw[2 * at + 1]}, cos[i], sin[i]);
    x = {x.x * scale, x.y * scale};
    if (rounds) x = {rounded_to_bf16(x.x), rounded_to_bf16(x.y)};
    q[2 * at] = x.x;
    q[2 * at + 1] = x.y;
  }
}

// Where the row's outputs go: [group][head_dim] of head h.
__device__ inline float* outputs_of(const ScanUnit& unit, const ScanShape& shape, int r, int h) {
  return unit.out + std::size_t(r) * unit.out_stride +
         std::size_t(unit.first_kv_head + h) * group_of(shape) * shape.layout.head_dim;
}

}  // namespace kvscope::cuda
