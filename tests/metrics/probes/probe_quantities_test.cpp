// Every quantity of the probe against the definition, on made-up streams.
#include "metrics/probes/probe_quantities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "metrics/probes/attention_probe.h"
#include "tests/metrics/probes/naive_quantities.h"
#include "tests/metrics/probes/random_stream.h"

namespace kvscope {
namespace {

void expect_equal(const AttentionProbe& probe, NaiveQuantities& naive, const std::string& what) {
  const ProbeSummary summary = probe.summary();
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    const std::string name(quantity.metric);
    const ProbeMetric& metric = summary.*quantity.member;
    EXPECT_EQ(metric.overall.nonfinite, 0) << name;
    EXPECT_EQ(metric.sketch.n(), metric.overall.n) << name;
    // Those are NaiveProbe's.
    if (std::set<std::string>{"rebound_mass", "mass_hit", "hit_at_32", "steps_to_first_event"}
            .contains(name)) {
      continue;
    }
    std::vector<double>& values = naive.values[name];
    ASSERT_EQ(metric.overall.n, std::ssize(values)) << name << ' ' << what;
    if (values.empty()) continue;
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
    // Weights are float: 1e-7 of each measured, of e^H and counts relative to their size.
    EXPECT_NEAR(metric.overall.mean, mean, 2e-7 * std::max(1.0, std::abs(mean)))
        << name << ' ' << what;
    std::sort(values.begin(), values.end());
    EXPECT_NEAR(metric.overall.min, values.front(), 1e-5 * std::max(1.0, values.front())) << name;
    EXPECT_NEAR(metric.overall.max, values.back(), 1e-5 * std::max(1.0, values.back())) << name;
    EXPECT_EQ(metric.sketch.min(), metric.overall.min) << name;
    EXPECT_EQ(metric.sketch.max(), metric.overall.max) << name;
    const double median = values[(values.size() + 1) / 2 - 1];
    const double allowed = quantity.scale == SketchScale::kRatio ? 0.0126 : 0.008 * median + 1e-6;
    EXPECT_NEAR(*metric.sketch.quantile(0.5), median, allowed) << name;
    ASSERT_TRUE(metric.worst_head) << name;
    EXPECT_DOUBLE_EQ(metric.worst_head->mean, metric.overall.mean) << name;
  }
}

TEST(ProbeQuantities, EqualTheirDefinitionsInStream) {
  for (const int budget : {5, 40, 120}) {
    for (const int head_dim : {0, 5}) {
      AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 3});
      NaiveQuantities naive(3);
      RandomStream stream(0, 0, 3, 17);
      RandomStream twin(0, 0, 3, 17);
      stream.give_outputs(head_dim);
      twin.give_outputs(head_dim);
      for (int t = 0; t < 200; ++t) {
        stream.step(budget, probe);
        twin.step(budget, naive);
      }
      expect_equal(probe, naive, "budget " + std::to_string(budget));
      const ProbeSummary summary = probe.summary();
      EXPECT_EQ(summary.key_token_drop.overall.n, 0);  // there was no prompt
      EXPECT_GT(summary.diagnosed_too_much.overall.mean, 0);
      EXPECT_EQ(summary.output_perturbation.overall.n > 0, head_dim > 0);
    }
  }
}

TEST(ProbeQuantities, EqualTheirDefinitionsAfterAPromptCut) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 2});
  NaiveQuantities naive(2);
  RandomStream stream(0, 0, 2, 5);
  RandomStream twin(0, 0, 2, 5);
  stream.cut_prompt(90, probe);
  twin.cut_prompt(90, naive);
  for (int t = 0; t < 100; ++t) {
    stream.step(45, probe);
    twin.step(45, naive);
  }
  expect_equal(probe, naive, "after a cut");
  const ProbeSummary summary = probe.summary();
  EXPECT_EQ(summary.key_token_drop.overall.n, 100);
  EXPECT_EQ(summary.delta_normalised_entropy.overall.n, 0);  // no row before the first eviction
  EXPECT_EQ(summary.eviction_age_tokens.overall.n, 45 + 100);
}

// A row of one head; the ghosts' logits may be left out.
AttentionRow row_of(int position, std::span<const float> visible,
                    std::span<const std::int32_t> visible_at, std::span<const float> ghosts,
                    std::span<const std::int32_t> ghosts_at) {
  return {.position = position,
          .visible_logits = visible,
          .visible_positions = visible_at,
          .ghost_logits = ghosts,
          .ghost_positions = ghosts_at,
          .visible_output = {},
          .ghost_output = {}};
}

TEST(ProbeQuantities, RowsWithoutGhostLogitsHaveTheVisibleOnes) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  const std::vector<std::int32_t> ghost = {0};
  const std::vector<std::int32_t> residents = {1, 2};
  probe.prompt_cut(0, 0, 3, ghost, std::vector<float>{0.5F}, residents,
                   std::vector<float>{0.25F, 0.25F});
  const std::vector<std::int32_t> visible = {1, 2, 3};
  const std::vector<float> logits = {0, 0, 0};
  for (int i = 0; i < 2; ++i) {
    probe.attention_row(row_of(3 + i, logits, visible, {}, ghost));
    probe.attention_row(row_of(3 + i, logits, visible, {}, {}));
  }
  const ProbeSummary summary = probe.summary();
  EXPECT_EQ(summary.entropy_nats.overall.n, 4);
  EXPECT_NEAR(summary.entropy_nats.overall.mean, std::log(3), 1e-7);
  EXPECT_NEAR(summary.effective_tokens.overall.mean, 3, 1e-6);
  EXPECT_NEAR(summary.normalised_entropy.overall.mean, 1, 1e-7);
  EXPECT_EQ(summary.rebound_mass.overall.n, 0);
  EXPECT_EQ(summary.diagnosed_healthy.overall.n, 0);
  EXPECT_EQ(summary.ghost_steps, 0);
}

TEST(ProbeQuantities, KeyTokensThatWereForgottenHaveNoDrop) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1},
                       {.sink_tokens = 0, .recent_tokens = 1});
  const std::vector<std::int32_t> ghosts = {0, 1};
  const std::vector<std::int32_t> residents = {2};
  probe.prompt_cut(0, 0, 3, ghosts, std::vector<float>{0.5F, 0.3F}, residents,
                   std::vector<float>{0.2F});
  const std::vector<std::int32_t> visible = {2, 3};
  const std::vector<float> logits = {0, 0};
  probe.attention_row(row_of(3, logits, visible, logits, ghosts));
  EXPECT_EQ(probe.summary().key_token_drop.overall.n, 1);
  EXPECT_NEAR(probe.summary().key_token_drop.overall.mean, 0.5, 1e-7);  // both keys are gone
  // The second one is remembered no longer.
  probe.attention_row(
      row_of(4, logits, visible, std::span(logits).first(1), std::span(ghosts).first(1)));
  EXPECT_EQ(probe.summary().key_token_drop.overall.n, 1);
  EXPECT_EQ(probe.summary().rebound_mass.overall.n, 2);
}

TEST(ProbeQuantities, RowsFarApartAreAllDiagnosed) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  const std::vector<std::int32_t> ghosts = {0};
  const std::vector<std::int32_t> residents = {1};
  probe.prompt_cut(0, 0, 2, ghosts, std::vector<float>{0.5F}, residents, std::vector<float>{0.5F});
  const std::vector<float> logits = {0};
  for (const int position : {3, 4, 5, 6, 7, 13, 21, 22}) {
    probe.attention_row(row_of(position, logits, residents, logits, ghosts));
  }
  EXPECT_EQ(probe.summary().diagnosed_healthy.overall.n, 4);  // 3, 7, 13 and 21
}

TEST(ProbeQuantities, TimeToTheFirstEventIsCountedOncePerGhost) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  const std::vector<std::int32_t> ghost = {0};
  const std::vector<std::int32_t> residents = {1, 2, 3, 4, 5, 6, 7};
  probe.prompt_cut(0, 0, 8, ghost, std::vector<float>{0.03F}, residents,
                   std::vector<float>(7, 0.1F));
  int position = 7;
  double mass = 0, rebound = 0;
  for (const double weight : {0.05, 0.2, 0.22, 0.1, 0.04, 0.3}) {  // fires at the second and last
    const std::vector<float> visible_logits(7, float(std::log((1 - weight) / 7)));
    const std::vector<float> ghost_logits = {float(std::log(weight))};
    probe.attention_row(row_of(++position, visible_logits, residents, ghost_logits, ghost));
    rebound += weight;
    if (weight == 0.2 || weight == 0.3) mass += weight;
  }
  const ProbeSummary summary = probe.summary();
  EXPECT_EQ(summary.rebound_events, 2);
  EXPECT_EQ(summary.steps_to_first_event.overall.n, 1);
  EXPECT_EQ(summary.steps_to_first_event.overall.mean, 2);  // left after row 7, came back at 9
  EXPECT_NEAR(*summary.events_per_1k_ghost_steps(), 1000.0 * 2 / 6, 1e-9);
  EXPECT_NEAR(*summary.event_mass_share(), mass / rebound, 1e-6);
}

TEST(ProbeQuantities, TheWorstHeadIsTheOneWithTheWorstMean) {
  AttentionProbe probe({.n_layers = 2, .n_kv_heads = 2, .group_size = 1});
  const std::vector<std::int32_t> ghost = {0};
  const std::vector<std::int32_t> residents = {1};
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      probe.prompt_cut(layer, head, 2, ghost, std::vector<float>{0.5F}, residents,
                       std::vector<float>{0.5F});
      AttentionRow row = row_of(2, {}, residents, {}, ghost);
      const std::vector<float> visible = {0.0F};
      const std::vector<float> lost = {layer == 1 && head == 0 ? 2.0F : -1.0F};
      row.layer = layer;
      row.kv_head = head;
      row.visible_logits = visible;
      row.ghost_logits = lost;
      probe.attention_row(row);
    }
  }
  const ProbeSummary summary = probe.summary();
  ASSERT_TRUE(summary.rebound_mass.worst_head);
  EXPECT_EQ(summary.rebound_mass.worst_head->layer, 1);
  EXPECT_EQ(summary.rebound_mass.worst_head->kv_head, 0);
  EXPECT_DOUBLE_EQ(summary.rebound_mass.worst_head->mean, summary.rebound_mass.overall.max);
  EXPECT_EQ(summary.mass_hit.worst_head->layer, 1);
  EXPECT_DOUBLE_EQ(summary.mass_hit.worst_head->mean, summary.mass_hit.overall.min);
}

TEST(ProbeQuantities, AHeadWithOneVisibleTokenIsNoFault) {
  AttentionProbe probe({.n_layers = 1, .n_kv_heads = 1, .group_size = 1});
  const std::vector<std::int32_t> ghost = {0};
  probe.prompt_cut(0, 0, 1, ghost, std::vector<float>{1}, {}, {});
  const std::vector<std::int32_t> at = {1};
  // All mass on the ghost, as far as float can tell.
  probe.attention_row(row_of(1, std::vector<float>{-300}, at, std::vector<float>{300}, ghost));
  const ProbeSummary summary = probe.summary();
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    EXPECT_EQ((summary.*quantity.member).overall.nonfinite, 0) << quantity.metric;
  }
  EXPECT_EQ(summary.entropy_nats.overall.mean, 0);
  EXPECT_EQ(summary.diagnosed_too_much.overall.mean, 1);
}

}  // namespace
}  // namespace kvscope
