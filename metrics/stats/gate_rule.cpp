#include "metrics/stats/gate_rule.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <iterator>
#include <vector>

#include "metrics/stats/cluster_sums.h"
#include "metrics/stats/paired.h"
#include "metrics/stats/pairs_report.h"
#include "metrics/stats/sample_size.h"
#include "metrics/stats/sign_flip.h"

namespace kvscope {
namespace {

namespace bm = boost::math;

constexpr double kPower = 0.80;
constexpr int kSampledFlips = 9'999;
constexpr std::uint64_t kFlipSeed = 0x6b767363;

// How many clusters like these would settle it, if the true difference were the estimate.
std::optional<std::int64_t> to_decide(const GateFigures& figures,
                                      const GateFigures::Inference& seen, const GateRule& rule) {
  const double distance = seen.delta < -rule.margin ? -seen.delta : seen.delta + rule.margin;
  if (!(distance > 0)) return std::nullopt;
  return clusters_needed(distance, seen.se, figures.clusters, rule.alpha, kPower);
}

std::optional<double> sign_flip_p(std::span<const Pair> pairs) {
  std::vector<double> sums;
  for (const ClusterSum& cluster : cluster_sums(pairs)) sums.push_back(cluster.sum);
  const auto flips = std::ssize(sums) <= kMaxSignFlipClusters
                         ? sign_flip_exact(sums)
                         : sign_flip_sampled(sums, kSampledFlips, kFlipSeed);
  return flips ? std::optional(flips->p_less) : std::nullopt;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kInconclusive:
      return "inconclusive";
    case Verdict::kError:
      return "error";
  }
  return "error";
}

GateFigures::Inference gate_inference(double delta, double se, int df, const GateRule& rule) {
  GateFigures::Inference seen;
  seen.delta = delta;
  seen.se = se;
  seen.df = df;
  if (se > 0) {
    const bm::students_t distribution(df);
    const double half = bm::quantile(bm::complement(distribution, rule.alpha)) * se;
    seen.lower = delta - half;
    seen.upper = delta + half;
    seen.p_worse = bm::cdf(distribution, delta / se);
    seen.p_noninferior = bm::cdf(distribution, -(delta + rule.margin) / se);
    const double p_above = bm::cdf(distribution, (delta - rule.margin) / se);
    seen.p_equivalent = std::max(seen.p_noninferior, p_above);
    if (rule.outlook) {
      seen.detectable_effect = detectable_effect_in_se(df, rule.alpha, kPower) * se;
    }
  } else {  // the limits of t → ±infinity, as in paired.h
    seen.lower = seen.upper = delta;
    seen.p_worse = delta < 0 ? 0 : 1;
    seen.p_noninferior = delta > -rule.margin ? 0 : 1;
    seen.p_equivalent = std::abs(delta) < rule.margin ? 0 : 1;
  }
  return seen;
}

GateFigures gate_figures(std::span<const Pair> all_pairs, const GateRule& rule) {
  const PairedSummary summary = summarise_pairs(all_pairs, rule.margin);
  GateFigures figures;
  figures.n = summary.paired.n;
  figures.clusters = summary.paired.clusters;
  figures.nonfinite_pairs = summary.nonfinite_pairs;
  figures.identical = summary.paired.identical;
  figures.mcnemar = summary.mcnemar_exact;
  if (!summary.paired.inference) return figures;

  std::vector<Pair> pairs;
  std::ranges::copy_if(all_pairs, std::back_inserter(pairs), is_usable_pair);
  const PairedInference& t = *summary.paired.inference;
  figures.inference = gate_inference(*summary.paired.mean_difference, t.se_clustered, t.df, rule);
  if (!rule.outlook) return figures;
  figures.inference->p_sign_flip = sign_flip_p(pairs);
  figures.inference->clusters_to_decide = to_decide(figures, *figures.inference, rule);
  return figures;
}

std::string_view why_not_evaluable(const GateFigures& figures, const GateRule& rule) {
  if (figures.nonfinite_pairs > 0) return "values that are not finite";
  if (figures.n < rule.min_pairs) return "fewer pairs than min_pairs";
  if (figures.clusters < std::max(2, rule.min_clusters)) {
    return "fewer clusters than min_clusters";
  }
  return "";
}

Verdict decide(const GateFigures& figures, double p_worse_adjusted, const GateRule& rule) {
  if (!why_not_evaluable(figures, rule).empty()) return Verdict::kError;
  if (figures.identical) return Verdict::kPass;
  const GateFigures::Inference& seen = *figures.inference;
  const bool not_worse = seen.lower > -rule.margin;
  const bool not_better = seen.upper < rule.margin;
  if (not_worse && (not_better || !rule.equivalence)) return Verdict::kPass;
  if (p_worse_adjusted <= rule.alpha && seen.delta < -rule.margin) return Verdict::kFail;
  return Verdict::kInconclusive;
}

}  // namespace kvscope
