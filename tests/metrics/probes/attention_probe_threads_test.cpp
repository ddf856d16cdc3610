#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "metrics/probes/attention_probe.h"
#include "tests/metrics/probes/random_stream.h"

namespace kvscope {
namespace {

constexpr int kLayers = 4;
constexpr int kKvHeads = 3;

void feed(AttentionProbe& probe, int first, int stride) {
  for (int pair = first; pair < kLayers * kKvHeads; pair += stride) {
    RandomStream stream(pair / kKvHeads, pair % kKvHeads, 2, std::uint32_t(pair));
    for (int t = 0; t < 60; ++t) stream.step(20, probe);
  }
}

void expect_same_bits(const ProbeMetric& x, const ProbeMetric& y) {
  EXPECT_EQ(x.overall, y.overall);
  EXPECT_EQ(x.by_layer, y.by_layer);
  EXPECT_EQ(x.by_step_bin, y.by_step_bin);
}

TEST(AttentionProbeThreads, DoNotChangeOneBit) {
  AttentionProbe alone({.n_layers = kLayers, .n_kv_heads = kKvHeads, .group_size = 2});
  feed(alone, 0, 1);
  AttentionProbe shared({.n_layers = kLayers, .n_kv_heads = kKvHeads, .group_size = 2});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&shared, i] { feed(shared, i, 3); });
  }
  const ProbeSummary x = alone.summary();
  const ProbeSummary y = shared.summary();
  EXPECT_GT(x.rebound_mass.overall.n, 0);
  expect_same_bits(x.rebound_mass, y.rebound_mass);
  expect_same_bits(x.hit_at_32, y.hit_at_32);
  expect_same_bits(x.hit_at_p90, y.hit_at_p90);
  expect_same_bits(x.mass_hit, y.mass_hit);
  EXPECT_EQ(x.rebound_events, y.rebound_events);
  EXPECT_EQ(x.wrongful_evictions, y.wrongful_evictions);
}

}  // namespace
}  // namespace kvscope
