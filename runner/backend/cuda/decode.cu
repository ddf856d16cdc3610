// Rows of one token with their attention spread over blocks: a block a chunk of slots leaves the
// chunk's softmax state and Σ p v, a block a query head merges them in order of chunks. decode_step
// lets a block a unit run the rule afterwards.
#include "gpu_runtime.h"
#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/rule_step.h"
#include "runner/backend/cuda/scan_unit.h"

namespace kvscope::cuda {

namespace {

// Blocks of an SM: more would leave too few registers for loads under way.
constexpr int kAttendBlocks = 2;
constexpr int kMergeThreads = 128;
// Observing and selecting go through all slots, so that long caches are worth large blocks.
constexpr int kRuleThreads = 1024;
constexpr int kLongCache = 2048;

// What the blocks of a row (a KV head's) leave for those after them, in one array.
struct Partials {
  float* values = nullptr;         // [n_rows][group][n_chunks][head_dim]
  SoftmaxState* states = nullptr;  // [n_rows][group][n_chunks]
  RowSoftmax* whole = nullptr;     // [n_rows][group]
  int group = 0;
  int n_chunks = 0;  // of the longest row
  int head_dim = 0;

  __device__ std::size_t chunk_at(int row, int query, int chunk) const {
    return (std::size_t(row) * group + query) * n_chunks + chunk;
  }
};

Partials partials_in(float* scratch, int n_rows, int group, int n_chunks, int head_dim) {
  const std::size_t n = std::size_t(n_rows) * group * n_chunks;
  Partials partials;
  partials.values = scratch;
  partials.states = reinterpret_cast<SoftmaxState*>(scratch + n * head_dim);
  partials.whole = reinterpret_cast<RowSoftmax*>(partials.states + n);
  partials.group = group;
  partials.n_chunks = n_chunks;
  partials.head_dim = head_dim;
  return partials;
}

// One chunk of kQueries queries, from query `first` of a row on, that lie in q.
template <SlotFormat kFormat, int kQueries>
__device__ void attend_part(const ChunkOfHead& chunk, const PageLayout& layout,
                            const RopeRows& rope, const float* q, int row, int first, float* logits,
                            int logit_stride, const Partials& partials, ChunkShared& shared) {
  float z[kQueries];
  logits_of_chunk<kFormat, kQueries>(chunk, layout.head_dim, rope, q, z);
  if (logits != nullptr && chunk.is_live()) {
#pragma unroll
    for (int n = 0; n < kQueries; ++n)
      logits[std::size_t(first + n) * logit_stride + chunk.slot()] = z[n];
  }
  SoftmaxState states[kQueries];
  weigh_chunk<kFormat, kQueries>(chunk, z, shared, states);
  values_of_chunk<kFormat, kQueries>(chunk, layout, shared, [&](int n, int i, float o) {
    const std::size_t at = partials.chunk_at(row, first + n, chunk.chunk);
    partials.values[at * layout.head_dim + i] = o;
    if (i == 0) partials.states[at] = states[n];
  });
}

// By a block: output [head_dim] of a query from the parts of its n_chunks chunks.
__device__ void merge_parts(const Partials& partials, int row, int query, int n_chunks,
                            float* out) {
  const std::size_t first = partials.chunk_at(row, query, 0);
  for (int i = int(threadIdx.x); i < partials.head_dim; i += int(blockDim.x)) {
    SoftmaxState state{0.0F, 0.0F};
    float o = 0.0F;
#pragma unroll 4
    for (int c = 0; c < n_chunks; ++c) {
      const float part = partials.values[(first + c) * partials.head_dim + i];
      o = merged(o, part, merge(state, partials.states[first + c]));
    }
    const RowSoftmax whole = whole_row(state);
    out[i] = o * whole.inverse_sum;
    if (i == 0) partials.whole[std::size_t(row) * partials.group + query] = whole;
  }
}

// Grid: chunks × units × heads of a unit.
template <SlotFormat kFormat>
__global__ void __launch_bounds__(kAttendThreads, kAttendBlocks)
    decode_part_kernel(const ScanUnit* units, ScanShape shape, Partials partials) {
  KSHARED(ChunkShared, shared, 1);
  KSMEM(dynamic);
  float* q = reinterpret_cast<float*>(dynamic);
  const ScanUnit& unit = units[blockIdx.y];
  const int h = int(blockIdx.z);
  const int n_slots = unit.n_slots + 1;
  const int chunk = int(blockIdx.x);
  if (h >= unit.n_kv_heads || chunk * kChunkSlots >= n_slots) return;
  if (chunk == chunks_of(n_slots) - 1) {  // no other block looks at the row's own token
    if (threadIdx.x < kWarpSize) append_token<kFormat>(unit, shape, 0, n_slots - 1, h);
    __syncthreads();
  }
  const HeadSlots slots = slots_of(unit, h, n_slots);
  float* logits = observes(unit.rule)
                      ? unit.logits + std::size_t(h) * partials.group * unit.most_slots
                      : nullptr;
  for_query_groups(partials.group, [&]<int kQueries>(int first) {
    load_queries<kFormat>(unit, shape, 0, n_slots - 1, h, first, kQueries, q);
    __syncthreads();
    attend_part<kFormat, kQueries>({slots, chunk}, shape.layout, shape.rope, q,
                                   unit.heads_before + h, first, logits, unit.most_slots, partials,
                                   shared[0]);
  });
}

// Grid: query heads of a KV head × units × heads of a unit.
__global__ void __launch_bounds__(kMergeThreads)
    decode_merge_kernel(const ScanUnit* units, ScanShape shape, Partials partials) {
  const ScanUnit& unit = units[blockIdx.y];
  const int query = int(blockIdx.x);
  const int h = int(blockIdx.z);
  if (h >= unit.n_kv_heads) return;
  merge_parts(partials, unit.heads_before + h, query, chunks_of(unit.n_slots + 1),
              outputs_of(unit, shape, 0, h) + query * partials.head_dim);
}

template <SlotFormat kFormat>
__global__ void __launch_bounds__(kRuleThreads)
    decode_rule_kernel(const ScanUnit* units, ScanShape shape, Partials partials) {
  KSHARED(SelectShared, shared, 1);
  const ScanUnit& unit = units[blockIdx.x];
  apply_rule<kFormat>(unit, shape, 0,
                      {unit.n_slots + 1, unit.first_position, unit.n_kv_heads * partials.group,
                       partials.whole + std::size_t(unit.heads_before) * partials.group,
                       unit.logits, unit.most_slots},
                      shared[0]);
}

// Grid: chunks × rows.
template <SlotFormat kFormat>
__global__ void __launch_bounds__(kAttendThreads, kAttendBlocks)
    attend_part_kernel(const AttendRow* rows, PageLayout layout, RopeRows rope, Partials partials) {
  KSHARED(ChunkShared, shared, 1);
  KSMEM(dynamic);
  float* q = reinterpret_cast<float*>(dynamic);
  const int row = int(blockIdx.y);
  const HeadSlots slots = rows[row].slots;
  const int chunk = int(blockIdx.x);
  if (chunk * kChunkSlots >= slots.n_slots) return;
  for_query_groups(partials.group, [&]<int kQueries>(int first) {
    for (int i = int(threadIdx.x); i < kQueries * layout.head_dim; i += kAttendThreads)
      q[i] = rows[row].q[first * layout.head_dim + i];
    __syncthreads();
    attend_part<kFormat, kQueries>({slots, chunk}, layout, rope, q, row, first, rows[row].logits,
                                   slots.n_slots, partials, shared[0]);
  });
}

// Grid: queries of a row × rows.
__global__ void __launch_bounds__(kMergeThreads)
    attend_merge_kernel(const AttendRow* rows, Partials partials) {
  const AttendRow& row = rows[blockIdx.y];
  merge_parts(partials, int(blockIdx.y), int(blockIdx.x), chunks_of(row.slots.n_slots),
              row.out + blockIdx.x * partials.head_dim);
}

// Grid: chunks × rows.
__global__ void __launch_bounds__(kAttendThreads)
    attend_weights_kernel(const AttendRow* rows, Partials partials) {
  const AttendRow& row = rows[blockIdx.y];
  const int slot = int(blockIdx.x) * kChunkSlots + int(threadIdx.x);
  if (row.weights == nullptr || slot >= row.slots.n_slots) return;
  for (int query = 0; query < partials.group; ++query) {
    const std::size_t at = std::size_t(query) * row.slots.n_slots + slot;
    row.weights[at] = probability(row.logits[at],
                                  partials.whole[std::size_t(blockIdx.y) * partials.group + query]);
  }
}

// Grid: chunks × rows.
template <SlotFormat kFormat>
__global__ void __launch_bounds__(kAttendThreads, kAttendBlocks)
    row_logits_kernel(const AttendRow* rows, int group, PageLayout layout, RopeRows rope) {
  KSMEM(dynamic);
  float* q = reinterpret_cast<float*>(dynamic);
  const AttendRow& row = rows[blockIdx.y];
  const HeadSlots slots = row.slots;
  const ChunkOfHead chunk{slots, int(blockIdx.x)};
  if (chunk.chunk * kChunkSlots >= slots.n_slots) return;
  for_query_groups(group, [&]<int kQueries>(int first) {
    __syncthreads();
    for (int i = int(threadIdx.x); i < kQueries * layout.head_dim; i += kAttendThreads)
      q[i] = row.q[first * layout.head_dim + i];
    __syncthreads();
    float z[kQueries];
    logits_of_chunk<kFormat, kQueries>(chunk, layout.head_dim, rope, q, z);
    if (!chunk.is_live()) return;
#pragma unroll
    for (int n = 0; n < kQueries; ++n)
      row.logits[std::size_t(first + n) * slots.n_slots + chunk.slot()] = z[n];
  });
}

std::size_t query_bytes(int head_dim) {
  return std::size_t(kQueriesAtOnce) * head_dim * sizeof(float);
}

}  // namespace

std::size_t decode_partial_floats(int n_heads_total, int group, int head_dim, int most_slots) {
  const std::size_t n_queries = std::size_t(n_heads_total) * group;
  constexpr std::size_t kStateFloats = sizeof(SoftmaxState) / sizeof(float);
  return n_queries * (chunks_of(most_slots) * (head_dim + kStateFloats) + kStateFloats);
}

void decode_step(const ScanUnit* units, int n_units, int n_heads_total, int most_slots,
                 const ScanShape& shape, float* partials, cudaStream_t stream) {
  if (n_units == 0) return;
  const int group = shape.n_heads / shape.n_kv_heads;
  const int head_dim = shape.layout.head_dim;
  const int n_chunks = chunks_of(most_slots);
  // A unit has one head, or all of the layer.
  const int most_heads = n_heads_total == n_units ? 1 : shape.n_kv_heads;
  const Partials parts = partials_in(partials, n_heads_total, group, n_chunks, head_dim);
  const int rule_threads = most_slots > kLongCache ? kRuleThreads : kAttendThreads;
  with_format(shape.layout.format, [&]<SlotFormat kFormat>() {
    launch(decode_part_kernel<kFormat>, dim3(n_chunks, n_units, most_heads), dim3(kAttendThreads),
           query_bytes(head_dim), stream, units, shape, parts);
    launch(decode_merge_kernel, dim3(group, n_units, most_heads), dim3(kMergeThreads), 0, stream,
           units, shape, parts);
    launch(decode_rule_kernel<kFormat>, dim3(n_units), dim3(rule_threads), 0, stream, units, shape,
           parts);
  });
}

void attend_rows(const AttendRow* rows, int n_rows, int group, int most_slots, PageLayout layout,
                 RopeRows rope, float* partials, cudaStream_t stream) {
  if (n_rows == 0) return;
  const int n_chunks = chunks_of(most_slots);
  const Partials parts = partials_in(partials, n_rows, group, n_chunks, layout.head_dim);
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(attend_part_kernel<kFormat>, dim3(n_chunks, n_rows), dim3(kAttendThreads),
           query_bytes(layout.head_dim), stream, rows, layout, rope, parts);
  });
  launch(attend_merge_kernel, dim3(group, n_rows), dim3(kMergeThreads), 0, stream, rows, parts);
  launch(attend_weights_kernel, dim3(n_chunks, n_rows), dim3(kAttendThreads), 0, stream, rows,
         parts);
}

void row_logits(const AttendRow* rows, int n_rows, int group, int most_slots, PageLayout layout,
                RopeRows rope, cudaStream_t stream) {
  if (n_rows == 0 || most_slots == 0) return;
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(row_logits_kernel<kFormat>, dim3(chunks_of(most_slots), n_rows), dim3(kAttendThreads),
           query_bytes(layout.head_dim), stream, rows, group, layout, rope);
  });
}

}  // namespace kvscope::cuda
