#include "metrics/stats/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace kvscope {
namespace {

double nearest_rank(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::size_t(std::ceil(q * double(values.size()) - 1e-9)) - 1];
}

TEST(Sketch, QuantilesOfRatiosAreOffByHalfABin) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const double power : {0.02, 1.0, 30.0}) {  // near 1, even, near 0
    Sketch sketch;
    std::vector<double> values;
    for (int i = 0; i < 5000; ++i) {
      values.push_back(std::pow(uniform(random), power));
      sketch.add(values.back());
    }
    for (const double q : {0.01, 0.25, 0.5, 0.95, 0.99, 1.0}) {
      const double exact = nearest_rank(values, q);
      const double to_end = std::min(exact, 1 - exact);
      // Half the width of the widest bin at that distance from 0 or 1.
      const double allowed = to_end > 0.05 ? 0.0125 : std::max(0.00006, to_end * 0.5);
      EXPECT_NEAR(*sketch.quantile(q), exact, allowed) << q << ' ' << power;
    }
    EXPECT_EQ(*sketch.quantile(1), nearest_rank(values, 1));
  }
}

TEST(Sketch, ExactZeroAndOneAreNotTheirNeighbours) {
  Sketch sketch;
  for (int i = 0; i < 60; ++i) sketch.add(1);
  for (int i = 0; i < 30; ++i) sketch.add(0);
  for (int i = 0; i < 10; ++i) sketch.add(1 - 1e-9);
  EXPECT_EQ(*sketch.quantile(0.3), 0);
  EXPECT_LT(*sketch.quantile(0.35), 1);
  EXPECT_GT(*sketch.quantile(0.35), 0.9999);
  EXPECT_EQ(*sketch.quantile(0.5), 1);
}

TEST(Sketch, DifferencesOfRatiosKeepTheirSign) {
  Sketch sketch;
  for (const double value : {-1.0, -0.5, -0.01, 0.0, 0.01, 0.5, 1.0}) sketch.add(value);
  EXPECT_EQ(*sketch.quantile(1.0 / 7), -1);
  EXPECT_NEAR(*sketch.quantile(2.0 / 7), -0.5, 0.0126);
  EXPECT_NEAR(*sketch.quantile(3.0 / 7), -0.01, 0.003);
  EXPECT_EQ(*sketch.quantile(4.0 / 7), 0);
  EXPECT_NEAR(*sketch.quantile(6.0 / 7), 0.5, 0.0126);
}

TEST(Sketch, QuantilesOfPositiveNumbersAreOffByLessThanAPercent) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal(-2, 3);
  Sketch sketch(SketchScale::kLog);
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(std::exp(normal(random)));
    sketch.add(values.back());
  }
  for (const double q : {0.01, 0.25, 0.5, 0.95, 0.99}) {
    const double exact = nearest_rank(values, q);
    EXPECT_NEAR(*sketch.quantile(q), exact, exact / 128) << q;
  }
  EXPECT_EQ(*sketch.quantile(1), nearest_rank(values, 1));
}

TEST(Sketch, WhatIsBeyondTheBinsIsInTheLastOne) {
  Sketch sketch(SketchScale::kLog);
  for (const double value : {0.0, -1e-9, 1e-300, 1e300}) sketch.add(value);
  EXPECT_EQ(sketch.bins().front(), (std::pair<std::int32_t, std::int64_t>{0, 3}));
  EXPECT_EQ(sketch.bins().size(), 2U);
  EXPECT_EQ(sketch.max(), 1e300);
  EXPECT_EQ(*sketch.quantile(1), 1e300);
}

TEST(Sketch, MergesInAnyOrderToTheSame) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const SketchScale scale : {SketchScale::kRatio, SketchScale::kLog}) {
    std::vector<Sketch> parts(7, Sketch(scale));
    Sketch whole(scale);
    for (int i = 0; i < 700; ++i) {
      const double value = uniform(random);
      parts[std::size_t(i % 7)].add(value);
      whole.add(value);
    }
    for (int round = 0; round < 5; ++round) {
      std::shuffle(parts.begin(), parts.end(), random);
      Sketch merged(scale);
      for (const Sketch& part : parts) merged.merge(part);
      EXPECT_EQ(merged, whole);
    }
  }
}

TEST(Sketch, IsMadeOfItsBinsAgain) {
  Sketch sketch(SketchScale::kLog);
  for (const double value : {3.0, 0.5, 700.0}) sketch.add(value);
  const Sketch again = Sketch::of_bins(sketch.scale(), sketch.min(), sketch.max(), sketch.bins());
  EXPECT_EQ(again, sketch);
  EXPECT_EQ(again.n(), 3);
}

TEST(Sketch, RefusesWhatIsNoSketch) {
  EXPECT_THROW(Sketch::of_bins(SketchScale::kRatio, 0, 1, {{4000, 1}}), std::invalid_argument);
  EXPECT_THROW(Sketch::of_bins(SketchScale::kLog, 0, 1, {{-1, 1}}), std::invalid_argument);
  EXPECT_THROW(Sketch::of_bins(SketchScale::kLog, 0, 1, {{1, 0}}), std::invalid_argument);
  EXPECT_THROW(Sketch::of_bins(SketchScale::kLog, 0, 1, {{1 << 30, 1}}), std::invalid_argument);
  Sketch ratio;
  Sketch log(SketchScale::kLog);
  log.add(1);
  EXPECT_THROW(ratio.merge(log), std::invalid_argument);
}

TEST(Sketch, OfNothingHasNoQuantiles) {
  EXPECT_FALSE(Sketch().quantile(0.5));
  EXPECT_EQ(parse_sketch_scale("log"), SketchScale::kLog);
  EXPECT_FALSE(parse_sketch_scale("linear"));
}

}  // namespace
}  // namespace kvscope
