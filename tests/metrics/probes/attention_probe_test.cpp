#include "metrics/probes/attention_probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "metrics/probes/step_bins.h"
#include "tests/metrics/probes/naive_probe.h"
#include "tests/metrics/probes/random_stream.h"

namespace kvscope {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

void expect_equal(const AttentionProbe& probe, const NaiveProbe& naive) {
  const ProbeSummary summary = probe.summary();
  EXPECT_EQ(summary.rebound_mass.overall.n, std::ssize(naive.rebound_mass));
  // 3.1e-10 measured over 150 streams: weights are float, the mean is over many rows.
  EXPECT_NEAR(summary.rebound_mass.overall.mean, mean_of(naive.rebound_mass), 2e-9);
  EXPECT_NEAR(summary.mass_hit.overall.mean, 1 - mean_of(naive.rebound_mass), 2e-9);
  // Ratios of equal counts, up to the order of the sum.
  EXPECT_NEAR(summary.hit_at_32.overall.mean, mean_of(naive.hit_at_32), 1e-13);
  EXPECT_NEAR(summary.hit_at_p90.overall.mean, mean_of(naive.hit_at_p90), 1e-13);
  EXPECT_EQ(summary.top_key_hits, naive.top_hits);
  EXPECT_EQ(summary.top_key_misses, naive.top_misses);
  EXPECT_EQ(summary.ghost_steps, naive.ghost_steps);
  EXPECT_EQ(summary.rebound_events, naive.events);
  EXPECT_EQ(summary.wrongful_evictions, naive.wrongful);
  EXPECT_GT(summary.rebound_events, 20);
}

TEST(AttentionProbe, EqualsTheNaiveProbeInStream) {
  for (const int budget : {5, 40, 120}) {
    AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 3});
    NaiveProbe naive(3);
    RandomStream stream(0, 0, 3, 17);
    RandomStream twin(0, 0, 3, 17);
    for (int t = 0; t < 200; ++t) {
      stream.step(budget, probe);
      twin.step(budget, naive);
    }
    expect_equal(probe, naive);
    EXPECT_EQ(probe.summary().rebound_mass.overall.n, 3 * (200 - 1 - budget));  // steps t > B
  }
}

TEST(AttentionProbe, EqualsTheNaiveProbeAfterAPromptCut) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 2});
  NaiveProbe naive(2);
  RandomStream stream(0, 0, 2, 5);
  RandomStream twin(0, 0, 2, 5);
  stream.cut_prompt(90, probe);
  twin.cut_prompt(90, naive);
  for (int t = 0; t < 100; ++t) {
    stream.step(45, probe);
    twin.step(45, naive);
  }
  expect_equal(probe, naive);
  EXPECT_EQ(probe.summary().rebound_mass.overall.n, 200);
}

TEST(AttentionProbe, CountsFromTheFirstCountedPosition) {
  // The twin without the option: its summary after all rows less the one after 130 is what counts.
  const AttentionProbeShape shape{.n_layers = 1, .n_kv_heads = 1, .group_size = 3};
  AttentionProbe all(shape);
  AttentionProbe late(shape, {.first_counted_position = 130});
  RandomStream stream(0, 0, 3, 17);
  RandomStream twin(0, 0, 3, 17);
  for (int t = 0; t < 130; ++t) {
    stream.step(40, all);
    twin.step(40, late);
  }
  const ProbeSummary before = all.summary();
  const ProbeSummary nothing = late.summary();
  EXPECT_EQ(nothing.rebound_mass.overall, RunningStat{});
  EXPECT_TRUE(nothing.rebound_mass.by_step_bin.empty());
  EXPECT_EQ(nothing.ghost_steps, 0);
  EXPECT_EQ(nothing.rebound_events, 0);
  EXPECT_EQ(nothing.wrongful_evictions, 0);
  for (int t = 130; t < 200; ++t) {
    stream.step(40, all);
    twin.step(40, late);
  }
  const ProbeSummary after = all.summary();
  const ProbeSummary counted = late.summary();
  EXPECT_EQ(counted.rebound_mass.overall.n, 3 * 70);
  EXPECT_EQ(counted.hit_at_32.overall.n, 3 * 70);
  EXPECT_EQ(counted.hit_at_p90.overall.n, 3 * 70);
  EXPECT_EQ(counted.mass_hit.overall.n, 3 * 70);
  // Sums of about a hundred doubles in another order.
  EXPECT_NEAR(counted.rebound_mass.overall.mean * 210,
              after.rebound_mass.overall.mean * double(after.rebound_mass.overall.n) -
                  before.rebound_mass.overall.mean * double(before.rebound_mass.overall.n),
              1e-11);
  EXPECT_GT(before.rebound_events, 0);
  EXPECT_GT(counted.rebound_events, 0);
  EXPECT_EQ(counted.rebound_events, after.rebound_events - before.rebound_events);
  EXPECT_EQ(counted.wrongful_evictions, after.wrongful_evictions - before.wrongful_evictions);
  EXPECT_EQ(counted.ghost_steps, after.ghost_steps - before.ghost_steps);
  EXPECT_EQ(counted.top_key_hits, after.top_key_hits - before.top_key_hits);
  EXPECT_EQ(counted.top_key_misses, after.top_key_misses - before.top_key_misses);
}

TEST(AttentionProbe, SeesNothingWithoutGhosts) {
  AttentionProbe probe({.n_layers = 2, .n_kv_heads = 1, .group_size = 1});
  RandomStream stream(1, 0, 1, 1);
  for (int t = 0; t < 10; ++t) stream.step(100, probe);
  const ProbeSummary summary = probe.summary();
  EXPECT_EQ(summary.rebound_mass.overall, RunningStat{});
  EXPECT_EQ(summary.rebound_mass.by_layer.size(), 2U);
  EXPECT_TRUE(summary.rebound_mass.by_step_bin.empty());
  EXPECT_EQ(summary.ghost_steps, 0);
  EXPECT_EQ(summary.top_key_hits + summary.top_key_misses, 0);
}

TEST(AttentionProbe, KeepsLayersAndStepBinsApart) {
  AttentionProbe probe({.n_layers = 3, .n_kv_heads = 2, .group_size = 1});
  for (int head = 0; head < 2; ++head) {
    RandomStream first(0, head, 1, 1);
    RandomStream last(2, head, 1, 2);
    for (int t = 0; t < 20; ++t) first.step(10, probe);  // steps t = 11 … 19: 9 rows with ghosts
    for (int t = 0; t < 12; ++t) last.step(10, probe);
  }
  const ProbeMetric metric = probe.summary().rebound_mass;
  EXPECT_EQ(metric.by_layer[0].n, 18);
  EXPECT_EQ(metric.by_layer[1].n, 0);
  EXPECT_EQ(metric.by_layer[2].n, 2);
  EXPECT_EQ(metric.overall.n, 20);
  ASSERT_EQ(metric.by_step_bin.size(), 5U);  // [0,1) [1,2) [2,4) [4,8) [8,16)
  EXPECT_EQ(metric.by_step_bin[0].n, 4);
  EXPECT_EQ(metric.by_step_bin[1].n, 2);
  EXPECT_EQ(metric.by_step_bin[2].n, 4);
  EXPECT_EQ(metric.by_step_bin[3].n, 8);
  EXPECT_EQ(metric.by_step_bin[4].n, 2);
}

TEST(AttentionProbe, CountsStepsFromThePromptsEnd) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  RandomStream stream(0, 0, 1, 1);
  stream.cut_prompt(10, probe);
  for (int t = 0; t < 3; ++t) stream.step(5, probe);
  const ProbeMetric metric = probe.summary().hit_at_32;
  ASSERT_EQ(metric.by_step_bin.size(), 3U);
  for (const RunningStat& bin : metric.by_step_bin) EXPECT_EQ(bin.n, 1);
}

AttentionRow one_head_row(int position, std::span<const float> visible_logits,
                          std::span<const std::int32_t> visible_positions,
                          std::span<const float> ghost_logits,
                          std::span<const std::int32_t> ghost_positions) {
  return {.position = position,
          .visible_logits = visible_logits,
          .visible_positions = visible_positions,
          .ghost_logits = ghost_logits,
          .ghost_positions = ghost_positions,
          .visible_output = {},
          .ghost_output = {}};
}

TEST(AttentionProbe, MeetsTheHandComputedEvents) {
  // Token 0 had 0.03 on average, as in the vector; full weights of it afterwards; 8 tokens are
  // seen, so the threshold is 1/8.
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  const std::vector<std::int32_t> ghost = {0};
  const std::vector<std::int32_t> residents = {1, 2, 3, 4, 5, 6, 7};
  probe.prompt_cut(0, 0, 8, ghost, std::vector<float>{0.03F}, residents,
                   std::vector<float>(7, 0.1F));
  const std::vector<std::int32_t> visible(residents.begin(), residents.end());
  for (const double weight : {0.05, 0.2, 0.22, 0.1, 0.04, 0.3}) {
    const std::vector<float> visible_logits(7, float(std::log((1 - weight) / 7)));
    const std::vector<float> ghost_logits = {float(std::log(weight))};
    probe.attention_row(one_head_row(7, visible_logits, visible, ghost_logits, ghost));
  }
  const ProbeSummary summary = probe.summary();
  EXPECT_EQ(summary.rebound_events, 2);
  EXPECT_EQ(summary.wrongful_evictions, 2);  // 0.2 > 0.8 / 7 and 0.3 > 0.7 / 7
  EXPECT_EQ(summary.ghost_steps, 6);
  EXPECT_NEAR(summary.rebound_mass.overall.mean, 0.91 / 6, 1e-7);  // logits are float
  EXPECT_NEAR(summary.rebound_mass.overall.max, 0.3, 1e-7);
  // All lie in the buckets from 0.03 to 0.5; 0.1, 0.2 and 0.3 are edges, where a rounding decides.
  EXPECT_EQ(summary.rebound_mass_histogram[4] + summary.rebound_mass_histogram[5] +
                summary.rebound_mass_histogram[6] + summary.rebound_mass_histogram[7],
            6);
}

TEST(AttentionProbe, ProtectedResidentsProveNothingWrongful) {
  const std::vector<std::int32_t> ghost = {2};
  const std::vector<std::int32_t> visible = {0, 1, 3};
  const std::vector<float> visible_logits = {-9, 2, -9};  // sink 0 and the newest token are light
  const std::vector<float> ghost_logits = {1};
  for (const int sinks : {0, 1}) {
    AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1},
                         {.protected_sinks = sinks});
    probe.prompt_cut(0, 0, 3, ghost, std::vector<float>{0}, std::vector<std::int32_t>{0, 1},
                     std::vector<float>{0, 0});
    probe.attention_row(one_head_row(3, visible_logits, visible, ghost_logits, ghost));
    EXPECT_EQ(probe.summary().rebound_events, 1);
    EXPECT_EQ(probe.summary().wrongful_evictions, sinks == 0 ? 1 : 0);
  }
}

TEST(AttentionProbe, CountsRowsThatAreNotNumbersApart) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  const std::vector<std::int32_t> ghost = {0};
  const std::vector<std::int32_t> visible = {1};
  probe.prompt_cut(0, 0, 1, ghost, std::vector<float>{0}, {}, {});
  probe.attention_row(
      one_head_row(1, std::vector<float>{std::nanf("")}, visible, std::vector<float>{1}, ghost));
  probe.attention_row(
      one_head_row(1, std::vector<float>{1}, visible, std::vector<float>{1}, ghost));
  const ProbeSummary summary = probe.summary();
  for (const ProbeMetric* metric :
       {&summary.rebound_mass, &summary.hit_at_32, &summary.hit_at_p90, &summary.mass_hit}) {
    EXPECT_EQ(metric->overall.n, 1);
    EXPECT_EQ(metric->overall.nonfinite, 1);
  }
  EXPECT_EQ(summary.rebound_mass.overall.mean, 0.5);
  EXPECT_EQ(summary.ghost_steps, 1);
}

TEST(ProbeSummary, MergesSequences) {
  ProbeSummary parts[2];
  for (std::uint32_t i = 0; i < 2; ++i) {
    AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
    RandomStream stream(0, 0, 1, i);
    for (int t = 0; t < 30 + 20 * int(i); ++t) stream.step(10, probe);
    parts[i] = probe.summary();
  }
  ProbeSummary merged = parts[0];
  merged.merge(parts[1]);
  EXPECT_EQ(merged.rebound_mass.overall.n, 19 + 39);
  EXPECT_EQ(merged.hit_at_32.by_layer[0].n, 19 + 39);
  EXPECT_EQ(merged.hit_at_p90.by_step_bin.size(), parts[1].hit_at_p90.by_step_bin.size());
  EXPECT_EQ(merged.top_key_misses, parts[0].top_key_misses + parts[1].top_key_misses);
  EXPECT_EQ(merged.ghost_steps, parts[0].ghost_steps + parts[1].ghost_steps);
}

TEST(StepBins, DoubleInWidth) {
  EXPECT_EQ(step_bin(0), 0);
  EXPECT_EQ(step_bin(1), 1);
  EXPECT_EQ(step_bin(3), 2);
  EXPECT_EQ(step_bin(4), 3);
  for (std::int64_t step = 0; step < 100; ++step) {
    EXPECT_GE(step, step_range(step_bin(step)).low);
    EXPECT_LT(step, step_range(step_bin(step)).high);
  }
}

}  // namespace
}  // namespace kvscope
