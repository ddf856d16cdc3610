#include "runner/backend/cuda/kivi.h"

#include "gpu_runtime.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/page_write.h"

namespace kvscope::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kBlocks = 64;  // of a head, whose length the host need not know

// Element i of row `row` of a block whose rows have row_length elements: code · scale + zero of its
// group, in two roundings as on the CPU.
__device__ float code_at(const KiviBlock& block, const KiviHead& head, int row, int row_length,
                         int i) {
  const int per_word = 32 / head.bits;
  const int words = (row_length + per_word - 1) / per_word;
  const std::uint32_t word = block.codes[std::size_t(row) * words + i / per_word];
  const std::uint32_t code = word >> (i % per_word * head.bits) & ((1U << head.bits) - 1U);
  const __half* scale_and_zero =
      reinterpret_cast<const __half*>(block.min_max) +
      (std::size_t(row) * (row_length / head.group) + i / head.group) * 2;
  return float(code) * __half2float(scale_and_zero[0]) + __half2float(scale_and_zero[1]);
}

template <SlotFormat kFormat>
__global__ void __launch_bounds__(kThreads)
    kivi_widen_kernel(const KiviHead* heads, PageLayout layout) {
  const KiviHead head = heads[blockIdx.y];
  const int d = layout.head_dim;
  const int lane = int(threadIdx.x) % kWarpSize;
  const int warp = int(threadIdx.x) / kWarpSize;
  const int n_pages = (head.n_slots + kPageSlots - 1) / kPageSlots;
  for (int p = int(blockIdx.x); p < n_pages; p += int(gridDim.x)) {
    std::byte* out = head.out[p];
    // A page whose slots are all codes was given back.
    const std::byte* page = p < head.first_page ? nullptr : head.pages[p - head.first_page];
    const int slot = p * kPageSlots + lane;
    for (int i = 2 * warp; i < d && slot < head.n_slots; i += 2 * kWarps) {
      KeyPair key;
      if (slot < head.n_keys) {
        const KiviBlock& block = head.keys[slot / head.residual_tokens];
        const int token = slot % head.residual_tokens;
        key = {code_at(block, head, i, head.residual_tokens, token),
               code_at(block, head, i + 1, head.residual_tokens, token)};
      } else {
        key = load_key_pair<kFormat>(page, i, lane, 1.0F);
      }
      store_key_pair<SlotFormat::kF32>(out, i, lane, key, 1.0F);
    }
    std::byte* out_values = out + sizeof(float) * kPageSlots * d;
    const int live = min(head.n_slots - p * kPageSlots, kPageSlots);
    for (int s = warp; s < live; s += kWarps) {
      const bool is_code = p * kPageSlots + s < head.n_values;
      for (int i = lane; i < d; i += kWarpSize) {
        const float value = is_code ? code_at(head.values[p], head, s, d, i)
                                    : load_value<kFormat>(page + layout.value_offset, d, s, i);
        store_value<SlotFormat::kF32>(out_values, d, s, i, value, 1.0F);
      }
    }
  }
}

}  // namespace

void kivi_widen(const KiviHead* heads, int n_heads, PageLayout layout, cudaStream_t stream) {
  if (n_heads == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    if constexpr (!kIsCoded<kFormat>) {  // kivi's pages are plain
      launch(kivi_widen_kernel<kFormat>, dim3(kBlocks, unsigned(n_heads)), dim3(kThreads), 0,
             stream, heads, layout);
    }
  });
}

}  // namespace kvscope::cuda
