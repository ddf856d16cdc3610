#include "metrics/probes/entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvscope {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(RowEntropy, OfUniformLogitsIsTheLogOfTheirNumber) {
  const RowEntropy uniform = row_entropy(std::vector<float>(8, 500.0F));
  EXPECT_NEAR(uniform.lse, 500 + std::log(8.0), 1e-12);
  EXPECT_NEAR(uniform.entropy_nats, std::log(8.0), 1e-15);
  EXPECT_NEAR(uniform.effective_tokens, 8, 1e-14);
}

TEST(RowEntropy, LseFormEqualsTheDirectSum) {
  const std::vector<float> logits = {1.25F, -0.75F, 2.25F, 0.5F};
  const RowEntropy row = row_entropy(logits);
  double direct = 0;
  for (const float z : logits) {
    const double p = std::exp(double(z) - row.lse);
    direct -= p * std::log(p);
  }
  EXPECT_NEAR(row.entropy_nats, direct, 1e-15);
}

}  // namespace
}  // namespace kvscope
