// Differences of pairs, summed cluster by cluster: what the clustered tests work on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/stats/pair.h"

namespace kvscope {

struct ClusterSum {
  double sum = 0;  // sum of d = b - a over the cluster
  std::int64_t n = 0;
};

// [clusters], in the order in which the clusters first appear. Pairs must be finite.
std::vector<ClusterSum> cluster_sums(std::span<const Pair> pairs);

}  // namespace kvscope
