#include "runner/backend/cpu/slots.h"

#include <cassert>
#include <vector>

#include "runner/backend/cpu/page_kernels.h"
#include "runner/base/half.h"
#include "runner/model/config.h"

namespace kvscope::cpu {

namespace {

void store(std::byte* base, std::size_t index, DType dtype, float x) {
  switch (dtype) {
    case DType::kF32:
      reinterpret_cast<float*>(base)[index] = x;
      break;
    case DType::kBF16:
      reinterpret_cast<std::uint16_t*>(base)[index] = bf16_bits(x);
      break;
    case DType::kF16:
      reinterpret_cast<std::uint16_t*>(base)[index] = f16_bits(x);
      break;
  }
}

// Element i of x goes to base[index(i)].
template <class Index>
void store_row(std::byte* base, DType dtype, const float* x, int n, const Index& index) {
  if (dtype == DType::kF32) {
    for (int i = 0; i < n; ++i) reinterpret_cast<float*>(base)[index(i)] = x[i];
  } else {
    for (int i = 0; i < n; ++i) store(base, index(i), dtype, x[i]);
  }
}

float load(const std::byte* base, std::size_t index, DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return from_bf16_bits(reinterpret_cast<const std::uint16_t*>(base)[index]);
    case DType::kF16:
      return from_f16_bits(reinterpret_cast<const std::uint16_t*>(base)[index]);
    case DType::kF32:
      break;
  }
  return reinterpret_cast<const float*>(base)[index];
}

}  // namespace

void rotate_row(const RopeTable& rope, const float* x, int angle, float scale, float* out) {
  assert(angle >= 0 && angle < rope.n_positions);
  const std::size_t first = std::size_t(angle) * (rope.head_dim / 2);
  rotate_pairs(x, rope.head_dim / 2, rope.cos.data() + first, rope.sin.data() + first, scale, out);
}

void write_slot(HeadCache& head, int slot, const float* k, const float* v, const RopeTable& rope,
                std::optional<int> angle) {
  const PageShape& shape = head.pool().shape();
  const PageId page = head.pages()[slot / kPageSlots];  // append_slot made it writable
  const int lane = slot % kPageSlots;
  const int d = shape.head_dim;
  float rotated[kMaxHeadDim];
  assert(d <= kMaxHeadDim);
  if (angle) rotate_row(rope, k, *angle, 1.0F, rotated);
  store_row(head.pool().keys(page), shape.dtype, angle ? rotated : k, d,
            [&](int i) { return shape.key_index(i, lane); });
  if (!shape.has_values) return;
  std::byte* values = head.pool().values(page);
  store_row(values, shape.dtype, v, d, [&](int i) { return shape.value_index(lane, i); });
  if (shape.dtype != DType::kBF16 || lane % 2 != 0) return;
  // The slot beside it is multiplied with weight 0 until it is written: what a reused page holds
  // there may be NaN.
  auto* halves = reinterpret_cast<std::uint16_t*>(values);
  for (int i = 0; i < d; ++i) halves[shape.value_index(lane + 1, i)] = 0;
}

void turn_back_slot(HeadCache& head, int slot, int steps, const RopeTable& rope) {
  const PageShape& shape = head.pool().shape();
  std::byte* keys = head.pool().keys(head.writable_page(slot));
  const int lane = slot % kPageSlots;
  const std::size_t first = std::size_t(steps) * (shape.head_dim / 2);
  for (int i = 0; i < shape.head_dim / 2; ++i) {
    const float c = rope.cos[first + i];
    const float s = rope.sin[first + i];
    const std::size_t even = shape.key_index(2 * i, lane);
    const std::size_t odd = shape.key_index(2 * i + 1, lane);
    const float x = load(keys, even, shape.dtype);
    const float y = load(keys, odd, shape.dtype);
    store(keys, even, shape.dtype, x * c + y * s);
    store(keys, odd, shape.dtype, y * c - x * s);
  }
}

void append_ghost(HeadCache& ghosts, const HeadCache& head, int slot) {
  const int ghost = ghosts.append_slot(head.positions()[slot], {});
  copy_slot(head.pool(), head.pages()[slot / kPageSlots], slot % kPageSlots, ghosts.pool(),
            ghosts.pages()[ghost / kPageSlots], ghost % kPageSlots);
}

PageView page_view(const HeadCache& head, int index, int live) {
  const PagePool& pool = head.pool();
  const PageId page = head.pages()[index];
  return {pool.keys(page), pool.shape().has_values ? pool.values(page) : nullptr,
          pool.shape().dtype, false, live};
}

}  // namespace kvscope::cpu
