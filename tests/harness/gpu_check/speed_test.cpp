// What is timed and how it is judged. How long anything takes is nobody's promise here.
#include "harness/gpu_check/speed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/gpu_check/attention_speed.h"

namespace kvscope {
namespace {

TEST(Speed, ATargetIsOfTheShareOrOfARatio) {
  SpeedFigure figure{.what = "x", .value = 3.0, .unit = "GB/s"};
  EXPECT_TRUE(figure.met());
  figure.target = Target::kAtMost;
  figure.goal = 2.0;
  EXPECT_FALSE(figure.met());
  figure.value = 2.0;
  EXPECT_TRUE(figure.met());
  figure.target = Target::kAtLeast;
  figure.goal = 0.8;
  figure.share = 0.79;
  EXPECT_FALSE(figure.met());
  figure.share = 0.8;
  EXPECT_TRUE(figure.met());
  figure.share = std::nan("");  // the limit is not known
  EXPECT_FALSE(figure.met());
}

TEST(Speed, TheModelHasAsManyLayersAsFit) {
  const auto layers = [](double gigabytes) {
    return speed_work(std::int64_t(gigabytes * 1e9)).config.n_layers;
  };
  // bf16: 16.1 GB of weights, 1.07 GB for the full arm's 8,192 tokens and 15.6 times that for 48
  // arms at 5 to 60 %, 4 GB besides.
  EXPECT_EQ(layers(141), 32);
  EXPECT_EQ(layers(40), 32);
  EXPECT_EQ(layers(36), 16);
  EXPECT_EQ(layers(1), 2);
}

TEST(Speed, DecodeAttentionReadsEverySlotOnce) {
  const auto backend = make_cpu_backend(1);
  const AttentionSpeed speed = decode_attention_speed(*backend, {4, 2, 16}, DType::kBF16, 3, 40);
  // 3 sequences × 2 KV heads × 64 bytes a slot; 41 … 64 slots, of which the first three calls are
  // not counted: 54 on average.
  EXPECT_DOUBLE_EQ(speed.bytes_per_call, 3 * 2 * 64 * 54.0);
  EXPECT_GT(speed.seconds_per_call, 0.0);
}

TEST(Speed, EveryFigureIsMeasured) {
  const auto backend = make_cpu_backend(1);
  std::vector<std::string> said;
  const SpeedReport report = measure_speed(tiny_speed_work(), *backend, CudaLimits{1e9, 2e9, 3e9},
                                           [&](const std::string& what) { said.push_back(what); });
  EXPECT_FALSE(said.empty());
  EXPECT_TRUE(report.memory.agree());
  EXPECT_GT(report.memory.ledger_bytes, 0);
  EXPECT_FALSE(report.memory.device);
  for (const SpeedFigure& figure : report.figures) {
    EXPECT_GT(figure.value, 0.0) << figure.what;
    EXPECT_TRUE(figure.met()) << figure.what;  // tiny: no target
  }
  const auto count = [&](std::string_view part) {
    return std::ranges::count_if(report.figures, [&](const SpeedFigure& figure) {
      return figure.what.find(part) != std::string::npos;
    });
  };
  EXPECT_EQ(count("gate_up, bf16"), 3);  // prefill, decode of 1 and of 3 rows
  EXPECT_EQ(count("gate_up, f32"), 1);
  EXPECT_EQ(count("decode attention"), 1);
  EXPECT_EQ(count("prefill attention"), 1);
  EXPECT_EQ(count("scan, "), 3);
  EXPECT_EQ(count("8 arms beside it"), 2);
  EXPECT_NE(speed_text(report).find("(equal)"), std::string::npos);
  EXPECT_EQ(speed_json(report)["memory"]["agree"], true);
}

}  // namespace
}  // namespace kvscope
