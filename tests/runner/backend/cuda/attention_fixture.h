// What tests of attention kernels share: caches of random keys and values on the host, the same
// pages on the device, and plain attention in double over what the pages hold.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/cpu/slots.h"
#include "runner/backend/cuda/pages.h"
#include "runner/base/half.h"
#include "runner/base/splitmix.h"
#include "runner/cache/head_cache.h"
#include "tests/runner/backend/cuda/device_pages.h"

namespace kvscope::cuda::testing {

// n values in [-scale, scale).
inline std::vector<float> random_values(std::size_t n, std::uint64_t seed, float scale) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = float(double(smix(smix(seed) ^ i) >> 11) * 0x1p-52 - 1.0) * scale;
  return x;
}

// Queries [n][head_dim] as rotate_queries() would give them: scaled, rounded for bf16 pages.
inline std::vector<float> random_queries(std::size_t n, const PageShape& shape,
                                         std::uint64_t seed) {
  std::vector<float> q =
      random_values(n * shape.head_dim, seed, 2.0F / std::sqrt(float(shape.head_dim)));
  if (shape.in_pairs()) {
    for (float& x : q) x = from_bf16_bits(bf16_bits(x));
  }
  return q;
}

// Rows first … first + n - 1 of raw projections as rotate_queries() would give them.
inline std::vector<float> rotated_queries(const AttentionShape& attention, const RopeTable& rope,
                                          const std::vector<float>& qkv, int first, int n,
                                          const PageShape& shape) {
  const auto head_dim = std::size_t(attention.head_dim);
  std::vector<float> q(n * attention.n_heads * head_dim);
  for (int r = 0; r < n; ++r) {
    for (int h = 0; h < attention.n_heads; ++h) {
      cpu::rotate_row(rope, qkv.data() + (first + r) * attention.row_floats() + h * head_dim,
                      first + r, 1.0F / std::sqrt(float(head_dim)),
                      q.data() + (std::size_t(r) * attention.n_heads + h) * head_dim);
    }
  }
  if (shape.in_pairs()) {
    for (float& x : q) x = from_bf16_bits(bf16_bits(x));
  }
  return q;
}

// KV heads with n_slots random slots each. What was never written is NaN in every format.
struct HostHeads {
  PagePool pool;
  std::vector<HeadCache> heads;

  HostHeads(const PageShape& shape, int n_heads, int n_slots, std::uint64_t seed)
      : pool(shape), heads(n_heads, HeadCache(&pool)) {
    for (int h = 0; h < n_heads; ++h) {
      for (int slot = 0; slot < n_slots; ++slot) {
        const auto at = std::uint64_t(h) * 1000003 + slot;
        append(h, random_values(shape.head_dim, seed + 2 * at, 2.0F),
               random_values(shape.head_dim, seed + 2 * at + 1, 2.0F));
      }
    }
  }
  void append(int head, const std::vector<float>& key, const std::vector<float>& value) {
    HeadCache& cache = heads[head];
    const int slot = cache.append_slot(cache.n_slots(), {});
    const PageId page = cache.page_of(slot);
    if (slot % kPageSlots == 0) std::memset(pool.keys(page), 0xFF, pool.shape().page_bytes());
    write_key(pool, page, slot % kPageSlots, key.data());
    write_value(pool, page, slot % kPageSlots, value.data());
  }
};

// The pages of caches on the device, each an allocation of its own.
class DeviceHeads {
 public:
  explicit DeviceHeads(std::span<const HeadCache> heads) : slots_(upload(heads)), heads_(slots_) {}
  const HeadSlots* data() const { return heads_.data(); }
  const HeadSlots& slots(int head) const { return slots_[head]; }

 private:
  std::vector<HeadSlots> upload(std::span<const HeadCache> heads) {
    std::vector<HeadSlots> slots;
    for (const HeadCache& head : heads) {
      std::vector<std::byte*> addresses;
      for (const PageId page : head.pages()) {
        const std::byte* bytes = head.pool().keys(page);
        pages_.emplace_back(std::vector(bytes, bytes + head.pool().shape().page_bytes()));
        addresses.push_back(pages_.back().data());
      }
      tables_.emplace_back(addresses);
      slots.push_back({tables_.back().data(), nullptr, head.n_slots()});
    }
    return slots;
  }

  std::vector<DeviceArray<std::byte>> pages_;
  std::vector<DeviceArray<std::byte*>> tables_;
  std::vector<HeadSlots> slots_;
  DeviceArray<HeadSlots> heads_;
};

// Attention of one query over some slots of a cache, in double.
struct PlainRow {
  std::vector<double> out;      // [head_dim]
  std::vector<double> weights;  // of each of the slots
  double lse = 0.0;

  PlainRow(const HeadCache& head, std::span<const float> q, std::span<const int> slots)
      : out(q.size(), 0.0), weights(slots.size()) {
    std::vector<float> x(q.size());
    double sum = 0.0;
    for (std::size_t j = 0; j < slots.size(); ++j) {
      head.read_key(slots[j], x.data());
      double z = 0.0;
      for (std::size_t i = 0; i < x.size(); ++i) z += double(q[i]) * double(x[i]);
      sum += weights[j] = std::exp(z);
    }
    lse = std::log(sum);
    for (std::size_t j = 0; j < slots.size(); ++j) {
      weights[j] /= sum;
      head.read_value(slots[j], x.data());
      for (std::size_t i = 0; i < x.size(); ++i) out[i] += weights[j] * double(x[i]);
    }
  }
};

inline std::vector<int> first_slots(int n) {
  std::vector<int> slots(n);
  for (int slot = 0; slot < n; ++slot) slots[slot] = slot;
  return slots;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace kvscope::cuda::testing
