#include "metrics/probes/row_part.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvscope {
namespace {

// Float lanes over blocks, then double: vectorises, and rounds like sums of few numbers.
constexpr std::size_t kLanes = 8;
constexpr std::size_t kBlock = 256;
using Lanes = std::array<float, kLanes>;

double sum_of(const Lanes& lanes) {
  double sum = 0;
  for (const float lane : lanes) sum += double(lane);
  return sum;
}

double plogp(double p) { return p > 0 ? p * std::log(p) : 0; }

}  // namespace

double RowPart::entropy_nats() const {
  return exp.sum > 0 ? std::max(0.0, std::log(exp.sum) - weighted_sum / exp.sum) : 0;
}

double RowPart::recent_share() const {
  return std::max(0.0, (exp.sum - inside_sum - before_sum) / exp.sum);
}

RowPart row_part(std::span<const float> logits, std::span<const std::int32_t> positions,
                 const Universe& universe, std::span<float> weights) {
  RowPart part{.exp = exp_weights(logits, weights)};
  const float largest = part.exp.largest_logit;
  const std::int32_t first = universe.first;
  const std::int32_t last = universe.last;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::size_t end = std::min(logits.size(), begin + kBlock);
    Lanes weighted{};
    Lanes before{};
    Lanes inside{};
    const auto add = [&](std::size_t i, std::size_t lane) {
      weighted[lane] += weights[i] * (logits[i] - largest);
      before[lane] += positions[i] < first ? weights[i] : 0.0F;
      inside[lane] += positions[i] >= first && positions[i] <= last ? weights[i] : 0.0F;
    };
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
    }
    for (; i < end; ++i) add(i, 0);
    part.weighted_sum += sum_of(weighted);
    part.before_sum += sum_of(before);
    part.inside_sum += sum_of(inside);
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
