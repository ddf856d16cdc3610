#include "metrics/probes/row_part.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvscope {
namespace {

// Float lanes over blocks, then double: vectorises, and rounds like sums of few numbers.
constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 256;
template <typename Term>
double sum_over(std::size_t n, const Term& term) {
  std::array<float, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < n; ++i) lanes[0] += term(i);
  double sum = 0;
  for (const float lane : lanes) sum += double(lane);
  return sum;
}

double plogp(double p) { return p > 0 ? p * std::log(p) : 0; }

}  // namespace

double RowPart::entropy_nats() const {
  return exp.sum > 0 ? std::max(0.0, std::log(exp.sum) - weighted_sum / exp.sum) : 0;
}

RowPart row_part(std::span<const float> logits, std::span<const std::int32_t> positions,
                 const Universe& universe, std::span<float> weights, bool ends) {
  RowPart part{.exp = exp_weights(logits, weights)};
  const float largest = part.exp.largest_logit;
  const std::int32_t first = universe.first;
  const std::int32_t last = universe.last;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::size_t n = std::min(logits.size() - begin, kBlock);
    const float* w = weights.data() + begin;
    const float* z = logits.data() + begin;
    const std::int32_t* at = positions.data() + begin;
    part.weighted_sum += sum_over(n, [=](std::size_t i) { return w[i] * (z[i] - largest); });
    part.inside_sum +=
        sum_over(n, [=](std::size_t i) { return at[i] >= first && at[i] <= last ? w[i] : 0.0F; });
    if (!ends) continue;
    part.before_sum += sum_over(n, [=](std::size_t i) { return at[i] < first ? w[i] : 0.0F; });
    part.after_sum += sum_over(n, [=](std::size_t i) { return at[i] > last ? w[i] : 0.0F; });
  }
  return part;
}

double joint_entropy_nats(const RowPart& visible, const RowPart& ghosts, double rebound) {
  return (1 - rebound) * visible.entropy_nats() + rebound * ghosts.entropy_nats() - plogp(rebound) -
         plogp(1 - rebound);
}

double normalised_entropy(double entropy_nats, std::size_t n) {
  return n > 1 ? std::clamp(entropy_nats / std::log(double(n)), 0.0, 1.0) : 1.0;
}

}  // namespace kvscope
