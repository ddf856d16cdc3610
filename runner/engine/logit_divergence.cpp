#include "runner/engine/logit_divergence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "runner/base/exp_weights.h"

namespace kvscope {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kBlock = 1024;  // floats: two rows of it stay in the first-level cache

struct Sums {
  std::array<double, kLanes> weight{};
  std::array<double, kLanes> difference{};  // weighted by weight
};

void add_block(std::span<const float> full, std::span<const float> arm, float shift, float offset,
               Sums& sums) {
  std::array<float, kBlock> weights;
  std::array<float, kBlock> products;
  const std::size_t n = full.size();
  exp_below(full, shift, std::span(weights).first(n));
  for (std::size_t i = 0; i < n; ++i) {
    products[i] = weights[i] * ((full[i] - arm[i]) - offset);
  }
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums.weight[lane] += double(weights[i + lane]);
      sums.difference[lane] += double(products[i + lane]);
    }
  }
  for (; i < n; ++i) {
    sums.weight[0] += double(weights[i]);
    sums.difference[0] += double(products[i]);
  }
}

std::size_t first_index_of(std::span<const float> values, float wanted) {
  return std::size_t(std::find(values.begin(), values.end(), wanted) - values.begin());
}

}  // namespace

LogitComparison compare_logits(std::span<const float> full, double full_lse,
                               std::span<const float> arm, double arm_lse) {
  const float full_largest = largest(full);
  // Part of the lse's difference goes into the sum, where it keeps terms small if all logits of a
  // row have moved together.
  const auto offset = float(full_lse - arm_lse);
  Sums sums;
  for (std::size_t begin = 0; begin < full.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, full.size() - begin);
    add_block(full.subspan(begin, n), arm.subspan(begin, n), full_largest, offset, sums);
  }
  double weight = 0;
  double difference = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    weight += sums.weight[lane];
    difference += sums.difference[lane];
  }
  const double kl = difference / weight + (double(offset) + (arm_lse - full_lse));

  LogitComparison result;
  result.kl_full_to_arm_nats = kl < 0 ? 0 : kl;  // keeps NaN
  result.top1_agrees = first_index_of(full, full_largest) == first_index_of(arm, largest(arm));
  return result;
}

}  // namespace kvscope
