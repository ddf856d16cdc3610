#include "runner/backend/cuda/gather.h"

#include "gpu_runtime.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/page_write.h"

namespace kvscope::cuda {
namespace {

constexpr int kWarps = 8;

// A warp a token; blockIdx.y is the head.
template <SlotFormat kFormat>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    gather_kernel(GatherRows job, PageLayout layout, RopeRows rope) {
  const int lane = int(threadIdx.x) % kWarpSize;
  const int i = int(blockIdx.x) * kWarps + int(threadIdx.x) / kWarpSize;
  const GatherHead& head = job.heads[blockIdx.y];
  if (i >= head.n) return;  // the whole warp
  const int position = head.positions[i];
  const float* row = job.qkv + std::size_t(position) * job.row_floats;
  const int d = layout.head_dim;
  const int slot = head.first_slot + i;
  SlotWrite write;
  write.key = row + std::size_t(job.n_heads + head.kv_head) * d;
  write.value = write.key + std::size_t(job.n_kv_heads) * d;
  write.page = head.pages[slot / kPageSlots];
  write.slot = slot % kPageSlots;
  write.angle = head.angle == GatherAngle::kPosition ? position
                : head.angle == GatherAngle::kOrder  ? i
                                                     : -1;
  store_slot<kFormat>(write, layout, rope, lane);
}

}  // namespace

void gather_rows(const GatherRows& job, PageLayout layout, RopeRows rope, cudaStream_t stream) {
  if (job.n_jobs == 0 || job.most == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(gather_kernel<kFormat>, dim3((job.most + kWarps - 1) / kWarps, job.n_jobs),
           dim3(kWarps * kWarpSize), 0, stream, job, layout, rope);
  });
}

}  // namespace kvscope::cuda
