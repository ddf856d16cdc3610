// The metrics-* vectors of policy-vectors.json through the same functions that the probes use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metrics/probes/entropy.h"
#include "metrics/probes/hit_rate.h"
#include "metrics/probes/rebound_events.h"
#include "metrics/probes/rebound_mass.h"
#include "runner/engine/logit_divergence.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;

// Logits are log(integer) rounded to float: relative 6e-8 of values up to 2.8, and as much of their
// exp.
constexpr double kFloatLogits = 2e-7;

class MetricsVectors : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(KVSCOPE_SHARED_DIR "/spec/policy-vectors.json");
    if (!file) GTEST_SKIP() << "no " KVSCOPE_SHARED_DIR "/spec/policy-vectors.json";
    all_ = Json::parse(file);
  }

  const Json& vector(const std::string& id) const {
    for (const Json& vector : all_["vectors"]) {
      if (vector["id"] == id) return vector;
    }
    throw std::runtime_error("no vector " + id);
  }
  std::vector<double> weights(int t) const { return all_["base"]["A"][std::size_t(t)]; }

  Json all_;
};

struct Part {
  std::vector<float> logits;
  std::vector<float> weights;
  std::vector<std::int32_t> positions;

  Part(const std::vector<double>& row, const std::vector<std::int32_t>& at) : positions(at) {
    for (const std::int32_t position : at) {
      weights.push_back(float(row[std::size_t(position)]));
      logits.push_back(float(std::log(row[std::size_t(position)])));
    }
  }
};

std::vector<std::int32_t> others(const std::vector<std::int32_t>& of, std::size_t n) {
  std::vector<std::int32_t> result;
  for (std::int32_t i = 0; i < std::int32_t(n); ++i) {
    if (std::find(of.begin(), of.end(), i) == of.end()) result.push_back(i);
  }
  return result;
}

TEST_F(MetricsVectors, H2o) {
  int steps = 0;
  for (const auto& [step, expect] : vector("metrics-h2o")["expect"]["per_step"].items()) {
    const std::vector<double> row = weights(std::stoi(step));
    const Part visible(row, expect["visible"]);
    const Part ghosts(row, expect["evicted"]);
    const SplitRow split{visible.logits, visible.positions, ghosts.logits, ghosts.positions};
    HitRate hit_rate;

    const RowEntropy kept = row_entropy(visible.logits);
    const RowEntropy gone = row_entropy(ghosts.logits);
    EXPECT_NEAR(rebound_mass(gone.lse, kept.lse), expect["rebound_mass"]["val"], kFloatLogits);
    EXPECT_NEAR(mass_hit(gone.lse, kept.lse), expect["mass_hit"]["val"], kFloatLogits);
    for (const auto& [k, hit] : expect["hit_at_k"].items()) {
      EXPECT_DOUBLE_EQ(hit_rate.hit_at_k(split, std::stoi(k)).ratio(), hit["val"]) << k;
    }
    const Hits nucleus = hit_rate.hit_at_mass(split, visible.weights, ghosts.weights, 0.8);
    EXPECT_EQ(nucleus.of, std::ssize(expect["nucleus_0.8"]));
    EXPECT_DOUBLE_EQ(nucleus.ratio(), expect["nucleus_hit"]["val"]);

    std::vector<float> everything = visible.logits;
    everything.insert(everything.end(), ghosts.logits.begin(), ghosts.logits.end());
    const RowEntropy full = row_entropy(everything);
    EXPECT_NEAR(kept.entropy_nats, expect["entropy_S"], kFloatLogits);
    EXPECT_NEAR(full.entropy_nats, expect["entropy_full"], kFloatLogits);
    EXPECT_NEAR(gone.effective_tokens, expect["ghost_neff"], kFloatLogits);
    ++steps;
  }
  EXPECT_EQ(steps, 3);
}

TEST_F(MetricsVectors, NontrivialHit) {
  const Json& v = vector("metrics-hit-nontrivial");
  const int t = v["input"]["t"];
  const std::vector<double> row = weights(t);
  const std::vector<std::int32_t> kept = v["input"]["visible"];
  const Part visible(row, kept);
  const Part ghosts(row, others(kept, row.size()));
  const Universe universe{.first = v["params"]["exclude_sinks"],
                          .last = t - v["params"]["exclude_recent"].get<int>()};
  const Hits hits =
      HitRate().hit_at_k({visible.logits, visible.positions, ghosts.logits, ghosts.positions},
                         v["params"]["k"], universe);
  EXPECT_EQ(hits.of, std::ssize(v["expect"]["top"]));
  EXPECT_DOUBLE_EQ(hits.ratio(), v["expect"]["hit"]["val"]);
}

TEST_F(MetricsVectors, KlDivergence) {
  const Json& v = vector("metrics-kl");
  const std::vector<float> full = v["input"]["logits_full"];
  const std::vector<float> arm = v["input"]["logits_evicted"];
  const LogitComparison forward =
      compare_logits(full, row_entropy(full).lse, arm, row_entropy(arm).lse);
  const LogitComparison reverse =
      compare_logits(arm, row_entropy(arm).lse, full, row_entropy(full).lse);
  EXPECT_NEAR(forward.kl_full_to_arm_nats, v["expect"]["kl"], kFloatLogits);
  EXPECT_NEAR(reverse.kl_full_to_arm_nats, v["expect"]["reverse_kl"], kFloatLogits);
  EXPECT_EQ(forward.top1_agrees, v["expect"]["top1_agree"]);
}

TEST_F(MetricsVectors, ReboundEvents) {
  const Json& v = vector("metrics-rebound-events");
  const std::vector<double> before = v["input"]["pre_eviction"];
  const ReboundRule rule{
      .floor = v["params"]["c"], .kappa = v["params"]["kappa"], .rearm = v["params"]["rearm"]};
  double mean = 0;
  for (const double weight : before) mean += weight / double(before.size());
  EXPECT_NEAR(mean, v["expect"]["baseline"], 1e-15);
  const double threshold = rebound_threshold(rule, v["params"]["n"], mean);
  EXPECT_DOUBLE_EQ(threshold, v["expect"]["threshold"]);
  std::vector<int> steps;
  bool is_armed = true;
  int step = 0;
  for (const double weight : v["input"]["counterfactual"]) {
    if (rebound_step(rule, threshold, weight, is_armed)) steps.push_back(step);
    ++step;
  }
  EXPECT_EQ(steps, v["expect"]["event_steps"].get<std::vector<int>>());
}

TEST_F(MetricsVectors, EntropyFromLse) {
  const Json& v = vector("metrics-entropy-lse");
  const RowEntropy row = row_entropy(v["input"]["logits"].get<std::vector<float>>());
  EXPECT_NEAR(row.lse, v["expect"]["lse"], kFloatLogits);
  EXPECT_NEAR(row.entropy_nats, v["expect"]["entropy_nats"], kFloatLogits);
  EXPECT_NEAR(row.effective_tokens, v["expect"]["neff"], kFloatLogits);
}

}  // namespace
}  // namespace kvscope
