#include "metrics/stats/multiplicity.h"

#include <algorithm>
#include <numeric>

namespace kvscope {
namespace {

std::vector<std::size_t> ascending_order(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [p](std::size_t x, std::size_t y) { return p[x] < p[y]; });
  return order;
}

}  // namespace

std::vector<double> holm_adjusted(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending_order(p);
  std::vector<double> adjusted(p.size());
  double running = 0;
  for (std::size_t rank = 0; rank < p.size(); ++rank) {
    running = std::max(running, std::min(1.0, double(p.size() - rank) * p[order[rank]]));
    adjusted[order[rank]] = running;
  }
  return adjusted;
}

std::vector<double> benjamini_hochberg_adjusted(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending_order(p);
  std::vector<double> adjusted(p.size());
  double running = 1;
  for (std::size_t rank = p.size(); rank > 0; --rank) {
    const std::size_t test = order[rank - 1];
    running = std::min(running, double(p.size()) * p[test] / double(rank));
    adjusted[test] = running;
  }
  return adjusted;
}

}  // namespace kvscope
