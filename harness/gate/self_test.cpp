#include "harness/gate/self_test.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "datasets/base/random.h"
#include "metrics/stats/paired.h"
#include "metrics/stats/sample_size.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr double kPower = 0.80;

using Clusters = std::vector<std::vector<double>>;  // differences

Clusters clusters_of(std::span<const Pair> pairs) {
  std::map<std::string, std::vector<double>> by_name;
  for (const Pair& pair : pairs) by_name[pair.cluster].push_back(pair.b - pair.a);
  Clusters clusters;
  for (auto& [name, differences] : by_name) clusters.push_back(std::move(differences));
  return clusters;
}

// As many clusters as there are, drawn with replacement, each with a random sign, moved by shift.
std::vector<Pair> draw_night(const Clusters& clusters, double shift, Random& random) {
  std::vector<Pair> night;
  for (std::size_t g = 0; g < clusters.size(); ++g) {
    const double sign = random.below(2) == 0 ? 1.0 : -1.0;
    for (const double d : clusters[random.below(clusters.size())]) {
      night.push_back({std::to_string(g), 0.0, sign * d + shift});
    }
  }
  return night;
}

// Of the mean of a night: signs make every cluster's sum have mean 0, so its variance is its
// square.
double population_se(const Clusters& clusters) {
  double squares = 0;
  double pairs = 0;
  for (const std::vector<double>& cluster : clusters) {
    double sum = 0;
    for (const double d : cluster) sum += d;
    squares += sum * sum;
    pairs += double(cluster.size());
  }
  return std::sqrt(squares) / pairs;
}

// Signs of equal sums say nothing: their mean lies on a lattice as coarse as that of a few coins.
bool sums_vary(const Clusters& clusters) {
  std::vector<double> sizes;
  for (const std::vector<double>& cluster : clusters) {
    sizes.push_back(std::abs(std::accumulate(cluster.begin(), cluster.end(), 0.0)));
  }
  const auto [least, most] = std::ranges::minmax(sizes);
  return most - least > 1e-9 * most;
}

Interval band(int runs, double probability) {
  const boost::math::binomial counts(runs, probability);
  return {boost::math::quantile(counts, 0.005),
          boost::math::quantile(boost::math::complement(counts, 0.005))};
}

}  // namespace

bool SelfTest::alarms_as_stated() const { return false_alarms <= false_alarm_band.high; }
bool SelfTest::power_as_stated() const {
  return detections >= detection_band.low && detections <= detection_band.high;
}

SelfTest run_self_test(std::span<const Pair> recorded, double alpha, int runs, std::uint64_t seed) {
  const Clusters clusters = clusters_of(recorded);
  const double se = population_se(clusters);
  if (clusters.size() < 2 || !(se > 0) || !sums_vary(clusters)) {
    throw UsageError(
        "gate --self-test: needs two clusters or more that differ by different amounts; name arms "
        "and a metric that do");
  }
  SelfTest test;
  test.pairs = std::ssize(recorded);
  test.clusters = std::ssize(clusters);
  test.runs = runs;
  test.alpha = alpha;
  test.planted_effect = -detectable_effect_in_se(int(clusters.size()) - 1, alpha, kPower) * se;

  const GateRule rule{
      .margin = 0, .alpha = alpha, .min_pairs = 2, .min_clusters = 2, .outlook = false};
  Random random(seed, "gate self-test");
  const auto fails = [&](double shift) {
    const GateFigures figures = gate_figures(draw_night(clusters, shift, random), rule);
    const double p = figures.inference ? figures.inference->p_worse : 1.0;
    return decide(figures, p, rule) == Verdict::kFail;
  };
  for (int i = 0; i < runs; ++i) test.false_alarms += fails(0.0) ? 1 : 0;
  for (int i = 0; i < runs; ++i) test.detections += fails(test.planted_effect) ? 1 : 0;
  test.false_alarm_band = band(runs, alpha);
  test.detection_band = band(runs, kPower);
  return test;
}

}  // namespace kvscope
