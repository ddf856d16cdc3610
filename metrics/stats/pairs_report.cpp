#include "metrics/stats/pairs_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "metrics/stats/cluster_sums.h"
#include "metrics/stats/wilson.h"

namespace kvscope {
namespace {

// Squares of larger values and their sums would overflow.
constexpr double kLargestValue = 1e150;

void add_yes_no_tests(std::span<const Pair> pairs, PairedSummary& summary) {
  const auto is_yes_no = [](double value) { return value == 0 || value == 1; };
  if (pairs.empty() || !std::all_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
        return is_yes_no(pair.a) && is_yes_no(pair.b);
      })) {
    return;
  }
  std::int64_t gained = 0;
  std::int64_t lost = 0;
  std::int64_t a_successes = 0;
  std::int64_t b_successes = 0;
  for (const Pair& pair : pairs) {
    gained += pair.b > pair.a;
    lost += pair.b < pair.a;
    a_successes += pair.a == 1;
    b_successes += pair.b == 1;
  }
  summary.mcnemar_exact = mcnemar_exact(gained, lost);
  summary.wilson95_a = wilson95(a_successes, std::ssize(pairs));
  summary.wilson95_b = wilson95(b_successes, std::ssize(pairs));
}

}  // namespace

bool is_usable_pair(const Pair& pair) {
  return std::abs(pair.a) <= kLargestValue && std::abs(pair.b) <= kLargestValue;
}

PairedSummary summarise_pairs(std::span<const Pair> all_pairs, std::optional<double> margin) {
  std::vector<Pair> pairs;
  pairs.reserve(all_pairs.size());
  for (const Pair& pair : all_pairs) {
    if (is_usable_pair(pair)) pairs.push_back(pair);
  }

  PairedSummary summary;
  summary.nonfinite_pairs = std::ssize(all_pairs) - std::ssize(pairs);
  summary.paired = paired_t(pairs, margin);
  if (summary.paired.inference) {
    summary.mde_one_sided_05_power_80 =
        minimum_detectable_effect(summary.paired.inference->se_clustered);
  }
  summary.welch_unpaired = welch_unpaired(pairs);
  if (summary.paired.clusters <= kMaxReportedSignFlipClusters) {
    std::vector<double> sums;
    for (const ClusterSum& cluster : cluster_sums(pairs)) sums.push_back(cluster.sum);
    summary.sign_flip_exact = sign_flip_exact(sums);
  }
  add_yes_no_tests(pairs, summary);
  return summary;
}

}  // namespace kvscope
