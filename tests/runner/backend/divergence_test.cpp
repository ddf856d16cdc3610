#include "runner/engine/logit_divergence.h"

#include <gtest/gtest.h>

#include "runner/backend/backend.h"
#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

std::vector<float> random_logits(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = float(double(smix(seed ^ smix(i)) >> 11) * 0x1p-50 - 4.0);
  return values;
}

TEST(CompareLogits, GivesEachPairTheBitsOfOneComparison) {
  constexpr int kPairs = 9;
  constexpr int kVocab = 5000;
  const auto full = random_logits(kVocab, 1);  // pairs may share a row
  const auto arms = random_logits(std::size_t(kPairs) * kVocab, 2);
  for (const int n_threads : {1, 2, 3}) {
    const auto backend = make_cpu_backend(n_threads);
    double full_lse = 0;
    backend->log_sum_exp(full, 1, {&full_lse, 1});
    std::vector<double> lse(kPairs);
    backend->log_sum_exp(arms, kPairs, lse);
    std::vector<LogitPair> pairs;
    for (int p = 0; p < kPairs; ++p) {
      pairs.push_back(
          {full, full_lse, std::span(arms).subspan(std::size_t(p) * kVocab, kVocab), lse[p]});
    }
    std::vector<LogitComparison> found(kPairs);
    backend->compare_logits(pairs, found);
    for (int p = 0; p < kPairs; ++p) {
      const LogitComparison one = compare_logits(full, full_lse, pairs[p].arm, lse[p]);
      EXPECT_EQ(found[p].kl_full_to_arm_nats, one.kl_full_to_arm_nats);
      EXPECT_EQ(found[p].top1_agrees, one.top1_agrees);
      EXPECT_GT(found[p].kl_full_to_arm_nats, 0.1);
    }
    backend->compare_logits({}, {});
  }
}

TEST(CompareLogits, OfARowWithItselfIsZero) {
  const auto row = random_logits(1000, 3);
  const auto backend = make_cpu_backend(2);
  const std::vector<LogitPair> pairs(3, {row, 7.5, row, 7.5});
  std::vector<LogitComparison> found(3, {1.0, false});
  backend->compare_logits(pairs, found);
  for (const LogitComparison& same : found) {
    EXPECT_EQ(same.kl_full_to_arm_nats, 0.0);
    EXPECT_TRUE(same.top1_agrees);
  }
}

}  // namespace
}  // namespace kvscope
