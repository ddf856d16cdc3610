#include "runner/backend/cpu/slots.h"

#include <cassert>
#include <vector>

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
  for (int i = 0; i < rope.head_dim / 2; ++i) {
    const float c = rope.cos[std::size_t(i) * rope.n_positions + angle];
    const float s = rope.sin[std::size_t(i) * rope.n_positions + angle];
    out[2 * i] = (x[2 * i] * c - x[2 * i + 1] * s) * scale;
    out[2 * i + 1] = (x[2 * i] * s + x[2 * i + 1] * c) * scale;
  }
}

void write_slot(HeadCache& head, int slot, const float* k, const float* v, const RopeTable& rope,
                std::optional<int> angle) {
  const PageShape& shape = head.pool().shape();
  const PageId page = head.pages()[slot / kPageSlots];  // append_slot made it writable
  const std::size_t lane = slot % kPageSlots;
  const auto d = std::size_t(shape.head_dim);
  std::byte* keys = head.pool().keys(page);
  if (angle) {
    float rotated[kMaxHeadDim];
    assert(d <= kMaxHeadDim);
    rotate_row(rope, k, *angle, 1.0F, rotated);
    for (std::size_t i = 0; i < d; ++i) store(keys, i * kPageSlots + lane, shape.dtype, rotated[i]);
  } else {
    for (std::size_t i = 0; i < d; ++i) store(keys, i * kPageSlots + lane, shape.dtype, k[i]);
  }
  if (shape.has_values) {
    std::byte* values = head.pool().values(page);
    for (std::size_t i = 0; i < d; ++i) store(values, lane * d + i, shape.dtype, v[i]);
  }
}

void turn_back_slot(HeadCache& head, int slot, int steps, const RopeTable& rope) {
  const PageShape& shape = head.pool().shape();
  std::byte* keys = head.pool().keys(head.writable_page(slot));
  const std::size_t lane = slot % kPageSlots;
  for (int i = 0; i < shape.head_dim / 2; ++i) {
    const float c = rope.cos[std::size_t(i) * rope.n_positions + steps];
    const float s = rope.sin[std::size_t(i) * rope.n_positions + steps];
    const std::size_t even = std::size_t(2 * i) * kPageSlots + lane;
    const std::size_t odd = even + kPageSlots;
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
          pool.shape().dtype, pool.shape().dtype, live};
}

}  // namespace kvscope::cpu
