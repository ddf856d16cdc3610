// The engine's stages alone, in the shapes of SmolLM2-135M: matrix product, dense attention, scan.
#include <benchmark/benchmark.h>

#include <vector>

#include "runner/backend/backend.h"
#include "runner/base/splitmix.h"
#include "runner/engine/rope_table.h"

namespace kvscope {
namespace {

constexpr AttentionShape kShape{9, 3, 64};

std::vector<float> random_values(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = float(double(smix(i) >> 11) * 0x1p-52 - 1.0);
  return values;
}

void matmul(benchmark::State& state, DType dtype) {
  const auto rows = int(state.range(0));
  constexpr int kOut = 3072;
  constexpr int kIn = 576;
  const auto backend = make_cpu_backend(0);
  const auto weights = backend->pack(random_values(std::size_t(kOut) * kIn), kOut, kIn, dtype);
  const std::vector<float> x = random_values(std::size_t(rows) * kIn);
  std::vector<float> y(std::size_t(rows) * kOut);
  for (auto _ : state) backend->matmul(*weights, x, rows, y);
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * rows * kOut * kIn, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(matmul, f32, DType::kF32)->Arg(1)->Arg(8)->Arg(32)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(matmul, bf16, DType::kBF16)->Arg(1)->Arg(8)->Arg(32)->Arg(512)->UseRealTime();

void dense_attention(benchmark::State& state) {
  const auto rows = int(state.range(0));
  const auto backend = make_cpu_backend(0);
  const RopeTable rope = make_rope_table(kShape.head_dim, 1e5, rows);
  const std::vector<float> qkv = random_values(rows * kShape.row_floats());
  std::vector<float> out(std::size_t(rows) * kShape.n_heads * kShape.head_dim);
  PagePool pool({kShape.head_dim, DType::kF32, true});
  for (auto _ : state) {
    std::vector<HeadCache> heads(kShape.n_kv_heads, HeadCache(&pool));
    backend->attend_dense(kShape, rope, {heads.data(), qkv.data(), out.data(), rows, 0, nullptr});
  }
  state.counters["tokens/s"] =
      benchmark::Counter(rows, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(dense_attention)->Arg(512)->Arg(2048)->UseRealTime();

// A whole text under H2O's rule: append, attend, observe, evict, row after row.
void scan(benchmark::State& state) {
  const auto budget = int(state.range(0));
  constexpr int kRows = 2048;
  const auto backend = make_cpu_backend(0);
  const RopeTable rope = make_rope_table(kShape.head_dim, 1e5, kRows);
  const std::vector<float> qkv = random_values(kRows * kShape.row_floats());
  std::vector<float> out(std::size_t(kRows) * kShape.n_heads * kShape.head_dim);
  PagePool pool({kShape.head_dim, DType::kF32, true});
  for (auto _ : state) {
    std::vector<HeadCache> heads(kShape.n_kv_heads, HeadCache(&pool));
    std::vector<ScanJob> jobs;
    for (int h = 0; h < kShape.n_kv_heads; ++h) {
      ScanJob job;
      job.first_kv_head = h;
      job.heads = &heads[h];
      job.qkv = qkv.data();
      job.qkv_stride = kShape.row_floats();
      job.out = out.data();
      job.out_stride = std::size_t(kShape.n_heads) * kShape.head_dim;
      job.n_rows = kRows;
      job.rule.statistic = ScanRule::Statistic::kSum;
      job.rule.victim = ScanRule::Victim::kLowest;
      job.rule.budget_tokens = budget;
      job.rule.recent = budget / 2;
      jobs.push_back(job);
    }
    backend->scan(kShape, rope, jobs);
  }
  state.counters["tokens/s"] =
      benchmark::Counter(kRows, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(scan)->Arg(64)->Arg(256)->Arg(1024)->UseRealTime();

}  // namespace
}  // namespace kvscope
