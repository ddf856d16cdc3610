#include "runner/cache/page_slots.h"

#include <array>
#include <cassert>

#include "runner/base/half.h"
#include "runner/cache/kv_codec.h"
#include "runner/model/config.h"

namespace kvscope {

namespace {

// Keys and values differ only in where an element lies.
struct KeySide {
  static std::byte* base(const PagePool& pool, PageId page) { return pool.keys(page); }
  static std::size_t index(const PageShape& shape, int i, int slot) {
    return shape.key_index(i, slot);
  }
};
struct ValueSide {
  static std::byte* base(const PagePool& pool, PageId page) { return pool.values(page); }
  static std::size_t index(const PageShape& shape, int i, int slot) {
    return shape.value_index(slot, i);
  }
};

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

template <class Side>
void write(const PagePool& pool, PageId page, int slot, const float* x) {
  const PageShape& shape = pool.shape();
  const int d = shape.head_dim;
  std::byte* base = Side::base(pool, page);
  if (!shape.is_quantised()) {
    for (int i = 0; i < d; ++i) store(base, Side::index(shape, i, slot), shape.dtype, x[i]);
    return;
  }
  std::array<std::uint8_t, kMaxHeadDim> codes;
  assert(d <= kMaxHeadDim);
  shape.scales(base)[slot] = quantise_token({x, std::size_t(d)}, shape.format, codes.data());
  for (int i = 0; i < d; ++i) base[Side::index(shape, i, slot)] = std::byte(codes[i]);
}

template <class Side>
void read(const PagePool& pool, PageId page, int slot, float* x) {
  const PageShape& shape = pool.shape();
  const int d = shape.head_dim;
  const std::byte* base = Side::base(pool, page);
  if (!shape.is_quantised()) {
    for (int i = 0; i < d; ++i) x[i] = load(base, Side::index(shape, i, slot), shape.dtype);
    return;
  }
  std::array<std::uint8_t, kMaxHeadDim> codes;
  for (int i = 0; i < d; ++i) codes[i] = std::uint8_t(base[Side::index(shape, i, slot)]);
  dequantise({codes.data(), std::size_t(d)}, shape.scales(base)[slot], shape.format, x);
}

template <class Side, typename Element>
void copy_elements(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool,
                   PageId to, int to_slot) {
  const PageShape& shape = from_pool.shape();
  const auto* x = reinterpret_cast<const Element*>(Side::base(from_pool, from));
  auto* y = reinterpret_cast<Element*>(Side::base(to_pool, to));
  for (int i = 0; i < shape.head_dim; ++i)
    y[Side::index(shape, i, to_slot)] = x[Side::index(shape, i, from_slot)];
}

template <class Side>
void copy(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool, PageId to,
          int to_slot) {
  const PageShape& x = from_pool.shape();
  const PageShape& y = to_pool.shape();
  if (!x.stored_like(y)) {
    std::array<float, kMaxHeadDim> values;
    assert(x.head_dim <= kMaxHeadDim);
    read<Side>(from_pool, from, from_slot, values.data());
    write<Side>(to_pool, to, to_slot, values.data());
    return;
  }
  switch (x.stored_bytes()) {
    case 4:
      return copy_elements<Side, std::uint32_t>(from_pool, from, from_slot, to_pool, to, to_slot);
    case 2:
      return copy_elements<Side, std::uint16_t>(from_pool, from, from_slot, to_pool, to, to_slot);
    default:
      y.scales(Side::base(to_pool, to))[to_slot] = x.scales(Side::base(from_pool, from))[from_slot];
      return copy_elements<Side, std::uint8_t>(from_pool, from, from_slot, to_pool, to, to_slot);
  }
}

}  // namespace

void write_key(const PagePool& pool, PageId page, int slot, const float* key) {
  write<KeySide>(pool, page, slot, key);
}
void write_value(const PagePool& pool, PageId page, int slot, const float* value) {
  write<ValueSide>(pool, page, slot, value);
}
void read_key(const PagePool& pool, PageId page, int slot, float* key) {
  read<KeySide>(pool, page, slot, key);
}
void read_value(const PagePool& pool, PageId page, int slot, float* value) {
  read<ValueSide>(pool, page, slot, value);
}

void read_keys(const PagePool& pool, PageId page, int first, int n, float* out) {
  const PageShape& shape = pool.shape();
  const std::byte* base = pool.keys(page);
  for (int i = 0; i < shape.head_dim; ++i) {
    float* row = out + std::size_t(i) * kPageSlots;
    if (shape.is_quantised()) {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(base) + shape.key_index(i, first);
      dequantise({codes, std::size_t(n)}, shape.scales(base) + first, shape.format, row + first);
    } else {
      for (int slot = first; slot < first + n; ++slot)
        row[slot] = load(base, shape.key_index(i, slot), shape.dtype);
    }
  }
}

void read_values(const PagePool& pool, PageId page, int first, int n, float* out) {
  const PageShape& shape = pool.shape();
  const int d = shape.head_dim;
  const std::byte* base = pool.values(page);
  for (int slot = first; slot < first + n; ++slot) {
    float* row = out + std::size_t(slot) * d;
    if (shape.is_quantised()) {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(base) + shape.value_index(slot, 0);
      dequantise({codes, std::size_t(d)}, shape.scales(base)[slot], shape.format, row);
    } else {
      for (int i = 0; i < d; ++i) row[i] = load(base, shape.value_index(slot, i), shape.dtype);
    }
  }
}

void copy_slot(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool,
               PageId to, int to_slot) {
  assert(from_pool.shape().head_dim == to_pool.shape().head_dim);
  copy<KeySide>(from_pool, from, from_slot, to_pool, to, to_slot);
  if (from_pool.shape().has_values && to_pool.shape().has_values)
    copy<ValueSide>(from_pool, from, from_slot, to_pool, to, to_slot);
}

}  // namespace kvscope
