#include "runner/backend/cpu/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runner/base/aligned_buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runner/backend/cpu/machine_limits.cpp"
// foreach_target.h includes this file once for every target and must come first.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kvscope::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
// More multiply-adds in flight than latency × ports, and with their operands still in 16 registers.
constexpr int kChains = 12;
constexpr int kStreamVectors = 8;  // read at a time

double FlopsPerRound() { return 2.0 * kChains * double(hn::Lanes(FloatTag())); }

// sum = sum · factor + term, which tends to term / (1 − factor): never denormal, never infinite.
float MultiplyAddChains(int rounds, float factor, float term) {
  const FloatTag d;
  const auto f = hn::Set(d, factor);
  const auto t = hn::Set(d, term);
  hn::Vec<FloatTag> sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = hn::Set(d, float(c));
  for (int r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) sum[c] = hn::MulAdd(sum[c], f, t);
  }
  auto total = sum[0];
  for (int c = 1; c < kChains; ++c) total = hn::Add(total, sum[c]);
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// n: a multiple of kStreamVectors vectors of the widest target (1,024 words).
std::uint32_t ReadStream(const std::uint32_t* words, std::size_t n) {
  const WordTag d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<WordTag> seen[kStreamVectors];
  for (int v = 0; v < kStreamVectors; ++v) seen[v] = hn::Zero(d);
  for (std::size_t i = 0; i < n; i += kStreamVectors * lanes) {
    for (int v = 0; v < kStreamVectors; ++v) {
      seen[v] = hn::Xor(seen[v], hn::Load(d, words + i + std::size_t(v) * lanes));
    }
  }
  auto all = seen[0];
  for (int v = 1; v < kStreamVectors; ++v) all = hn::Xor(all, seen[v]);
  return hn::GetLane(hn::SumOfLanes(d, all));
}

const char* LimitsTargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace kvscope::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvscope::cpu {
namespace {

HWY_EXPORT(FlopsPerRound);
HWY_EXPORT(MultiplyAddChains);
HWY_EXPORT(ReadStream);
HWY_EXPORT(LimitsTargetName);

constexpr int kRounds = 1'000'000;  // some milliseconds: a barrier's time does not show
constexpr std::size_t kSliceWords = 1024;
constexpr int kFewestRepetitions = 3;

// Best of repetitions for about `seconds`, each `work` (FLOPs or bytes) on every thread. What the
// loops compute is stored, so that they cannot be dropped.
template <typename Loop>
double best_rate(ThreadPool& pool, double seconds, double work, const Loop& loop) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> results(pool.size());
  double best = 0.0;
  double spent = 0.0;
  for (int i = 0; i < kFewestRepetitions || spent < seconds; ++i) {
    const auto start = Clock::now();
    pool.parallel_for(results.size(), [&](std::size_t task, int) { results[task] = loop(task); });
    const double time = std::chrono::duration<double>(Clock::now() - start).count();
    spent += time;
    best = std::max(best, work * double(results.size()) / time);
    for (const double result : results) {
      [[maybe_unused]] volatile double sink = result;
    }
  }
  return best;
}

double read_rate(ThreadPool& pool, const MeasureOptions& options) {
  const std::size_t words = options.buffer_bytes / sizeof(std::uint32_t) /
                            std::size_t(pool.size()) / kSliceWords * kSliceWords;
  const std::size_t slice = std::max(words, kSliceWords);
  const AlignedBuffer buffer(slice * sizeof(std::uint32_t) * std::size_t(pool.size()));
  // Written first: memory that nobody wrote is one page of zeros, read from the cache.
  std::memset(buffer.data(), 1, buffer.size());
  return best_rate(pool, options.seconds, double(slice * sizeof(std::uint32_t)),
                   [&](std::size_t task) {
                     return double(HWY_DYNAMIC_DISPATCH(ReadStream)(
                         buffer.as<const std::uint32_t>() + task * slice, slice));
                   });
}

}  // namespace

MachineLimits measure_machine_limits(ThreadPool& pool, const MeasureOptions& options) {
  MachineLimits limits;
  limits.vector_target = HWY_DYNAMIC_DISPATCH(LimitsTargetName)();
  volatile float factor = 0.999F;  // volatile: not known when the loop is compiled
  volatile float term = 0.001F;
  limits.f32_flops_per_second =
      best_rate(pool, options.seconds, kRounds * HWY_DYNAMIC_DISPATCH(FlopsPerRound)(),
                [f = float(factor), t = float(term)](std::size_t) {
                  return double(HWY_DYNAMIC_DISPATCH(MultiplyAddChains)(kRounds, f, t));
                });
  if (has_bf16_dot()) {
    limits.bf16_flops_per_second =
        best_rate(pool, options.seconds, kRounds * bf16_flops_per_round(),
                  [](std::size_t) { return double(bf16_dot_chains(kRounds)); });
  }
  limits.read_bytes_per_second = read_rate(pool, options);
  return limits;
}

}  // namespace kvscope::cpu
#endif
