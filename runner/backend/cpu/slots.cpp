#include "runner/backend/cpu/slots.h"

#include <cassert>
#include <cstring>

#include "runner/backend/cpu/elementwise.h"
#include "runner/backend/cpu/page_kernels.h"
#include "runner/model/config.h"

namespace kvscope::cpu {

namespace {

void write_f32(std::byte* keys, std::byte* values, int lane, int d, const float* k,
               const float* v) {
  auto* to = reinterpret_cast<float*>(keys) + lane;
  for (int i = 0; i < d; ++i) to[i * kPageSlots] = k[i];
  if (values != nullptr) std::memcpy(values + sizeof(float) * lane * d, v, sizeof(float) * d);
}

// Two dimensions of a key are one 32-bit lane; two slots' values share one.
void write_bf16(std::byte* keys, std::byte* values, int lane, int d, const float* k,
                const float* v) {
  std::uint16_t half[kMaxHeadDim];
  round_to_bf16({k, std::size_t(d)}, half);
  auto* key_pairs = reinterpret_cast<std::uint32_t*>(keys) + lane;
  for (int i = 0; i < d / 2; ++i)
    key_pairs[i * kPageSlots] = half[2 * i] | std::uint32_t(half[2 * i + 1]) << 16;
  if (values == nullptr) return;
  round_to_bf16({v, std::size_t(d)}, half);
  auto* value_pairs = reinterpret_cast<std::uint32_t*>(values) + lane / 2 * d;
  if (lane % 2 == 0) {  // the slot beside it is empty
    for (int i = 0; i < d; ++i) value_pairs[i] = half[i];
  } else {
    for (int i = 0; i < d; ++i)
      value_pairs[i] = (value_pairs[i] & 0xFFFFU) | std::uint32_t(half[i]) << 16;
  }
}

}  // namespace

void rotate_row(const RopeTable& rope, const float* x, int angle, float scale, float* out) {
  assert(angle >= 0 && angle < rope.n_positions);
  const std::size_t first = std::size_t(angle) * (rope.head_dim / 2);
  rotate_pairs(x, rope.head_dim / 2, rope.cos.data() + first, rope.sin.data() + first, scale, out);
}

void write_slot(HeadCache& head, int slot, const float* k, const float* v, const RopeTable& rope,
                std::optional<int> angle) {
  const PagePool& pool = head.pool();
  const PageShape& shape = pool.shape();
  const PageId page = head.page_of(slot);  // append_slot made it writable
  const int lane = slot % kPageSlots;
  const int d = shape.head_dim;
  float rotated[kMaxHeadDim];
  assert(d <= kMaxHeadDim);
  if (angle) {
    rotate_row(rope, k, *angle, 1.0F, rotated);
    k = rotated;
  }
  std::byte* keys = pool.keys(page);
  std::byte* values = shape.has_values ? pool.values(page) : nullptr;
  if (!shape.is_quantised() && shape.dtype == DType::kF32)
    return write_f32(keys, values, lane, d, k, v);
  if (!shape.is_quantised() && shape.dtype == DType::kBF16)
    return write_bf16(keys, values, lane, d, k, v);
  write_key(pool, page, lane, k);
  if (values != nullptr) write_value(pool, page, lane, v);
}

void turn_back_slot(HeadCache& head, int slot, int steps, const RopeTable& rope) {
  const int d = head.pool().shape().head_dim;
  const PageId page = head.writable_page(slot);
  const int lane = slot % kPageSlots;
  const std::size_t first = std::size_t(steps) * (d / 2);
  float key[kMaxHeadDim];
  read_key(head.pool(), page, lane, key);
  for (int i = 0; i < d / 2; ++i) {
    const float c = rope.cos[first + i];
    const float s = rope.sin[first + i];
    const float x = key[2 * i];
    const float y = key[2 * i + 1];
    key[2 * i] = x * c + y * s;
    key[2 * i + 1] = y * c - x * s;
  }
  write_key(head.pool(), page, lane, key);
}

// Those that kivi has quantised, then those of the page itself.
void widen_page(const HeadCache& head, int first_slot, int live, float* keys, float* values) {
  const PagePool& pool = head.pool();
  const int d = pool.shape().head_dim;
  const KiviStore* kivi = head.kivi();
  const int n_keys = kivi == nullptr ? 0 : std::clamp(kivi->n_keys() - first_slot, 0, live);
  const int n_values = kivi == nullptr ? 0 : std::clamp(kivi->n_values() - first_slot, 0, live);
  if (n_keys > 0) kivi->read_keys(first_slot, n_keys, keys, kPageSlots);
  if (n_values > 0) kivi->read_values(first_slot, n_values, values);
  if (n_keys < live) read_keys(pool, head.page_of(first_slot), n_keys, live - n_keys, keys);
  if (values != nullptr && n_values < live)
    read_values(pool, head.page_of(first_slot), n_values, live - n_values, values);
  // Lanes beyond the last slot are computed and masked: what the object held before must not be
  // a trap there.
  for (int i = 0; i < d && live < kPageSlots; ++i)
    std::fill(keys + i * kPageSlots + live, keys + (i + 1) * kPageSlots, 0.0F);
}

void BlockPages::show_dequantised(const HeadCache& head, int first_slot,
                                  std::span<PageView> pages) {
  const PageShape& shape = head.pool().shape();
  const auto side = std::size_t(shape.head_dim) * kPageSlots;
  dequantised_.resize(2 * side * kBlockPages);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    float* keys = dequantised_.data() + 2 * i * side;
    float* values = shape.has_values ? keys + side : nullptr;
    widen_page(head, first_slot + int(i) * kPageSlots, pages[i].live, keys, values);
    pages[i] = {reinterpret_cast<const std::byte*>(keys),
                reinterpret_cast<const std::byte*>(values),
                DType::kF32,
                false,
                pages[i].live,
                nullptr};
  }
}

}  // namespace kvscope::cpu
