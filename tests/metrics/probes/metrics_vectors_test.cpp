// The metrics-* and ghost-* vectors of policy-vectors.json through the functions that the probes
// use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "metrics/probes/entropy.h"
#include "metrics/probes/ghost_bounds.h"
#include "metrics/probes/hit_rate.h"
#include "metrics/probes/output_perturbation.h"
#include "metrics/probes/rebound_events.h"
#include "metrics/probes/rebound_mass.h"
#include "metrics/probes/row_part.h"
#include "metrics/probes/swap_diagnosis.h"
#include "runner/engine/logit_divergence.h"
#include "tests/runner/policies/vector_file.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;

// Logits are log(integer) rounded to float: relative 6e-8 of values up to 2.8, and as much of their
// exp.
constexpr double kFloatLogits = 2e-7;

constexpr double kFloat = 1e-6;    // inputs rounded to float, sums of a few of them
constexpr double kDouble = 1e-12;  // the document's own arithmetic

const Json& vector(const std::string& id) { return testing::policy_vector(id); }
std::vector<double> weights(int t) {
  return testing::policy_vectors()["base"]["A"][std::size_t(t)];
}

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

TEST(MetricsVectors, H2o) {
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
    const MassHits nucleus = hit_rate.hit_at_mass(split, visible.weights, ghosts.weights, 0.8);
    EXPECT_EQ(nucleus.hits.of, std::ssize(expect["nucleus_0.8"]));
    EXPECT_DOUBLE_EQ(nucleus.hits.ratio(), expect["nucleus_hit"]["val"]);
    EXPECT_DOUBLE_EQ(nucleus.mass_ratio(), expect["nucleus_mass_hit"]["val"]);

    std::vector<float> everything = visible.logits;
    everything.insert(everything.end(), ghosts.logits.begin(), ghosts.logits.end());
    const RowEntropy full = row_entropy(everything);
    EXPECT_NEAR(kept.entropy_nats, expect["entropy_S"], kFloatLogits);
    EXPECT_NEAR(full.entropy_nats, expect["entropy_full"], kFloatLogits);
    EXPECT_NEAR(gone.effective_tokens, expect["ghost_neff"], kFloatLogits);
    EXPECT_NEAR(normalised_entropy(kept.entropy_nats, visible.logits.size()),
                expect["norm_entropy_S"], kFloatLogits);
    EXPECT_NEAR(normalised_entropy(full.entropy_nats, everything.size()),
                expect["norm_entropy_full"], kFloatLogits);
    // The same in one pass over each part, as the probe does it.
    std::vector<float> scratch(everything.size());
    const RowPart kept_part = row_part(visible.logits, visible.positions, {},
                                       std::span(scratch).first(visible.logits.size()));
    const RowPart gone_part = row_part(ghosts.logits, ghosts.positions, {},
                                       std::span(scratch).first(ghosts.logits.size()));
    EXPECT_NEAR(kept_part.entropy_nats(), expect["entropy_S"], kFloat);
    EXPECT_NEAR(joint_entropy_nats(kept_part, gone_part, rebound_mass(gone.lse, kept.lse)),
                expect["entropy_full"], kFloat);
    ++steps;
  }
  EXPECT_EQ(steps, 3);
}

TEST(MetricsVectors, NontrivialHit) {
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

TEST(MetricsVectors, KlDivergence) {
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

TEST(MetricsVectors, ReboundEvents) {
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

TEST(MetricsVectors, EntropyFromLse) {
  const Json& v = vector("metrics-entropy-lse");
  const RowEntropy row = row_entropy(v["input"]["logits"].get<std::vector<float>>());
  EXPECT_NEAR(row.lse, v["expect"]["lse"], kFloatLogits);
  EXPECT_NEAR(row.entropy_nats, v["expect"]["entropy_nats"], kFloatLogits);
  EXPECT_NEAR(row.effective_tokens, v["expect"]["neff"], kFloatLogits);
}

// Softmax-weighted mean of the values at some tokens.
std::vector<float> output(const std::vector<double>& row, const Json& values,
                          const std::vector<std::int32_t>& tokens) {
  std::vector<double> sum(values[0].size());
  double whole = 0;
  for (const std::int32_t i : tokens) {
    whole += row[std::size_t(i)];
    for (std::size_t j = 0; j < sum.size(); ++j) {
      sum[j] += row[std::size_t(i)] * values[std::size_t(i)][j].get<double>();
    }
  }
  std::vector<float> out;
  for (const double x : sum) out.push_back(float(x / whole));
  return out;
}

TEST(MetricsVectors, OutputPerturbation) {
  const Json& v = vector("metrics-output-perturbation");
  const int t = v["input"]["t"];
  const std::vector<double> row = weights(t);
  const std::vector<std::int32_t> kept = v["input"]["visible"];
  const std::vector<std::int32_t> gone = others(kept, row.size());
  const Json& values = v["input"]["values"];
  const Json& expect = v["expect"];
  const std::vector<float> visible = output(row, values, kept);
  const std::vector<float> ghosts = output(row, values, gone);
  const Part visible_part(row, kept);
  const Part ghost_part(row, gone);
  const double rebound =
      rebound_mass(row_entropy(ghost_part.logits).lse, row_entropy(visible_part.logits).lse);
  EXPECT_NEAR(rebound, expect["rho"], kFloatLogits);
  for (std::size_t j = 0; j < visible.size(); ++j) {
    EXPECT_NEAR(visible[j], expect["o_evicted"][j], kFloat);
    EXPECT_NEAR(ghosts[j], expect["o_ghost"][j], kFloat);
    EXPECT_NEAR(double(visible[j]) - rebound * double(visible[j] - ghosts[j]), expect["o_full"][j],
                kFloat);
  }
  const OutputPerturbation found = output_perturbation(visible, ghosts, rebound);
  EXPECT_NEAR(found.error_norm, expect["abs_err"], kFloat);
  EXPECT_NEAR(found.ratio(), expect["rel_err"], kFloat);
}

void expect_diagnosis(const Json& v) {
  const Json& expect = v["expect"];
  const std::vector<float> ghosts = v["input"]["ghost_weights"];
  const std::vector<float> residents = v["input"]["resident_evictable_weights"];
  double rebound = 0;
  for (const double weight : v["input"]["ghost_weights"]) rebound += weight;
  EXPECT_NEAR(rebound, expect["rho"], kDouble);
  const SwapRule rule{.wanted_share = v["params"]["q"], .spare_share = v["params"]["eps"]};
  const SwapDiagnosis found = diagnose_swap(rule, rebound, std::nullopt, ghosts, residents);
  EXPECT_EQ(found.ghosts_needed, expect["ghosts_needed"]);
  EXPECT_EQ(found.spare_slots, expect["wasted_slots"]);
  EXPECT_EQ(found.reading == SwapReading::kWrongPlace ? "wrong_place" : "too_much",
            expect["diagnosis"]);
  // Neither matters where little was lost, or where the output is the same.
  EXPECT_EQ(diagnose_swap(rule, 0.04, std::nullopt, ghosts, residents).reading,
            SwapReading::kHealthy);
  EXPECT_EQ(diagnose_swap(rule, rebound, 0.01, ghosts, residents).reading, SwapReading::kHealthy);
}

TEST(MetricsVectors, DiagnosisOfTheWrongPlace) {
  expect_diagnosis(vector("metrics-diagnosis-wrong"));
}

TEST(MetricsVectors, DiagnosisOfTooMuch) { expect_diagnosis(vector("metrics-diagnosis-toomuch")); }

double logit(const std::vector<double>& q, const std::vector<double>& k) {
  return std::inner_product(q.begin(), q.end(), k.begin(), 0.0) / std::sqrt(double(q.size()));
}

TEST(MetricsVectors, GhostsInEightBits) {
  const Json& v = vector("ghost-int8");
  const std::vector<double> q = v["input"]["q"];
  const std::vector<float> query(q.begin(), q.end());
  for (const Json& row : v["expect"]["rows"]) {
    const std::vector<double> k = row["k"];
    double largest = 0;
    for (const double x : k) largest = std::max(largest, std::abs(x));
    const double scale = largest / 127;
    EXPECT_NEAR(scale, row["scale"], kDouble);
    std::vector<double> rounded;
    for (std::size_t j = 0; j < k.size(); ++j) {
      rounded.push_back(row["codes"][j].get<double>() * scale);
      EXPECT_LE(std::abs(rounded[j] - k[j]), scale / 2 + kDouble);
    }
    const double error = std::abs(logit(q, rounded) - logit(q, k));
    EXPECT_NEAR(logit(q, k), row["logit"], kDouble);
    EXPECT_NEAR(logit(q, rounded), row["logit_int8"], kDouble);
    const double bound = int8_logit_bound(query, float(scale));
    EXPECT_NEAR(bound, row["bound"], kFloat);
    EXPECT_LE(error, bound + kFloat);
    EXPECT_LE(std::exp(error), int8_weight_factor(query, float(scale)) + kFloat);
  }
}

TEST(MetricsVectors, APageOfGhostsThatCannotMatter) {
  const Json& v = vector("ghost-certified-skip");
  const Json& expect = v["expect"];
  const std::vector<double> q = v["input"]["q"];
  const std::vector<std::vector<double>> page = v["input"]["ghost_page"];
  std::vector<float> low(q.size(), INFINITY);
  std::vector<float> high(q.size(), -INFINITY);
  double ghosts = 0;
  for (const std::vector<double>& k : page) {
    ghosts += std::exp(logit(q, k));
    for (std::size_t j = 0; j < k.size(); ++j) {
      low[j] = std::min(low[j], float(k[j]));
      high[j] = std::max(high[j], float(k[j]));
    }
  }
  const double resident = v["input"]["Z_S"];
  const double bound = box_logit_bound(std::vector<float>(q.begin(), q.end()), low, high);
  EXPECT_NEAR(bound, expect["upper_bound_logit"], kFloat);
  EXPECT_NEAR(double(page.size()) * std::exp(bound), expect["U_E"], 20 * kFloat);
  EXPECT_NEAR(ghosts, expect["Z_E"], 1e-9);
  const std::vector<double> bounds = {bound};
  const std::vector<std::int32_t> sizes = {std::int32_t(page.size())};
  const double upper = rebound_upper_bound(bounds, sizes, std::log(resident));
  EXPECT_NEAR(upper, expect["rho_upper"], kFloat);
  const double rebound = rebound_mass(std::log(ghosts), std::log(resident));
  EXPECT_NEAR(rebound, expect["rho_true"], kDouble);
  EXPECT_LE(rebound, upper);
  EXPECT_LT(upper, v["params"]["eps"].get<double>());
}

}  // namespace
}  // namespace kvscope
