// Slots that are written already (rows.h): copied, encoded anew where pages are not alike, turned
// back, widened.

#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/page_write.h"
#include "runner/backend/cuda/rows.h"

namespace kvscope::cuda {

namespace {

constexpr int kSlotsPerBlock = 4;  // one by a warp
dim3 slot_grid(int n) { return dim3((unsigned(n) + kSlotsPerBlock - 1) / kSlotsPerBlock); }
constexpr dim3 kSlotThreads(kSlotsPerBlock* kWarpSize);

// For loads of a format that is only known at run time, alike in all threads.
template <class Load>
__device__ inline KeyPair load_any(SlotFormat format, const Load& load) {
  switch (format) {
    case SlotFormat::kF16:
      return load.template operator()<SlotFormat::kF16>();
    case SlotFormat::kBF16:
      return load.template operator()<SlotFormat::kBF16>();
    case SlotFormat::kInt8:
      return load.template operator()<SlotFormat::kInt8>();
    case SlotFormat::kFp8E4M3:
      return load.template operator()<SlotFormat::kFp8E4M3>();
    case SlotFormat::kFp8E5M2:
      return load.template operator()<SlotFormat::kFp8E5M2>();
    case SlotFormat::kF32:
      break;
  }
  return load.template operator()<SlotFormat::kF32>();
}

// Between pages stored alike.
template <SlotFormat kFormat>
__global__ void copy_slots_kernel(const SlotCopy* copies, int n, PageLayout from, PageLayout to) {
  const int i = int(blockIdx.x) * kSlotsPerBlock + int(threadIdx.x) / kWarpSize;
  if (i >= n) return;  // a whole warp
  const int lane = int(threadIdx.x) % kWarpSize;
  const SlotCopy copy = copies[i];
  copy_key<kFormat>(copy.from, copy.from_slot, copy.to, copy.to_slot, to.head_dim, lane);
  if (from.has_values && to.has_values)
    copy_value<kFormat>(copy.from + from.value_offset, copy.from_slot, copy.to + to.value_offset,
                        copy.to_slot, to.head_dim, lane);
}

// Between others: as the value that is read back.
template <SlotFormat kTo>
__global__ void convert_slots_kernel(const SlotCopy* copies, int n, PageLayout from,
                                     PageLayout to) {
  const int index = int(blockIdx.x) * kSlotsPerBlock + int(threadIdx.x) / kWarpSize;
  if (index >= n) return;  // a whole warp
  const int lane = int(threadIdx.x) % kWarpSize;
  const SlotCopy copy = copies[index];
  const int d = to.head_dim;
  const auto key_at = [&](int i) {
    return load_any(from.format, [&]<SlotFormat kFrom>() {
      const float scale = kIsCoded<kFrom> ? scales_of(copy.from, d)[copy.from_slot] : 1.0F;
      return load_key_pair<kFrom>(copy.from, i, copy.from_slot, scale);
    });
  };
  store_key<kTo>(copy.to, d, copy.to_slot, key_at, lane);
  if (!from.has_values || !to.has_values) return;
  const auto value_at = [&](int i) {
    return load_any(from.format, [&]<SlotFormat kFrom>() {
      const std::byte* values = copy.from + from.value_offset;
      return KeyPair{load_value<kFrom>(values, d, copy.from_slot, i),
                     load_value<kFrom>(values, d, copy.from_slot, i + 1)};
    });
  };
  store_value_row<kTo>(copy.to + to.value_offset, d, copy.to_slot, value_at, lane);
}

template <SlotFormat kFormat>
__global__ void turn_back_slots_kernel(const SlotTurn* turns, int n, PageLayout layout,
                                       RopeRows rope) {
  const int i = int(blockIdx.x) * kSlotsPerBlock + int(threadIdx.x) / kWarpSize;
  if (i >= n) return;  // a whole warp
  const SlotTurn turn = turns[i];
  turn_back_key<kFormat>(turn.page, turn.slot, layout.head_dim, turn.steps, rope,
                         int(threadIdx.x) % kWarpSize);
}

constexpr int kWidenThreads = 256;
constexpr int kWidenWarps = kWidenThreads / kWarpSize;
constexpr int kWidenBlocks = 64;  // of a head, whose length the host need not know

template <SlotFormat kFormat>
__global__ void widen_slots_kernel(const HeadSlots* heads, std::byte* const* const* out_pages,
                                   PageLayout layout) {
  const int d = layout.head_dim;
  const int lane = int(threadIdx.x) % kWarpSize;
  const int warp = int(threadIdx.x) / kWarpSize;
  const HeadSlots head = heads[blockIdx.y];
  const int n_pages = (head.n_slots + kPageSlots - 1) / kPageSlots;
  for (int p = int(blockIdx.x); p < n_pages; p += int(gridDim.x)) {
    const std::byte* page = head.pages[p];
    std::byte* out = out_pages[blockIdx.y][p];
    const int live = min(head.n_slots - p * kPageSlots, kPageSlots);
    if (lane < live) {
      const float scale = kIsCoded<kFormat> ? scales_of(page, d)[lane] : 1.0F;
      for (int i = 2 * warp; i < d; i += 2 * kWidenWarps)
        store_key_pair<SlotFormat::kF32>(out, i, lane, load_key_pair<kFormat>(page, i, lane, scale),
                                         1.0F);
    }
    if (!layout.has_values) continue;
    std::byte* out_values = out + sizeof(float) * kPageSlots * d;
    for (int slot = warp; slot < live; slot += kWidenWarps) {
      for (int i = lane; i < d; i += kWarpSize)
        store_value<SlotFormat::kF32>(out_values, d, slot, i,
                                      load_value<kFormat>(page + layout.value_offset, d, slot, i),
                                      1.0F);
    }
  }
}

}  // namespace

void copy_slots(const SlotCopy* copies, int n, PageLayout from, PageLayout to,
                cudaStream_t stream) {
  if (n == 0) return;
  with_format(to.format, [&]<SlotFormat kTo>() {
    auto* kernel = from.format == kTo ? copy_slots_kernel<kTo> : convert_slots_kernel<kTo>;
    launch(kernel, slot_grid(n), kSlotThreads, 0, stream, copies, n, from, to);
  });
}

void turn_back_slots(const SlotTurn* turns, int n, PageLayout layout, RopeRows rope,
                     cudaStream_t stream) {
  if (n == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(turn_back_slots_kernel<kFormat>, slot_grid(n), kSlotThreads, 0, stream, turns, n, layout,
           rope);
  });
}

void widen_slots(const HeadSlots* heads, std::byte* const* const* out_pages, int n_heads,
                 PageLayout layout, cudaStream_t stream) {
  if (n_heads == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(widen_slots_kernel<kFormat>, dim3(kWidenBlocks, unsigned(n_heads)), dim3(kWidenThreads),
           0, stream, heads, out_pages, layout);
  });
}

}  // namespace kvscope::cuda
