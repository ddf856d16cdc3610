#include "runner/cache/ghost_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runner/backend/cpu/attend_ghosts.h"
#include "runner/cache/page_slots.h"

namespace kvscope {
namespace {

constexpr int kHeadDim = 8;
constexpr int kGroup = 2;
constexpr int kPrompt = 300;

class Ghosts : public ::testing::TestWithParam<DType> {
 protected:
  Ghosts() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int position = 0; position < kPrompt; ++position) {
      float key[kHeadDim], value[kHeadDim];
      for (int i = 0; i < kHeadDim; ++i) key[i] = normal(random), value[i] = normal(random);
      const int slot = dense_.append_slot(position, {});
      write_key(pool_, dense_.page_of(slot), slot % kPageSlots, key);
      write_value(pool_, dense_.page_of(slot), slot % kPageSlots, value);
    }
    for (float& x : q_) x = normal(random);
    for (int g = 0; g < kGroup; ++g) queries_.push_back({q_ + g * kHeadDim});
    for (int position = 0; position < kPrompt; position += 3) kept_.push_back(position);
  }

  PagePool pool_{{kHeadDim, GetParam(), true}};
  HeadCache dense_{&pool_};
  float q_[kGroup * kHeadDim];
  std::vector<cpu::QueryState> queries_;
  std::vector<std::int32_t> kept_;
};

TEST_P(Ghosts, OfAPromptShareItsPages) {
  const std::int64_t held = pool_.held_pages();
  GhostCache ghosts(&pool_);
  ghosts.remember_prompt(dense_, kept_);
  EXPECT_EQ(pool_.held_pages(), held);
  ASSERT_EQ(ghosts.n_ghosts(), 200);
  EXPECT_EQ(ghosts.positions()[0], 1);
  EXPECT_EQ(ghosts.positions()[199], 299);
  EXPECT_EQ(ghosts.physical_bytes(), dense_.physical_bytes());
  ghosts.remember(dense_, 0);
  EXPECT_EQ(pool_.held_pages(), held + 1);
  EXPECT_EQ(ghosts.positions()[200], 0);
  // Others go on writing: the ghosts' page is copied first.
  const int slot = dense_.append_slot(kPrompt, {});
  const std::vector<float> zeros(kHeadDim);
  write_key(pool_, dense_.page_of(slot), slot % kPageSlots, zeros.data());
  EXPECT_EQ(ghosts.prompt().n_slots(), kPrompt);
  ghosts.clear();
  EXPECT_EQ(ghosts.n_ghosts(), 0);
  EXPECT_EQ(ghosts.physical_bytes(), 0);
}

TEST_P(Ghosts, HaveTheSameLogitsWhereverTheyLie) {
  GhostCache shared(&pool_);
  shared.remember_prompt(dense_, kept_);
  GhostCache copied(&pool_);
  for (const std::int32_t position : shared.positions()) copied.remember(dense_, position);
  cpu::GhostRows a, b;
  a.attend(shared, queries_, kHeadDim);
  b.attend(copied, queries_, kHeadDim);
  ASSERT_EQ(a.logits().size(), std::size_t(kGroup) * 200);
  for (std::size_t i = 0; i < a.logits().size(); ++i) EXPECT_EQ(a.logits()[i], b.logits()[i]) << i;
}

TEST_P(Ghosts, ThatLieInFewBlocksAreReadThereOnly) {
  GhostCache ghosts(&pool_);
  std::vector<std::int32_t> kept;
  for (int position = 0; position < kPrompt; ++position) {
    if (position != 260) kept.push_back(position);
  }
  ghosts.remember_prompt(dense_, kept);
  GhostCache copied(&pool_);
  copied.remember(dense_, 260);
  cpu::GhostRows a, b;
  a.attend(ghosts, queries_, kHeadDim);
  b.attend(copied, queries_, kHeadDim);
  ASSERT_EQ(a.logits().size(), std::size_t(kGroup));
  for (int g = 0; g < kGroup; ++g) EXPECT_EQ(a.logits()[g], b.logits()[g]);
}

TEST_P(Ghosts, WeighTheirValuesAsSoftmaxDoes) {
  GhostCache ghosts(&pool_);
  ghosts.remember_prompt(dense_, kept_);
  for (int slot = 0; slot < 40; ++slot) ghosts.remember(dense_, 3 * slot);
  cpu::GhostRows rows;
  rows.attend(ghosts, queries_, kHeadDim);
  rows.weigh_values(ghosts, kGroup, kHeadDim);
  const auto n = std::size_t(ghosts.n_ghosts());
  for (int g = 0; g < kGroup; ++g) {
    double sum = 0;
    double output[kHeadDim] = {};
    float value[kHeadDim];
    for (std::size_t i = 0; i < n; ++i) {
      const double weight = std::exp(double(rows.logits()[std::size_t(g) * n + i]));
      dense_.read_value(ghosts.positions()[i], value);
      for (int j = 0; j < kHeadDim; ++j) output[j] += weight * double(value[j]);
      sum += weight;
    }
    // 8e-8 measured: weights and sums of a page are float.
    for (int j = 0; j < kHeadDim; ++j)
      EXPECT_NEAR(rows.outputs()[std::size_t(g * kHeadDim + j)], output[j] / sum, 1e-6);
  }
}

TEST_P(Ghosts, TakeLogitsThatAreKnown) {
  GhostCache ghosts(&pool_);
  ghosts.remember_prompt(dense_, std::vector<std::int32_t>(kept_.begin() + 1, kept_.end()));
  ghosts.remember(dense_, 3);
  std::vector<float> prompt(kGroup * kPrompt);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = float(i);
  const std::vector<float> own = {-1, -2};
  cpu::GhostRows rows;
  rows.take(ghosts, queries_, kHeadDim, prompt, own);
  EXPECT_EQ(rows.logits()[0], 0);
  EXPECT_EQ(rows.logits()[1], 1);
  EXPECT_EQ(rows.logits()[201], -1);
  EXPECT_EQ(rows.logits()[202], kPrompt);
  EXPECT_EQ(rows.logits()[403], -2);
}

TEST_P(Ghosts, RoundedToAByteKeepTheBoundOnTheirLogits) {
  PagePool codes({kHeadDim, GetParam(), true, KvFormat::kInt8});
  GhostCache rounded(&codes);
  rounded.remember_prompt(dense_, kept_);
  EXPECT_TRUE(rounded.prompt_slots().empty());  // copied
  ASSERT_EQ(rounded.n_ghosts(), 200);
  GhostCache exact(&pool_);
  exact.remember_prompt(dense_, kept_);
  // As one would compare them: both in float32.
  for (int g = 0; g < kGroup; ++g) {
    cpu::GhostRows rows;
    rows.attend(rounded, std::span(queries_).subspan(g, 1), kHeadDim);
    ASSERT_EQ(rows.logit_bounds().size(), 1U);
    const float bound = rows.logit_bounds()[0];
    EXPECT_GT(bound, 0.0F);
    double largest = 0;
    float key[kHeadDim];
    for (int i = 0; i < exact.n_ghosts(); ++i) {
      dense_.read_key(exact.positions()[i], key);
      double logit = 0;
      for (int j = 0; j < kHeadDim; ++j) logit += double(key[j]) * double(queries_[g].q[j]);
      largest = std::max(largest, std::abs(logit - double(rows.logits()[i])));
    }
    EXPECT_LE(largest, double(bound));
    EXPECT_GT(largest, double(bound) / 100);  // it is a bound of this, not of anything
  }
  EXPECT_EQ(exact.largest_key_scale(), 0.0F);
}

TEST_P(Ghosts, BeyondTheCapAreCountedOnly) {
  GhostCache ghosts(&pool_, 5);
  ghosts.remember_prompt(dense_, kept_);  // shared, which takes nothing
  for (int slot = 0; slot < 8; ++slot) ghosts.remember(dense_, 3 * slot);
  EXPECT_EQ(ghosts.n_ghosts(), 205);
  EXPECT_EQ(ghosts.n_forgotten(), 3);
  EXPECT_EQ(ghosts.positions().back(), 12);
}

INSTANTIATE_TEST_SUITE_P(Formats, Ghosts, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace kvscope
