// Pages of slots in device memory beside the CPU's, and the bytes of single slots, by which both
// are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runner/backend/cuda/pages.h"
#include "runner/cache/page_pool.h"
#include "runner/engine/rope_table.h"
#include "tests/runner/backend/cuda/device_array.h"

namespace kvscope::cuda::testing {

// What fresh pages hold, so that stores beside their slot are seen.
inline constexpr std::byte kUntouched{0xA5};

class DevicePages {
 public:
  DevicePages(const PageShape& shape, int n_pages) : shape_(shape) {
    for (int i = 0; i < n_pages; ++i)
      pages_.emplace_back(std::vector<std::byte>(shape.page_bytes(), kUntouched));
  }

  int n_pages() const { return int(pages_.size()); }
  std::byte* page(int i) const { return pages_[i].data(); }
  std::vector<std::byte> read(int i) const { return pages_[i].read(); }
  void write(int i, const std::byte* bytes) {
    pages_[i].write({bytes, bytes + shape_.page_bytes()});
  }
  std::vector<std::byte*> addresses() const {
    std::vector<std::byte*> all;
    for (const auto& page : pages_) all.push_back(page.data());
    return all;
  }

 private:
  PageShape shape_;
  std::vector<DeviceArray<std::byte>> pages_;
};

// All that belongs to one slot of a page: its key, value and their scales.
inline std::vector<std::byte> slot_bytes(const PageShape& shape, const std::byte* page, int slot) {
  std::vector<std::byte> bytes;
  const auto append = [&](const std::byte* from, std::size_t n) {
    bytes.insert(bytes.end(), from, from + n);
  };
  const std::size_t element = shape.stored_bytes();
  for (int i = 0; i < shape.head_dim; ++i)
    append(page + shape.key_index(i, slot) * element, element);
  const std::size_t scale_at = std::size_t(shape.head_dim) * kPageSlots + slot * sizeof(float);
  if (shape.is_quantised()) append(page + scale_at, sizeof(float));
  if (!shape.has_values) return bytes;
  const std::byte* values = page + shape.key_bytes();
  for (int i = 0; i < shape.head_dim; ++i)
    append(values + shape.value_index(slot, i) * element, element);
  if (shape.is_quantised()) append(values + scale_at, sizeof(float));
  return bytes;
}

inline std::vector<std::byte> untouched_slot(const PageShape& shape) {
  const std::vector<std::byte> page(shape.page_bytes(), kUntouched);
  return slot_bytes(shape, page.data(), 0);
}

// What sums by tensor cores may differ by more than chains in float, relative to the largest terms.
// On the CPU they are such chains, so that no measurement shows it; a device cuts the terms of each
// step of sixteen at about 2^-24 of the largest, and head_dim 512 has 32 steps.
inline constexpr double kTensorRounding = 5e-5;

inline PageShape page_shape(int head_dim, SlotFormat format, bool has_values = true) {
  PageShape shape{head_dim, DType::kF32, has_values, KvFormat::kPlain};
  if (format == SlotFormat::kF16) shape.dtype = DType::kF16;
  if (format == SlotFormat::kBF16) shape.dtype = DType::kBF16;
  if (format == SlotFormat::kInt8) shape.format = KvFormat::kInt8;
  if (format == SlotFormat::kFp8E4M3) shape.format = KvFormat::kFp8E4M3;
  if (format == SlotFormat::kFp8E5M2) shape.format = KvFormat::kFp8E5M2;
  return shape;
}

inline constexpr SlotFormat kAllFormats[] = {SlotFormat::kF32,     SlotFormat::kF16,
                                             SlotFormat::kBF16,    SlotFormat::kInt8,
                                             SlotFormat::kFp8E4M3, SlotFormat::kFp8E5M2};
inline const char* name_of(SlotFormat format) {
  constexpr const char* kNames[] = {"f32", "f16", "bf16", "int8", "fp8_e4m3", "fp8_e5m2"};
  return kNames[int(format)];
}

// cos and sin on both sides.
struct DeviceRope {
  DeviceRope(int head_dim, int n_positions)
      : host(make_rope_table(head_dim, 10000.0, n_positions)),
        cos(std::vector<float>(host.cos.begin(), host.cos.end())),
        sin(std::vector<float>(host.sin.begin(), host.sin.end())) {}
  RopeRows rows() const { return {cos.data(), sin.data()}; }

  RopeTable host;
  DeviceArray<float> cos;
  DeviceArray<float> sin;
};

}  // namespace kvscope::cuda::testing
