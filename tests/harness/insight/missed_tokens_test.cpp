#include "harness/insight/missed_tokens.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/insight/why_report.h"

namespace kvscope {
namespace {

// Two layers of one KV head; row 4 sees five tokens with the given weights, position 1 and 3
// evicted in layer 0, position 1 in layer 1.
struct Log {
  MassLog masses{{.n_layers = 2, .n_kv_heads = 1, .group_size = 1}, {4}};
  std::vector<std::vector<std::int32_t>> residents{{0, 2}, {0, 2, 3}};

  Log() {
    cut(0, {1, 3});
    cut(1, {1});
    row(0, {0, 2, 4}, {0.1F, 0.2F, 0.1F}, {1, 3}, {0.2F, 0.4F});
    row(1, {0, 2, 3, 4}, {0.1F, 0.1F, 0.1F, 0.4F}, {1}, {0.3F});
  }
  void cut(int layer, const std::vector<std::int32_t>& ghosts) {
    const std::vector<float> means(ghosts.size(), 0.0F);
    masses.prompt_cut(layer, 0, 4, ghosts, means, {}, {});
  }
  void row(int layer, const std::vector<std::int32_t>& visible, std::vector<float> visible_weights,
           const std::vector<std::int32_t>& ghosts, std::vector<float> ghost_weights) {
    for (auto* weights : {&visible_weights, &ghost_weights}) {
      for (float& weight : *weights) weight = std::log(weight);
    }
    masses.attention_row({layer, 0, 0, 4, visible_weights, visible, ghost_weights, ghosts});
  }
  MissedRequest request() const { return {2, 1, 4, residents, 1, 2}; }
};

TEST(MissedTokens, LocalMassesAreThoseOfTheGhosts) {
  const Log log;
  const auto tokens = missed_tokens(Frame::kLocal, log.request(), log.masses, &log.masses);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].position, 1);
  EXPECT_NEAR(tokens[0].mass, 0.5, 1e-6);
  EXPECT_EQ(tokens[0].n_missing, 2);
  EXPECT_EQ(tokens[0].layer, 1);
  EXPECT_NEAR(tokens[0].heaviest, 0.3, 1e-6);
  EXPECT_EQ(tokens[0].evicted_at, 3);
  EXPECT_TRUE(tokens[0].is_evidence);
  EXPECT_EQ(tokens[1].position, 3);
  EXPECT_NEAR(tokens[1].mass, 0.4, 1e-6);
  EXPECT_EQ(tokens[1].n_missing, 1);
  EXPECT_FALSE(tokens[1].is_evidence);
}

// The watched sequence holds everything; what another arm lacks is by its residents.
TEST(MissedTokens, PairedMassesAreThoseThatTheFullCacheGives) {
  Log log;
  MassLog full{{.n_layers = 2, .n_kv_heads = 1, .group_size = 1}, {4}};
  std::swap(log.masses, full);
  log.row(0, {0, 1, 2, 3, 4}, {0.1F, 0.2F, 0.2F, 0.4F, 0.1F}, {}, {});
  log.row(1, {0, 1, 2, 3, 4}, {0.1F, 0.1F, 0.1F, 0.1F, 0.6F}, {}, {});
  const auto tokens = missed_tokens(Frame::kPaired, log.request(), log.masses, nullptr);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].position, 3);
  EXPECT_NEAR(tokens[0].mass, 0.4, 1e-6);
  EXPECT_EQ(tokens[1].position, 1);
  EXPECT_NEAR(tokens[1].mass, 0.3, 1e-6);
  EXPECT_FALSE(tokens[1].evicted_at);
}

TEST(MissedTokens, WhatLeftAfterTheCutIsMissingToo) {
  Log log;
  log.masses.evicted(1, 0, 2, 1, 2);
  const auto tokens = missed_tokens(Frame::kLocal, log.request(), log.masses, &log.masses);
  ASSERT_EQ(tokens.size(), 3U);
  EXPECT_EQ(tokens[2].position, 2);
  EXPECT_EQ(tokens[2].mass, 0.0);
}

TEST(Sparkline, GoesFromNothingToTheLargest) {
  EXPECT_EQ(sparkline(std::vector{0.0, 0.5, 1.0}), "▁▅█");
  EXPECT_EQ(sparkline(std::vector{0.0, 0.0}), "▁▁");
  EXPECT_EQ(sparkline(std::vector{std::nan(""), 2.0}), "▁█");
  EXPECT_EQ(sparkline({}), "");
}

}  // namespace
}  // namespace kvscope
