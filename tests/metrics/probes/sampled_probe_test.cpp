#include "metrics/probes/sampled_probe.h"

#include <gtest/gtest.h>

#include "tests/metrics/probes/random_stream.h"

namespace kvscope {
namespace {

constexpr AttentionProbeShape kShape{.n_layers = 2, .n_kv_heads = 1, .group_size = 3};

// What the engine shows of a stream's rows: no more than the sink asks for.
class Engine final : public ProbeSink {
 public:
  explicit Engine(ProbeSink& sink) : sink_(sink) {}
  void prompt_cut(int layer, int kv_head, int prompt_tokens, std::span<const std::int32_t> ghosts,
                  std::span<const float> ghost_means, std::span<const std::int32_t> residents,
                  std::span<const float> resident_means) override {
    if (sink_.layer_view(layer) == RowView::kNothing) return;
    sink_.prompt_cut(layer, kv_head, prompt_tokens, ghosts, ghost_means, residents, resident_means);
  }
  void attention_row(const AttentionRow& row) override {
    if (row.query_head == 0) view_ = sink_.row_view(row.layer, row.kv_head, row.position);
    if (view_ == RowView::kNothing) return;
    AttentionRow shown = row;
    if (view_ < RowView::kGhosts) shown.ghost_logits = {}, shown.ghost_positions = {};
    rows_with_ghosts += shown.ghost_logits.empty() ? 0 : 1;
    ++rows;
    sink_.attention_row(shown);
  }
  void evicted(int layer, int kv_head, int position, int slot, int last_slot) override {
    if (sink_.layer_view(layer) == RowView::kNothing) return;
    sink_.evicted(layer, kv_head, position, slot, last_slot);
  }
  int rows = 0;
  int rows_with_ghosts = 0;

 private:
  ProbeSink& sink_;
  RowView view_ = RowView::kNothing;
};

ProbeSummary watch(const SamplingPlan& plan, int n_rows = 240, int layer = 0) {
  SampledProbe probe(kShape, {}, plan);
  Engine engine(probe);
  RandomStream stream(layer, 0, kShape.group_size, 11);
  for (int t = 0; t < n_rows; ++t) stream.step(40, engine);
  return probe.summary();
}

SamplingPlan plan_at(int phase, int burst_rows) {
  SamplingPlan plan = sampled_plan(kShape.n_layers, 0);
  plan.phase = phase;
  plan.burst_rows = burst_rows;
  return plan;
}

TEST(SampledProbe, ACompletePlanIsTheAttentionProbe) {
  AttentionProbe probe(kShape);
  RandomStream stream(0, 0, kShape.group_size, 11);
  for (int t = 0; t < 240; ++t) stream.step(40, probe);
  const ProbeSummary all = probe.summary();
  const ProbeSummary complete = watch(complete_plan(kShape.n_layers));
  EXPECT_EQ(complete.rebound_mass.overall, all.rebound_mass.overall);
  EXPECT_EQ(complete.hit_at_32.overall, all.hit_at_32.overall);
  EXPECT_EQ(complete.rebound_events, all.rebound_events);
  EXPECT_FALSE(complete.sampled);
}

// The phases share the rows out among themselves, and each is as likely as the others: the
// estimate's expectation is the mean over all rows, for any stream.
TEST(SampledProbe, MeansAreUnbiased) {
  const ProbeSummary all = watch(complete_plan(kShape.n_layers));
  for (const auto metric : {&ProbeSummary::rebound_mass, &ProbeSummary::mass_hit,
                            &ProbeSummary::hit_at_32, &ProbeSummary::hit_at_p90}) {
    double sum = 0;
    std::int64_t n = 0;
    for (int phase = 0; phase < 8; ++phase) {
      const RunningStat overall = (watch(plan_at(phase, 4)).*metric).overall;
      sum += overall.mean * double(overall.n);
      n += overall.n;
    }
    EXPECT_EQ(n, (all.*metric).overall.n);
    EXPECT_NEAR(sum / double(n), (all.*metric).overall.mean, 1e-12);  // the order of a sum
  }
}

TEST(SampledProbe, BurstsAreInNoMean) {
  const ProbeSummary quiet = watch(plan_at(2, 0));
  const ProbeSummary bursting = watch(plan_at(2, 4));
  ASSERT_TRUE(quiet.sampled && bursting.sampled);
  EXPECT_EQ(quiet.sampled->n_bursts, 0);
  EXPECT_GT(bursting.sampled->n_bursts, 0);
  EXPECT_GT(bursting.sampled->burst_rebound_mass.n, 0);
  EXPECT_EQ(bursting.rebound_mass.overall, quiet.rebound_mass.overall);
  EXPECT_EQ(bursting.hit_at_32.overall, quiet.hit_at_32.overall);
  EXPECT_EQ(bursting.rebound_mass.by_step_bin, quiet.rebound_mass.by_step_bin);
}

TEST(SampledProbe, AsksForNoMoreThanItsPlan) {
  SampledProbe probe(kShape, {}, plan_at(2, 0));
  Engine engine(probe);
  RandomStream stream(0, 0, kShape.group_size, 11);
  for (int t = 0; t < 240; ++t) stream.step(40, engine);
  EXPECT_EQ(engine.rows, 3 * 240);
  EXPECT_EQ(engine.rows_with_ghosts, 3 * 25);  // positions 42, 50, … 234: those beyond the budget

  SampledProbe by_products(kShape, {}, by_product_plan(kShape.n_layers));
  EXPECT_EQ(by_products.layer_view(0), RowView::kVisible);
  EXPECT_EQ(by_products.row_view(0, 0, 8), RowView::kVisible);

  SampledProbe few({.n_layers = 30, .n_kv_heads = 1, .group_size = 3}, {}, sampled_plan(30, 0));
  EXPECT_EQ(few.layer_view(1), RowView::kNothing);
  EXPECT_EQ(few.row_view(1, 0, 7), RowView::kNothing);
  EXPECT_EQ(few.row_view(7, 0, 7), RowView::kOutputs);
}

TEST(SampledProbe, StepsAreTheClustersOfItsInterval) {
  const ProbeSummary summary = watch(plan_at(2, 4));
  const auto& means = summary.sampled->step_means[kReboundMassSteps];
  ASSERT_EQ(means.size(), 25U);
  double sum = 0;
  for (const double mean : means) sum += mean;
  EXPECT_NEAR(sum / 25, summary.rebound_mass.overall.mean, 1e-12);
  // t(24) 2.0639 · s / 5.
  RunningStat steps;
  for (const double mean : means) steps.add(mean);
  EXPECT_NEAR(*summary.sampled->half_interval(kReboundMassSteps), 2.0639 * *steps.standard_error(),
              1e-4 * *steps.standard_error());
  EXPECT_FALSE(SampledFacts{}.half_interval(kReboundMassSteps));
}

TEST(SampledProbe, TheExtraLayerStandsApart) {
  SamplingPlan plan = plan_at(2, 0);
  plan.layers = {0};
  plan.extra_layer = 1;
  const ProbeSummary extra = watch(plan, 240, 1);
  EXPECT_EQ(extra.rebound_mass.overall.n, 0);
  EXPECT_EQ(extra.rebound_mass.by_layer[1].n, 3 * 25);
  EXPECT_TRUE(extra.sampled->step_means[kReboundMassSteps].empty());
}

TEST(SampledProbe, SequencesMerge) {
  ProbeSummary both = watch(plan_at(2, 4));
  both.merge(watch(plan_at(5, 4)));
  EXPECT_EQ(both.sampled->step_means[kHitAt32Steps].size(), 25U + 25U);
}

}  // namespace
}  // namespace kvscope
