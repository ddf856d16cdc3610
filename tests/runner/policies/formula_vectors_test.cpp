// Vectors of formulas that no code of the program computes yet, by their definition in
// policies.md 1.6 and 8: they pin the numbers that such code will be held to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runner/conform/vector_tools.h"

namespace kvscope::conform {
namespace {

constexpr double kDouble = 1e-12;  // the document's own arithmetic
constexpr double kFloat = 1e-6;    // keys and codes in float32

using Row = std::vector<double>;

double dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Softmax-weighted mean of the values at some tokens.
Row output(const Row& weights, const std::vector<Row>& values, const Positions& tokens) {
  Row out(values[0].size(), 0.0);
  double whole = 0.0;
  for (const auto i : tokens) whole += weights[i];
  for (const auto i : tokens) {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] += weights[i] / whole * values[i][j];
  }
  return out;
}

TEST(FormulaVectors, output_perturbation_is_rho_times_the_ghosts_distance) {
  const Json& vector = vector_named("metrics-output-perturbation");
  const Json& expect = vector.at("expect");
  const int t = vector.at("input").at("t");
  const auto weights = vectors_document().at("base").at("A")[t].get<Row>();
  const auto values = vector.at("input").at("values").get<std::vector<Row>>();
  const auto visible = vector.at("input").at("visible").get<Positions>();
  Positions all;
  Positions ghosts;
  for (int i = 0; i <= t; ++i) {
    all.push_back(i);
    if (std::find(visible.begin(), visible.end(), i) == visible.end()) ghosts.push_back(i);
  }
  const Row evicted = output(weights, values, visible);
  const Row full = output(weights, values, all);
  const Row ghost = output(weights, values, ghosts);
  double ghost_mass = 0.0;
  for (const auto i : ghosts) ghost_mass += weights[i];
  const double rho = ghost_mass / std::accumulate(weights.begin(), weights.begin() + t + 1, 0.0);
  EXPECT_NEAR(rho, expect.at("rho").get<double>(), kDouble);
  double squares = 0.0;
  for (std::size_t j = 0; j < full.size(); ++j) {
    EXPECT_NEAR(evicted[j], expect.at("o_evicted")[j].get<double>(), kDouble);
    EXPECT_NEAR(full[j], expect.at("o_full")[j].get<double>(), kDouble);
    EXPECT_NEAR(ghost[j], expect.at("o_ghost")[j].get<double>(), kDouble);
    EXPECT_NEAR(evicted[j] - full[j], rho * (evicted[j] - ghost[j]), kDouble);
    squares += (evicted[j] - full[j]) * (evicted[j] - full[j]);
  }
  EXPECT_NEAR(std::sqrt(squares), expect.at("abs_err").get<double>(), kDouble);
  EXPECT_NEAR(std::sqrt(squares) / std::sqrt(dot(full, full)), expect.at("rel_err").get<double>(),
              kDouble);
}

TEST(FormulaVectors, diagnosis_counts_needed_ghosts_and_wasted_slots) {
  for (const char* id : {"metrics-diagnosis-wrong", "metrics-diagnosis-toomuch"}) {
    const Json& vector = vector_named(id);
    const Json& expect = vector.at("expect");
    auto residents = vector.at("input").at("resident_evictable_weights").get<Row>();
    auto ghosts = vector.at("input").at("ghost_weights").get<Row>();
    std::sort(residents.begin(), residents.end());
    std::sort(ghosts.begin(), ghosts.end(), std::greater<>());
    const double rho = std::accumulate(ghosts.begin(), ghosts.end(), 0.0);
    EXPECT_NEAR(rho, expect.at("rho").get<double>(), kDouble);
    int needed = 0;
    for (double sum = 0.0; sum < vector.at("params").at("q").get<double>() * rho - kDouble;)
      sum += ghosts[needed++];
    int wasted = 0;
    double light = 0.0;
    for (const double weight : residents) {
      light += weight;
      if (light > vector.at("params").at("eps").get<double>() * rho) break;
      ++wasted;
    }
    EXPECT_EQ(needed, expect.at("ghosts_needed").get<int>()) << id;
    EXPECT_EQ(wasted, expect.at("wasted_slots").get<int>()) << id;
    EXPECT_EQ(needed <= wasted ? "wrong_place" : "too_much",
              expect.at("diagnosis").get<std::string>());
  }
}

TEST(FormulaVectors, int8_ghosts_bound_the_error_of_a_logit) {
  const Json& vector = vector_named("ghost-int8");
  const auto q = vector.at("input").at("q").get<Row>();
  const double root = std::sqrt(static_cast<double>(q.size()));
  double q_norm1 = 0.0;
  for (const double x : q) q_norm1 += std::abs(x);
  for (const Json& row : vector.at("expect").at("rows")) {
    const auto k = row.at("k").get<Row>();
    double largest = 0.0;
    for (const double x : k) largest = std::max(largest, std::abs(x));
    const double scale = largest / 127.0;
    Row rounded;
    for (std::size_t j = 0; j < k.size(); ++j) {
      const double code = std::nearbyint(k[j] / scale);
      EXPECT_EQ(static_cast<int>(code), row.at("codes")[j].get<int>());
      rounded.push_back(code * scale);
    }
    const double logit = dot(q, k) / root;
    const double logit_int8 = dot(q, rounded) / root;
    const double bound = q_norm1 * scale / (2.0 * root);
    EXPECT_NEAR(scale, row.at("scale").get<double>(), kDouble);
    EXPECT_NEAR(logit, row.at("logit").get<double>(), kDouble);
    EXPECT_NEAR(logit_int8, row.at("logit_int8").get<double>(), kDouble);
    EXPECT_NEAR(bound, row.at("bound").get<double>(), kDouble);
    EXPECT_LE(std::abs(logit - logit_int8), bound);
  }
}

TEST(FormulaVectors, a_page_of_ghosts_is_skipped_by_a_sound_bound) {
  const Json& vector = vector_named("ghost-certified-skip");
  const Json& expect = vector.at("expect");
  const auto q = vector.at("input").at("q").get<Row>();
  const auto page = vector.at("input").at("ghost_page").get<std::vector<Row>>();
  const double resident = vector.at("input").at("Z_S").get<double>();
  const double root = std::sqrt(static_cast<double>(q.size()));
  double bound = 0.0;
  for (std::size_t j = 0; j < q.size(); ++j) {
    double best = q[j] * page[0][j];
    for (const Row& k : page) best = std::max(best, q[j] * k[j]);
    bound += best / root;
  }
  double ghosts = 0.0;
  for (const Row& k : page) ghosts += std::exp(dot(q, k) / root);
  const double upper = static_cast<double>(page.size()) * std::exp(bound);
  EXPECT_NEAR(bound, expect.at("upper_bound_logit").get<double>(), kDouble);
  EXPECT_NEAR(upper, expect.at("U_E").get<double>(), 1e-9);
  EXPECT_NEAR(ghosts, expect.at("Z_E").get<double>(), 1e-9);
  const double rho = ghosts / (resident + ghosts);
  const double rho_upper = upper / (resident + upper);
  EXPECT_NEAR(rho, expect.at("rho_true").get<double>(), kDouble);
  EXPECT_NEAR(rho_upper, expect.at("rho_upper").get<double>(), kDouble);
  EXPECT_LE(rho, rho_upper);
  EXPECT_LT(rho_upper, vector.at("params").at("eps").get<double>());
}

TEST(FormulaVectors, a_key_turned_back_is_the_key_at_the_new_position) {
  const Json& vector = vector_named("rope-rerotate");
  const auto frequency = vector.at("params").at("inv_freq").get<std::vector<float>>();
  const int old_position = vector.at("input").at("pos_old");
  const int new_position = vector.at("input").at("pos_new");
  auto key = vector.at("input").at("k_prerope").get<std::vector<float>>();
  rotate_pairs(frequency, old_position, key);
  for (std::size_t j = 0; j < key.size(); ++j)
    EXPECT_NEAR(key[j], vector.at("expect").at("k_at_old")[j].get<double>(), kFloat);
  rotate_pairs(frequency, new_position - old_position, key);
  for (std::size_t j = 0; j < key.size(); ++j)
    EXPECT_NEAR(key[j], vector.at("expect").at("k_at_new")[j].get<double>(), kFloat);
}

}  // namespace
}  // namespace kvscope::conform
