#include "runner/backend/cuda/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

long double exact_lse(const std::vector<float>& row) {
  long double largest = -kInfinity;
  for (const float v : row) largest = std::max(largest, static_cast<long double>(v));
  long double sum = 0;
  for (const float v : row) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

// rows: of one length.
DeviceArray<float> device_rows(const std::vector<std::vector<float>>& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return DeviceArray<float>(flat);
}
std::vector<double> lse_of(const std::vector<std::vector<float>>& rows) {
  const DeviceArray<float> logits = device_rows(rows);
  const DeviceArray<double> lse(rows.size());
  log_sum_exp(logits.data(), int(rows.size()), int(rows[0].size()), lse.data(), nullptr);
  return lse.read();
}
std::vector<std::int32_t> greedy_of(const std::vector<std::vector<float>>& rows) {
  const DeviceArray<float> logits = device_rows(rows);
  const DeviceArray<std::int32_t> ids(rows.size());
  greedy(logits.data(), int(rows.size()), int(rows[0].size()), ids.data(), nullptr);
  return ids.read();
}

constexpr int kLengths[] = {1, 2, 3, 5, 31, 32, 33, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097};

class CudaLogits : public DeviceTest {};

// ---------------------------------------------------------------- log_sum_exp

TEST_F(CudaLogits, LogSumExpLiteralRows) {
  const std::vector<double> lse = lse_of({{0, 0, 0, 0}, {1000, 1001, 1002, 1003}});
  EXPECT_NEAR(lse[0], 1.3862943611198906, 1e-15);
  EXPECT_NEAR(lse[1], 1003.4401896985611, 1e-12);
}

TEST_F(CudaLogits, LogSumExpOfWhatIsNotFinite) {
  const std::vector<double> lse = lse_of({{0, kNaN, kInfinity},
                                          {kNaN, kNaN, kNaN},
                                          {0, kInfinity, -kInfinity},
                                          {-kInfinity, -kInfinity, -kInfinity},
                                          {-kInfinity, 2, -kInfinity}});
  EXPECT_TRUE(std::isnan(lse[0]));
  EXPECT_TRUE(std::isnan(lse[1]));
  EXPECT_EQ(lse[2], double(kInfinity));
  EXPECT_EQ(lse[3], double(-kInfinity));
  EXPECT_EQ(lse[4], 2.0);
}

TEST_F(CudaLogits, LogSumExpFindsNanEverywhere) {
  for (const int place : {0, 1, 4094, 4095, 4096}) {
    std::vector<float> row(4097, 1.0F);
    row[place] = kNaN;
    EXPECT_TRUE(std::isnan(lse_of({row})[0])) << place;
  }
}

// Measured worst error over these rows: 7.2e-15, two units of 2^-48 at values near 100.
TEST_F(CudaLogits, LogSumExpCloseToExactArithmetic) {
  double worst = 0;
  for (const int n : kLengths) {
    for (const float deviation : {0.1F, 3.0F, 30.0F}) {
      const auto row = random_floats(n, deviation, unsigned(n));
      worst = std::max(worst, std::abs(double(lse_of({row})[0] - exact_lse(row))));
    }
  }
  EXPECT_LT(worst, 1e-13);
}

TEST_F(CudaLogits, LogSumExpOfARowDependsOnThatRowAlone) {
  const auto a = random_floats(1001, 3.0F, 1);  // of odd length: other boundaries in each row
  const auto b = random_floats(1001, 3.0F, 2);
  const std::vector<double> lse = lse_of({a, b, a, b, b});
  EXPECT_EQ(lse[0], lse_of({a})[0]);
  EXPECT_EQ(lse[2], lse[0]);
  EXPECT_EQ(lse[3], lse[1]);
  EXPECT_EQ(lse[4], lse[1]);
}

// ---------------------------------------------------------------- greedy, pick_logits

TEST_F(CudaLogits, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(greedy_of({{1, 3, 2, 3},
                       {-5, -1, -1, -7},
                       {0.0F, -0.0F, 0.0F, -1},
                       {-0.0F, 0.0F, -1, -2},
                       {-kInfinity, -kInfinity, kInfinity, kInfinity}}),
            (std::vector<std::int32_t>{1, 1, 0, 0, 2}));
}

TEST_F(CudaLogits, GreedyPutsNanBelowEverything) {
  const float negative_nan = -kNaN;
  EXPECT_EQ(greedy_of({{kNaN, 3, kNaN, 4},
                       {kNaN, negative_nan, -kInfinity, -kInfinity},
                       {kNaN, kNaN, negative_nan, kNaN}}),
            (std::vector<std::int32_t>{3, 2, 0}));
}

TEST_F(CudaLogits, GreedyFindsEveryPlace) {
  for (const int n : kLengths) {
    for (const int place : {0, n / 2, n - 1}) {
      std::vector<float> row(n, -1.0F);
      row[place] = 1e-3F;
      if (place + 1 < n) row[n - 1] = 1e-3F;  // a tie behind it
      EXPECT_EQ(greedy_of({row})[0], place) << n;
    }
  }
}

TEST_F(CudaLogits, PickLogits) {
  const DeviceArray<float> logits(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  const DeviceArray<RowAndId> places(std::vector<RowAndId>{{0, 2}, {1, -1}, {2, 3}});
  const DeviceArray<float> out(3);
  pick_logits(logits.data(), 3, places.data(), 3, out.data(), nullptr);
  EXPECT_EQ(out.read()[0], 3.0F);
  EXPECT_TRUE(std::isnan(out.read()[1]));
  EXPECT_TRUE(std::isnan(out.read()[2]));

  constexpr int kRows = 300;  // more than a block of threads
  const auto values = random_floats(kRows * 7, 1.0F, 3);
  std::vector<RowAndId> many;
  std::vector<float> expected;
  for (int r = 0; r < kRows; ++r) {
    many.push_back({r, r % 7});
    expected.push_back(values[r * 7 + r % 7]);
  }
  const DeviceArray<float> device_values(values);
  const DeviceArray<RowAndId> device_places(many);
  const DeviceArray<float> picked(kRows);
  pick_logits(device_values.data(), 7, device_places.data(), kRows, picked.data(), nullptr);
  EXPECT_EQ(picked.read(), expected);
}

// ---------------------------------------------------------------- compare_logits

struct PairRows {
  std::vector<float> full;
  std::vector<float> arm;
};
std::vector<LogitComparison> compared(const std::vector<PairRows>& pairs) {
  std::vector<DeviceArray<float>> rows;
  std::vector<LogitPairRows> device_pairs;
  for (const PairRows& pair : pairs) {
    rows.emplace_back(pair.full);
    const float* full = rows.back().data();
    rows.emplace_back(pair.arm);
    device_pairs.push_back(
        {full, rows.back().data(), double(exact_lse(pair.full)), double(exact_lse(pair.arm))});
  }
  const DeviceArray<LogitPairRows> device(device_pairs);
  const DeviceArray<LogitComparison> out(pairs.size());
  compare_logits(device.data(), int(pairs.size()), int(pairs[0].full.size()), out.data(), nullptr);
  return out.read();
}
double exact_kl(const PairRows& pair) {
  const long double full_lse = exact_lse(pair.full);
  const long double arm_lse = exact_lse(pair.arm);
  long double kl = 0;
  for (std::size_t i = 0; i < pair.full.size(); ++i) {
    const long double log_p = pair.full[i] - full_lse;
    kl += std::exp(log_p) * (log_p - (pair.arm[i] - arm_lse));
  }
  return double(kl);
}

TEST_F(CudaLogits, CompareLiteralRows) {
  const float ln3 = std::log(3.0F);
  // p = (1/4, 3/4) and q = (3/4, 1/4): KL = (3/4 - 1/4) · ln 3.
  const auto out = compared({{{0, ln3}, {ln3, 0}}, {{0, ln3}, {5, ln3 + 5}}});
  EXPECT_NEAR(out[0].kl_full_to_arm_nats, 0.54930614433405489, 1e-7);
  EXPECT_FALSE(out[0].top1_agrees);
  EXPECT_NEAR(out[1].kl_full_to_arm_nats, 0.0, 1e-7);
  EXPECT_TRUE(out[1].top1_agrees);
}

TEST_F(CudaLogits, EqualRowsGiveExactlyZero) {
  for (const int n : kLengths) {
    const auto row = random_floats(n, 3.0F, unsigned(n));
    const auto out = compared({{row, row}});
    EXPECT_EQ(out[0].kl_full_to_arm_nats, 0.0) << n;
    EXPECT_TRUE(out[0].top1_agrees) << n;
  }
}

TEST_F(CudaLogits, TopOneIsTheSmallerIdOfATie) {
  const auto out =
      compared({{{1, 2, 2}, {0, 2, 1}}, {{1, 2, 2}, {0, 1, 2}}, {{2, 2, 0}, {1, 0, 1}}});
  EXPECT_TRUE(out[0].top1_agrees);
  EXPECT_FALSE(out[1].top1_agrees);
  EXPECT_TRUE(out[2].top1_agrees);
}

TEST_F(CudaLogits, CompareOfWhatIsNotFiniteIsNotFinite) {
  const auto out = compared({{{0, kNaN, 1}, {0, 1, 2}},
                             {{0, 1, 2}, {0, kNaN, 1}},
                             {{0, kInfinity, 1}, {0, 1, 2}},
                             {{0, 1, 2}, {0, -kInfinity, 1}},
                             {{kNaN, kNaN, kNaN}, {2, 1, 0}}});
  for (const LogitComparison& c : out) EXPECT_FALSE(std::isfinite(c.kl_full_to_arm_nats));
  EXPECT_FALSE(out[4].top1_agrees);  // there is none of NaNs
}

// Measured worst of error / sqrt(KL) over these rows: 1.2e-8 with the C library's expf. One with an
// error of two units, 2.4e-7, can reach 1.7e-7 with rows of two logits, where KL = p q d² / 2 and
// the error is 2.4e-7 · p q d.
TEST_F(CudaLogits, CompareCloseToExactArithmetic) {
  double worst = 0;
  for (const int n : {2, 33, 257, 4097, 20000}) {
    for (const float distance : {1e-4F, 1e-2F, 0.5F, 5.0F}) {
      std::vector<PairRows> pairs;
      for (unsigned seed = 0; seed < 3; ++seed) {
        pairs.push_back({random_floats(n, 3.0F, 10 + seed), random_floats(n, distance, 20 + seed)});
        for (int i = 0; i < n; ++i) pairs.back().arm[i] += pairs.back().full[i] + 7.0F;
      }
      const auto out = compared(pairs);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const double exact = exact_kl(pairs[i]);
        worst = std::max(worst, std::abs(out[i].kl_full_to_arm_nats - exact) / std::sqrt(exact));
      }
    }
  }
  EXPECT_LT(worst, 2e-7);
}

TEST_F(CudaLogits, NoRowsAreAllowed) {
  log_sum_exp(nullptr, 0, 8, nullptr, nullptr);
  greedy(nullptr, 0, 8, nullptr, nullptr);
  pick_logits(nullptr, 8, nullptr, 0, nullptr, nullptr);
  compare_logits(nullptr, 0, 8, nullptr, nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
