// What the benchmarks share, without a clock.
#include "harness/commands/bench_common.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvscope {
namespace {

using ::testing::ElementsAre;

TEST(BenchSamples, MedianIsTheMiddleOrTheMeanOfTheTwoMiddleValues) {
  EXPECT_EQ((Samples{{3.0, 1.0, 2.0}}).median(), 2.0);
  EXPECT_EQ((Samples{{4.0, 1.0, 2.0, 8.0}}).median(), 3.0);
  EXPECT_TRUE(std::isnan(Samples{}.median()));
  EXPECT_TRUE(std::isnan(Samples{}.min()));
}

TEST(BenchSamples, RatesTurnSecondsOver) {
  const Samples seconds{{0.5, 2.0, 1.0}};
  const Samples rates = seconds.rates(100.0);
  EXPECT_THAT(rates.values, ElementsAre(200.0, 50.0, 100.0));
  EXPECT_EQ(rates.min(), 50.0);
  EXPECT_EQ(rates.max(), 200.0);
  EXPECT_EQ(samples_text(rates, 1), "100.0 [50.0–200.0]");
  EXPECT_EQ(samples_json(rates).dump(),
            R"({"median":100.0,"min":50.0,"max":200.0,"values":[200.0,50.0,100.0]})");
}

TEST(BenchSamples, MeasurementsAreTakenInTurnAfterOneEachToWarmUp) {
  std::string order;
  double next = 0.0;
  const std::vector<std::function<double()>> measurements = {[&] {
                                                               order += 'a';
                                                               return next++;
                                                             },
                                                             [&] {
                                                               order += 'b';
                                                               return next++;
                                                             }};
  const auto samples = measure_in_turn(3, measurements);
  EXPECT_EQ(order, "abababab");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_THAT(samples[0].values, ElementsAre(2.0, 4.0, 6.0));
  EXPECT_THAT(samples[1].values, ElementsAre(3.0, 5.0, 7.0));
}

TEST(BenchMemory, ThePeakGrowsWithWhatIsTouched) {
  const std::int64_t before = peak_process_bytes();
  if (before == 0) GTEST_SKIP() << "no /proc here";
  constexpr std::size_t kBytes = 64U << 20;
  const std::vector<char> touched(kBytes, 1);
  EXPECT_GE(peak_process_bytes() + std::int64_t(touched[0]), before + std::int64_t(kBytes) / 2);
}

}  // namespace
}  // namespace kvscope
