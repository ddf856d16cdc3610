#include "harness/gpu_check/attention_speed.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "runner/base/scratch.h"
#include "runner/base/splitmix.h"
#include "runner/engine/rope_table.h"

namespace kvscope {
namespace {

constexpr int kWarmUpCalls = 3;
constexpr int kCalls = 21;

void fill(std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = float(smix(i) >> 40) * 0x1p-23F - 1.0F;
}

}  // namespace

AttentionSpeed decode_attention_speed(Backend& backend, const AttentionShape& shape, DType kv_dtype,
                                      int n_sequences, int n_tokens) {
  const std::size_t row = shape.row_floats();
  const std::size_t out_row = std::size_t(shape.n_heads) * shape.head_dim;
  const RopeTable rope =
      make_rope_table(shape.head_dim, 10000.0, n_tokens + kWarmUpCalls + kCalls, backend.memory());
  Scratch prompt_memory(backend.memory());
  Scratch qkv_memory(backend.memory());
  Scratch out_memory(backend.memory());
  const std::span<float> prompt = prompt_memory.floats(n_tokens * row);
  const std::span<float> qkv = qkv_memory.floats(n_sequences * row);
  const std::span<float> out = out_memory.floats(n_sequences * out_row);
  fill(prompt);
  fill(qkv);

  PagePool pool({shape.head_dim, kv_dtype, true}, backend.memory());
  std::vector<HeadCache> heads(std::size_t(n_sequences) * shape.n_kv_heads, HeadCache(&pool));
  std::vector<std::int32_t> all(static_cast<std::size_t>(n_tokens));
  std::iota(all.begin(), all.end(), 0);
  std::vector<GatherJob> gathers;
  std::vector<ScanJob> scans;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const int kv_head = int(i % shape.n_kv_heads);
    const std::size_t sequence = i / shape.n_kv_heads;
    gathers.push_back({&heads[i], kv_head, all, prompt.data(), n_tokens});
    ScanJob scan;
    scan.first_kv_head = kv_head;
    scan.heads = &heads[i];
    scan.qkv = qkv.data() + sequence * row;
    scan.qkv_stride = row;
    scan.out = out.data() + sequence * out_row;
    scan.out_stride = out_row;
    scan.n_rows = 1;
    scans.push_back(scan);
  }
  backend.gather(shape, rope, gathers);
  backend.sync();

  std::vector<double> seconds;
  double slots = 0.0;
  for (int call = 0; call < kWarmUpCalls + kCalls; ++call) {
    for (ScanJob& scan : scans) scan.first_position = n_tokens + call;
    const auto start = std::chrono::steady_clock::now();
    backend.scan(shape, rope, scans);
    backend.sync();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (call < kWarmUpCalls) continue;
    seconds.push_back(time.count());
    slots += double(heads.front().n_slots()) * double(heads.size()) / kCalls;
  }
  std::ranges::nth_element(seconds, seconds.begin() + kCalls / 2);
  return {slots * double(pool.shape().token_bytes()), seconds[kCalls / 2]};
}

}  // namespace kvscope
