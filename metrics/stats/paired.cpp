#include "metrics/stats/paired.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <vector>

#include "metrics/stats/cluster_sums.h"
#include "metrics/stats/running_stat.h"

namespace kvscope {
namespace {

namespace bm = boost::math;

PairedInference zero_error_inference(double mean, int df, std::optional<double> margin) {
  PairedInference result;
  result.df = df;
  result.p_two_sided = mean == 0 ? 1 : 0;
  result.p_less = mean < 0 ? 0 : 1;
  result.p_greater = mean > 0 ? 0 : 1;
  result.ci95 = {mean, mean};
  result.lower_one_sided_95 = result.upper_one_sided_95 = mean;
  if (margin) result.p_noninferior = mean > -*margin ? 0 : 1;
  return result;
}

PairedInference infer(double mean, double se, int df, std::optional<double> margin) {
  if (!std::isfinite(mean / se)) return zero_error_inference(mean, df, margin);
  const bm::students_t distribution(df);
  PairedInference result;
  result.se_clustered = se;
  result.df = df;
  const double t = mean / se;
  result.t = t;
  result.p_less = bm::cdf(distribution, t);
  result.p_greater = bm::cdf(bm::complement(distribution, t));
  result.p_two_sided = std::min(1.0, 2 * std::min(result.p_less, result.p_greater));
  const double two_sided = bm::quantile(distribution, 0.975) * se;
  const double one_sided = bm::quantile(distribution, 0.95) * se;
  result.ci95 = {mean - two_sided, mean + two_sided};
  result.lower_one_sided_95 = mean - one_sided;
  result.upper_one_sided_95 = mean + one_sided;
  if (margin) {
    result.p_noninferior = bm::cdf(bm::complement(distribution, (mean + *margin) / se));
  }
  return result;
}

}  // namespace

PairedT paired_t(std::span<const Pair> pairs, std::optional<double> margin) {
  PairedT result;
  result.n = std::ssize(pairs);
  if (pairs.empty()) return result;

  const std::vector<ClusterSum> clusters = cluster_sums(pairs);
  result.clusters = std::ssize(clusters);
  result.identical =
      std::all_of(pairs.begin(), pairs.end(), [](const Pair& p) { return p.b - p.a == 0; });

  RunningStat differences;
  double sum = 0;
  for (const Pair& pair : pairs) {
    differences.add(pair.b - pair.a);
    sum += pair.b - pair.a;
  }
  const double n = double(result.n);
  const double mean = sum / n;
  result.mean_difference = mean;
  result.se_unclustered_paired = differences.standard_error();
  if (clusters.size() < 2) return result;

  double residuals = 0;
  for (const ClusterSum& cluster : clusters) {
    const double residual = cluster.sum - double(cluster.n) * mean;
    residuals += residual * residual;
  }
  const double groups = double(clusters.size());
  const double se = std::sqrt(groups / (groups - 1) * residuals) / n;
  result.inference = infer(mean, se, int(clusters.size()) - 1, margin);
  return result;
}

double minimum_detectable_effect(double standard_error) {
  const bm::normal standard;
  return (bm::quantile(standard, 0.95) + bm::quantile(standard, 0.80)) * standard_error;
}

}  // namespace kvscope
