#include "metrics/stats/cluster_sums.h"

#include <string_view>
#include <unordered_map>

namespace kvscope {

std::vector<ClusterSum> cluster_sums(std::span<const Pair> pairs) {
  std::vector<ClusterSum> sums;
  std::unordered_map<std::string_view, std::size_t> index_of;
  for (const Pair& pair : pairs) {
    const auto [found, is_new] = index_of.try_emplace(pair.cluster, sums.size());
    if (is_new) sums.emplace_back();
    ClusterSum& cluster = sums[found->second];
    cluster.sum += pair.b - pair.a;
    ++cluster.n;
  }
  return sums;
}

}  // namespace kvscope
