#include "runner/backend/cpu/slots.h"

#include <cassert>
#include <cstring>

#include "runner/backend/cpu/elementwise.h"
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

void write_f16(const PageShape& shape, std::byte* keys, std::byte* values, int lane, const float* k,
               const float* v) {
  for (int i = 0; i < shape.head_dim; ++i) {
    store(keys, shape.key_index(i, lane), shape.dtype, k[i]);
    if (values != nullptr) store(values, shape.value_index(lane, i), shape.dtype, v[i]);
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
  if (angle) {
    rotate_row(rope, k, *angle, 1.0F, rotated);
    k = rotated;
  }
  std::byte* keys = head.pool().keys(page);
  std::byte* values = shape.has_values ? head.pool().values(page) : nullptr;
  switch (shape.dtype) {
    case DType::kF32:
      return write_f32(keys, values, lane, d, k, v);
    case DType::kBF16:
      return write_bf16(keys, values, lane, d, k, v);
    case DType::kF16:
      return write_f16(shape, keys, values, lane, k, v);
  }
}

void read_slot(const HeadCache& head, int slot, std::span<float> key, std::span<float> value) {
  const PageShape& shape = head.pool().shape();
  const PageId page = head.pages()[slot / kPageSlots];
  const int lane = slot % kPageSlots;
  for (std::size_t i = 0; i < key.size(); ++i)
    key[i] = load(head.pool().keys(page), shape.key_index(int(i), lane), shape.dtype);
  for (std::size_t i = 0; i < value.size(); ++i)
    value[i] = load(head.pool().values(page), shape.value_index(lane, int(i)), shape.dtype);
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
  return {pool.keys(page),
          pool.shape().has_values ? pool.values(page) : nullptr,
          pool.shape().dtype,
          false,
          live,
          nullptr};
}

}  // namespace kvscope::cpu
