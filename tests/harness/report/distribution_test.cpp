#include "harness/report/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvscope {
namespace {

using ::testing::ElementsAre;

ArmMetricRow row(const std::string& task, const std::string& metric, double mean) {
  ArmMetricRow r;
  r.task = task;
  r.dataset = task;
  r.metric = metric;
  r.mean = mean;
  return r;
}

TEST(Distribution, TheDiagnosisIsWhatMostRowsSay) {
  const std::vector<ArmMetricRow> metrics = {
      row("needle", "diagnosed_healthy", 0.2),   row("needle", "diagnosed_wrong_place", 0.5),
      row("needle", "diagnosed_too_much", 0.3),  row("needle", "suggested_budget_tokens", 300),
      row("qa", "diagnosed_healthy", 0.1),       row("qa", "diagnosed_wrong_place", 0.1),
      row("qa", "diagnosed_too_much", 0.8),      row("qa", "suggested_budget_tokens", 211.6),
      row("perplexity", "diagnosed_healthy", 1), row("perplexity", "nll_nats", 2)};
  EXPECT_EQ(diagnosis_text(metrics),
            "needle: compressed the wrong place (healthy 20 %, wrong place 50 %, too much 30 % of "
            "rows)\n"
            "qa: compressed too much (healthy 10 %, wrong place 10 %, too much 80 % of rows), "
            "suggested budget 212 tokens\n"
            "perplexity: healthy (healthy 100 %, wrong place 0 %, too much 0 % of rows)\n");
  const Json json = diagnosis_json(metrics);
  EXPECT_EQ(json[0]["reading"], "wrong_place");
  EXPECT_EQ(json[1]["share_too_much"], 0.8);
  EXPECT_TRUE(json[2]["suggested_budget_tokens"].is_null());
  EXPECT_EQ(diagnosis_text({}), "");
}

TEST(Distribution, AMetricWithoutOneHasDashes) {
  EXPECT_THAT(distribution_cells(nullptr), ElementsAre("-", "-", "-", "-", "-"));
  EXPECT_TRUE(distribution_json(nullptr).is_null());
}

TEST(Distribution, PercentilesAreThoseOfTheSketch) {
  MetricSketch one{"needle", "needle", "rebound_mass", Sketch(), WorstHead{0.75, 3, 1}};
  for (int i = 0; i < 100; ++i) one.sketch.add(i < 98 ? 0.0 : 1.0);
  const std::vector<MetricSketch> all = {one};
  EXPECT_EQ(find_sketch(all, row("needle", "rebound_mass", 0)), all.data());
  EXPECT_EQ(find_sketch(all, row("qa", "rebound_mass", 0)), nullptr);
  const auto cells = distribution_cells(all.data());
  EXPECT_EQ(cells[0], "0");
  EXPECT_EQ(cells[2], "1");
  EXPECT_EQ(cells[4], "layer 3 head 1: 0.75");
  const Json json = distribution_json(all.data());
  EXPECT_EQ(json["p95"], 0.0);
  EXPECT_EQ(json["n"], 100);
  EXPECT_EQ(json["worst_head"]["kv_head"], 1);
}

}  // namespace
}  // namespace kvscope
