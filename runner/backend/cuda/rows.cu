#include "runner/backend/cuda/rows.h"

#include "runner/backend/cuda/dispatch.h"
#include "runner/backend/cuda/page_write.h"

namespace kvscope::cuda {

namespace {

// ---------------------------------------------------------------- consecutive slots, page by page

constexpr int kAppendThreads = 256;
constexpr int kAppendWarps = kAppendThreads / kWarpSize;

// The rows that one page of one head gets.
struct PageRows {
  int page;   // of the head
  int begin;  // slots within the page
  int end;
  int first_row;  // of slot `begin`
};
__device__ inline PageRows page_rows(const AppendRows& job) {
  const int page = job.first_slot / kPageSlots + int(blockIdx.x);
  const int begin = max(job.first_slot, page * kPageSlots);
  const int end = min(job.first_slot + job.n_rows, (page + 1) * kPageSlots);
  return {page, begin - page * kPageSlots, end - page * kPageSlots, begin - job.first_slot};
}

// bf16 values of two slots share words: those of both slots are put together here, so that stores
// are whole words.
__device__ inline void append_bf16_values(std::byte* values, int head_dim, const PageRows& rows,
                                          const float* first_value, std::size_t row_floats) {
  const int lane = int(threadIdx.x) % kWarpSize;
  for (int pair = int(threadIdx.x) / kWarpSize; pair < kPageSlots / 2; pair += kAppendWarps) {
    const int slot = 2 * pair;
    const bool has_lower = slot >= rows.begin && slot < rows.end;
    const bool has_upper = slot + 1 >= rows.begin && slot + 1 < rows.end;
    const auto value_bits = [&](int of_slot, int i) {
      return bf16_bits(first_value[std::size_t(of_slot - rows.begin) * row_floats + i]);
    };
    auto* words = reinterpret_cast<std::uint32_t*>(values) + std::size_t(pair) * head_dim;
    auto* halves = reinterpret_cast<std::uint16_t*>(words);
    for (int i = lane; i < head_dim; i += kWarpSize) {
      if (has_lower && has_upper) {
        words[i] = value_bits(slot, i) | value_bits(slot + 1, i) << 16;
      } else if (has_lower) {
        halves[2 * i] = std::uint16_t(value_bits(slot, i));
      } else if (has_upper) {
        halves[2 * i + 1] = std::uint16_t(value_bits(slot + 1, i));
      }
    }
  }
}

// One block a page and head. Keys lie transposed, so they are turned in shared memory [kPageSlots]
// [head_dim + 1] first and stored with a slot a lane; the odd row length spreads lanes over banks.
template <SlotFormat kFormat>
__global__ void append_rows_kernel(AppendRows job, PageLayout layout, RopeRows rope) {
  KSMEM(dynamic);
  KSHARED(float, scales, kPageSlots);
  auto* turned_keys = reinterpret_cast<float*>(dynamic);
  const int d = layout.head_dim;
  const int lane = int(threadIdx.x) % kWarpSize;
  const int warp = int(threadIdx.x) / kWarpSize;
  const int head = int(blockIdx.y);
  const PageRows rows = page_rows(job);
  std::byte* page = job.heads[head].pages[rows.page];
  const float* first_key =
      job.qkv + std::size_t(rows.first_row) * job.row_floats + std::size_t(job.n_heads + head) * d;
  const float* first_value = first_key + std::size_t(job.n_kv_heads) * d;

  for (int slot = rows.begin + warp; slot < rows.end; slot += kAppendWarps) {
    const int row = slot - rows.begin;
    const int angle = job.first_position < 0 ? -1 : job.first_position + rows.first_row + row;
    const float* key = first_key + std::size_t(row) * job.row_floats;
    const TurnedRow key_at = turned_row(key, d, angle, rope);
    float* turned_key = turned_keys + slot * (d + 1);
    for (int i = 2 * lane; i < d; i += 2 * kWarpSize) {
      const KeyPair pair = key_at(i);
      turned_key[i] = pair.x;
      turned_key[i + 1] = pair.y;
    }
    if constexpr (kIsCoded<kFormat>) {
      const auto staged = [&](int i) { return KeyPair{turned_key[i], turned_key[i + 1]}; };
      const float scale = scale_of<kFormat>(staged, d, lane);
      if (lane == 0) scales_of(page, d)[slot] = scales[slot] = scale;
    }
    if (kFormat != SlotFormat::kBF16 && layout.has_values) {
      const float* value = first_value + std::size_t(row) * job.row_floats;
      store_value_row<kFormat>(page + layout.value_offset, d, slot, turned_row(value, d, -1, rope),
                               lane);
    }
  }
  if (kFormat == SlotFormat::kBF16 && layout.has_values)
    append_bf16_values(page + layout.value_offset, d, rows, first_value,
                       std::size_t(job.row_floats));
  __syncthreads();

  if (lane < rows.begin || lane >= rows.end) return;
  const float scale = kIsCoded<kFormat> ? scales[lane] : 1.0F;
  const float* turned_key = turned_keys + lane * (d + 1);
  for (int i = 2 * warp; i < d; i += 2 * kAppendWarps)
    store_key_pair<kFormat>(page, i, lane, {turned_key[i], turned_key[i + 1]}, scale);
}

// ---------------------------------------------------------------- queries

constexpr int kQueryThreads = 256;

// A pair of dimensions a thread.
__global__ void rotate_queries_kernel(QueryRows job, int head_dim, RopeRows rope,
                                      int blocks_per_row) {
  const unsigned row = blockIdx.x / unsigned(blocks_per_row);
  const unsigned part = blockIdx.x % unsigned(blocks_per_row);
  const int pair = int(part * blockDim.x + threadIdx.x);
  const int pairs_per_head = head_dim / 2;
  if (pair >= job.n_heads * pairs_per_head) return;
  const float* x = job.qkv + row * job.row_floats + std::size_t(pair) * 2;
  const std::size_t turn =
      std::size_t(job.first_angle + int(row)) * pairs_per_head + pair % pairs_per_head;
  KeyPair out = turned({x[0], x[1]}, rope.cos[turn], rope.sin[turn]);
  out.x *= job.scale;
  out.y *= job.scale;
  if (job.round_to_bf16) out = {rounded_to_bf16(out.x), rounded_to_bf16(out.y)};
  float* to = job.out + (std::size_t(row) * job.n_heads * pairs_per_head + pair) * 2;
  to[0] = out.x;
  to[1] = out.y;
}

}  // namespace

void append_rows(const AppendRows& job, PageLayout layout, RopeRows rope, cudaStream_t stream) {
  if (job.n_rows == 0) return;
  const int first_page = job.first_slot / kPageSlots;
  const int last_page = (job.first_slot + job.n_rows - 1) / kPageSlots;
  const dim3 grid(unsigned(last_page - first_page + 1), unsigned(job.n_kv_heads));
  const std::size_t shared_bytes = sizeof(float) * kPageSlots * (layout.head_dim + 1);
  with_format(layout.format, [&]<SlotFormat kFormat>() {
    launch(append_rows_kernel<kFormat>, grid, dim3(kAppendThreads), shared_bytes, stream, job,
           layout, rope);
  });
}

void rotate_queries(const QueryRows& job, int head_dim, RopeRows rope, cudaStream_t stream) {
  if (job.n_rows == 0) return;
  const int pairs = job.n_heads * (head_dim / 2);
  const int blocks_per_row = (pairs + kQueryThreads - 1) / kQueryThreads;
  launch(rotate_queries_kernel, dim3(unsigned(job.n_rows) * unsigned(blocks_per_row)),
         dim3(kQueryThreads), 0, stream, job, head_dim, rope, blocks_per_row);
}

}  // namespace kvscope::cuda
