// The scan: all rows of a unit by one block, so that a row's tokens, statistics and victims are
// known to the next without leaving the kernel.
#include "gpu_runtime.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/rule_step.h"
#include "runner/backend/cuda/scan_unit.h"

namespace kvscope::cuda {

namespace {

// Dynamic shared memory of a block.
struct RowShared {
  float* q;           // [kQueriesAtOnce][head_dim]
  float* o;           // [kQueriesAtOnce][head_dim]: Σ p v, not yet divided by the sum of p
  RowSoftmax* whole;  // [query heads of the unit]
};

// Attention of kQueries queries that lie rotated in q, over all slots. logits: optional, rows of
// logit_stride. out: [kQueries][head_dim].
template <SlotFormat kFormat, int kQueries>
__device__ void attend_queries(const HeadSlots& slots, const ScanShape& shape, const RowShared& row,
                               float* logits, int logit_stride, RowSoftmax* whole, float* out,
                               ChunkShared& shared) {
  const int d = shape.layout.head_dim;
  SoftmaxState states[kQueries];
#pragma unroll
  for (int n = 0; n < kQueries; ++n) states[n] = {0.0F, 0.0F};
  const int n_chunks = chunks_of(slots.n_slots);
  for (int c = 0; c < n_chunks; ++c) {
    const ChunkOfHead chunk{slots, c};
    float z[kQueries];
    logits_of_chunk<kFormat, kQueries>(chunk, d, shape.rope, row.q, z);
    if (logits != nullptr && chunk.is_live()) {
#pragma unroll
      for (int n = 0; n < kQueries; ++n)
        logits[std::size_t(n) * logit_stride + chunk.slot()] = z[n];
    }
    SoftmaxState of_chunk[kQueries];
    weigh_chunk<kFormat, kQueries>(chunk, z, shared, of_chunk);
    MergeFactors factors[kQueries];
#pragma unroll
    for (int n = 0; n < kQueries; ++n) factors[n] = merge(states[n], of_chunk[n]);
    values_of_chunk<kFormat, kQueries>(chunk, shape.layout, shared, [&](int n, int i, float o) {
      float& sum = row.o[n * d + i];
      sum = merged(sum, o, factors[n]);
      if (c == n_chunks - 1) out[n * d + i] = sum * whole_row(states[n]).inverse_sum;
    });
  }
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int n = 0; n < kQueries; ++n) whole[n] = whole_row(states[n]);
}

template <SlotFormat kFormat>
__global__ void __launch_bounds__(kAttendThreads, 1)
    scan_kernel(const ScanUnit* units, ScanShape shape) {
  KSHARED(ChunkShared, chunk_shared, 1);
  KSHARED(SelectShared, select_shared, 1);
  KSMEM(dynamic);
  const ScanUnit& unit = units[blockIdx.x];
  const int warp = int(threadIdx.x) / kWarpSize;
  const int d = shape.layout.head_dim;
  const int group = group_of(shape);
  RowShared row{};
  row.q = reinterpret_cast<float*>(dynamic);
  row.o = row.q + kQueriesAtOnce * d;
  row.whole = reinterpret_cast<RowSoftmax*>(row.o + kQueriesAtOnce * d);
  int n_slots = unit.n_slots;
  for (int r = 0; r < unit.n_rows; ++r) {
    const int newest = n_slots++;
    for (int h = warp; h < unit.n_kv_heads; h += block_warps())
      append_token<kFormat>(unit, shape, r, newest, h);
    __syncthreads();
    for (int h = 0; h < unit.n_kv_heads; ++h) {
      const HeadSlots slots = slots_of(unit, h, n_slots);
      float* out = outputs_of(unit, shape, r, h);
      for_query_groups(group, [&]<int kQueries>(int first) {
        load_queries<kFormat>(unit, shape, r, newest, h, first, kQueries, row.q);
        __syncthreads();
        const int head = h * group + first;
        float* logits =
            observes(unit.rule) ? unit.logits + std::size_t(head) * unit.most_slots : nullptr;
        attend_queries<kFormat, kQueries>(slots, shape, row, logits, unit.most_slots,
                                          row.whole + head, out + first * d, chunk_shared[0]);
      });
    }
    __syncthreads();
    n_slots = apply_rule<kFormat>(unit, shape, r,
                                  {n_slots, unit.first_position + r, unit.n_kv_heads * group,
                                   row.whole, unit.logits, unit.most_slots},
                                  select_shared[0]);
  }
}

}  // namespace

void scan(const ScanUnit* units, int n_units, const ScanShape& shape, cudaStream_t stream) {
  if (n_units == 0) return;
  const std::size_t shared_bytes =
      2 * kQueriesAtOnce * std::size_t(shape.layout.head_dim) * sizeof(float) +
      std::size_t(shape.n_heads) * sizeof(RowSoftmax);
  with_format(shape.layout.format, [&]<SlotFormat kFormat>() {
    launch(scan_kernel<kFormat>, dim3(n_units), dim3(kAttendThreads), shared_bytes, stream, units,
           shape);
  });
}

}  // namespace kvscope::cuda
