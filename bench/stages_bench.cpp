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
  const auto n_out = int(state.range(1));
  constexpr int kIn = 576;
  const auto backend = make_cpu_backend(0);
  const std::vector<float> values = random_values(std::size_t(n_out) * kIn);
  const auto weights = backend->pack(rows_of(values, kIn), n_out, kIn, dtype);
  const std::vector<float> x = random_values(std::size_t(rows) * kIn);
  std::vector<float> y(std::size_t(rows) * n_out);
  for (auto _ : state) backend->matmul(*weights, x, rows, RowKind::kStep, y);
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * rows * n_out * kIn, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["weights B/s"] =
      benchmark::Counter(double(weights->bytes()), benchmark::Counter::kIsIterationInvariantRate);
}
// gate_up, which stays in the processor's caches here, and the head, which does not.
void matmul_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "n_out"})->ArgsProduct({{1, 8, 32, 512}, {3072, 49152}})->UseRealTime();
}
BENCHMARK_CAPTURE(matmul, f32, DType::kF32)->Apply(matmul_shapes);
BENCHMARK_CAPTURE(matmul, bf16, DType::kBF16)->Apply(matmul_shapes);
BENCHMARK_CAPTURE(matmul, f16, DType::kF16)->Apply(matmul_shapes);

void dense_attention(benchmark::State& state, DType kv_dtype) {
  const auto rows = int(state.range(0));
  const auto backend = make_cpu_backend(0);
  const RopeTable rope = make_rope_table(kShape.head_dim, 1e5, rows);
  const std::vector<float> qkv = random_values(rows * kShape.row_floats());
  std::vector<float> out(std::size_t(rows) * kShape.n_heads * kShape.head_dim);
  PagePool pool({kShape.head_dim, kv_dtype, true});
  for (auto _ : state) {
    std::vector<HeadCache> heads(kShape.n_kv_heads, HeadCache(&pool));
    backend->attend_dense(kShape, rope, {heads.data(), qkv.data(), out.data(), rows, 0, nullptr});
  }
  state.counters["tokens/s"] =
      benchmark::Counter(rows, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(dense_attention, f32, DType::kF32)->Arg(512)->Arg(4096)->UseRealTime();
BENCHMARK_CAPTURE(dense_attention, bf16, DType::kBF16)->Arg(512)->Arg(4096)->UseRealTime();

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
