#include "metrics/probes/hit_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "metrics/probes/rebound_mass.h"

namespace kvscope {
namespace {

// A row from weights by position; positions listed in `visible`, in slot order, the rest are
// ghosts.
struct Row {
  std::vector<float> visible_logits, ghost_logits, visible_weights, ghost_weights;
  std::vector<std::int32_t> visible_positions, ghost_positions;

  Row(const std::vector<float>& weights, const std::vector<std::int32_t>& visible) {
    for (const std::int32_t position : visible) {
      visible_positions.push_back(position);
      visible_weights.push_back(weights[std::size_t(position)]);
      visible_logits.push_back(std::log(weights[std::size_t(position)]));
    }
    for (std::int32_t position = 0; position < std::ssize(weights); ++position) {
      if (std::find(visible.begin(), visible.end(), position) != visible.end()) continue;
      ghost_positions.push_back(position);
      ghost_weights.push_back(weights[std::size_t(position)]);
      ghost_logits.push_back(std::log(weights[std::size_t(position)]));
    }
  }
  SplitRow split() const {
    return {visible_logits, visible_positions, ghost_logits, ghost_positions};
  }
  Hits at_k(int k, Universe universe = {}) const {
    return HitRate().hit_at_k(split(), k, universe);
  }
  Hits at_mass(double share) const {
    return HitRate().hit_at_mass(split(), visible_weights, ghost_weights, share).hits;
  }
};

void expect_hits(Hits got, int hits, int of) {
  EXPECT_EQ(got.hits, hits);
  EXPECT_EQ(got.of, of);
}

// Row 7 of base A of the policy vectors, under H2O at budget 4.
const Row kRow({7, 2, 1, 15, 3, 4, 5, 3}, {7, 0, 6, 1, 5});

TEST(HitRate, CountsVisibleOnesAmongTheTop) {
  expect_hits(kRow.at_k(1), 0, 1);
  expect_hits(kRow.at_k(2), 1, 2);
  expect_hits(kRow.at_k(3), 2, 3);
  expect_hits(kRow.at_k(4), 3, 4);
}

TEST(HitRate, NewerPositionWinsATie) {
  // Positions 4 (a ghost) and 7 (visible) weigh 3 each; fifth place goes to 7.
  expect_hits(kRow.at_k(5), 4, 5);
  expect_hits(kRow.at_k(6), 4, 6);
  expect_hits(Row({1, 1, 1, 1}, {0, 1}).at_k(2), 0, 2);
  expect_hits(Row({1, 1, 1, 1}, {0, 1}).at_mass(0.49), 0, 2);
}

TEST(HitRate, OfMoreThanThereAreIsTheShareOfVisibleTokens) {
  expect_hits(kRow.at_k(8), 5, 8);
  expect_hits(kRow.at_k(32), 5, 8);
}

TEST(HitRate, MassSetIncludesTheCrossingToken) {
  expect_hits(kRow.at_mass(0.8), 4, 5);  // 15 + 7 + 5 + 4 = 31 of 40, and the 3 of position 7
  expect_hits(kRow.at_mass(0.775), 3, 4);
  expect_hits(kRow.at_mass(0.1), 0, 1);
}

TEST(HitRate, UniverseLeavesOutSinksAndRecentTokens) {
  expect_hits(kRow.at_k(2, {.first = 1, .last = 5}), 1, 2);  // 3 and 5
  expect_hits(kRow.at_k(1, {.first = 4, .last = 5}), 1, 1);
  expect_hits(kRow.at_k(3, {.first = 90}), 0, 0);
  EXPECT_EQ(kRow.at_k(3, {.first = 90}).ratio(), 1);
}

TEST(HitRate, NegativeZeroTiesWithZero) {
  const std::vector<float> visible = {-0.0F};
  const std::vector<float> ghost = {0.0F};
  const std::vector<std::int32_t> newer = {1};
  const std::vector<std::int32_t> older = {0};
  expect_hits(HitRate().hit_at_k({visible, newer, ghost, older}, 1), 1, 1);
}

// Full sorts over random rows; logits on a coarse grid, so that there are many ties.
TEST(HitRate, EqualsAFullSort) {
  std::mt19937 random(3);
  HitRate reused;
  for (int round = 0; round < 300; ++round) {
    const int n = 1 + int(random() % 400);
    const float spread = round % 3 == 0 ? 0.125F : round % 3 == 1 ? 1.0F : 12.0F;
    struct Token {
      float logit;
      std::int32_t position;
      bool visible;
    };
    std::vector<Token> tokens;
    std::vector<float> logits[2], weights[2];
    std::vector<std::int32_t> positions[2];
    double total = 0;
    for (int i = 0; i < n; ++i) {
      const float logit = spread * float(int(random() % 64) - 32) / 32;
      const bool visible = random() % 3 != 0;
      tokens.push_back({logit, i, visible});
      logits[visible].push_back(logit);
      positions[visible].push_back(i);
      weights[visible].push_back(std::exp(logit));
      total += double(weights[visible].back());
    }
    std::sort(tokens.begin(), tokens.end(), [](const Token& x, const Token& y) {
      return x.logit != y.logit ? x.logit > y.logit : x.position > y.position;
    });
    const SplitRow split{logits[1], positions[1], logits[0], positions[0]};

    for (const int k : {1, 7, 32}) {
      const int of = std::min(k, n);
      const auto hits = std::count_if(tokens.begin(), tokens.begin() + of,
                                      [](const Token& t) { return t.visible; });
      expect_hits(reused.hit_at_k(split, k), int(hits), of);
    }
    for (const double share : {0.3, 0.9, 0.99}) {
      double mass = 0;
      double visible_mass = 0;
      int of = 0;
      int hits = 0;
      while (mass < share * total) {
        if (tokens[std::size_t(of)].visible) {
          visible_mass += double(std::exp(tokens[std::size_t(of)].logit));
        }
        mass += double(std::exp(tokens[std::size_t(of)].logit));
        hits += tokens[std::size_t(of++)].visible;
      }
      const MassHits nucleus = reused.hit_at_mass(split, weights[1], weights[0], share);
      expect_hits(nucleus.hits, hits, of);
      EXPECT_DOUBLE_EQ(nucleus.mass_ratio(), visible_mass / mass);
    }
    // All shares at once are each alone.
    const std::vector<double> shares = {0.1, 0.5, 0.51, 0.9, 0.999};
    std::vector<MassHits> together(shares.size());
    reused.begin_row(split, weights[1], weights[0], tokens.front().logit);
    reused.hits_at_masses(shares, together);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const MassHits alone = HitRate().hit_at_mass(split, weights[1], weights[0], shares[i]);
      EXPECT_EQ(together[i].hits.hits, alone.hits.hits);
      EXPECT_EQ(together[i].hits.of, alone.hits.of);
      EXPECT_NEAR(together[i].mass_ratio(), alone.mass_ratio(), 1e-12);
    }
    const Universe universe{.first = 4, .last = n - 1 - 32};
    for (const int k : {1, 7, 32}) {
      const TopHits both = reused.top_hits(k, universe, n - 1);
      const Hits all = HitRate().hit_at_k(split, k);
      const Hits inside = HitRate().hit_at_k(split, k, universe);
      expect_hits(both.all, int(all.hits), int(all.of));
      expect_hits(both.inside, int(inside.hits), int(inside.of));
    }
  }
}

TEST(ReboundMass, AndMassHitSumToOne) {
  for (const double gap : {-50.0, -1.0, 0.0, 3.0, 40.0}) {
    EXPECT_DOUBLE_EQ(rebound_mass(2 + gap, 2) + mass_hit(2 + gap, 2), 1);
  }
  EXPECT_DOUBLE_EQ(rebound_mass(std::log(19), std::log(21)), 0.475);
  EXPECT_DOUBLE_EQ(mass_hit(std::log(19), std::log(21)), 0.525);
}

TEST(ReboundMass, IsZeroOnlyWithoutGhosts) {
  EXPECT_EQ(rebound_mass(-INFINITY, 5), 0);
  EXPECT_EQ(mass_hit(-INFINITY, 5), 1);
  EXPECT_GT(rebound_mass(-600, 5), 0);
  EXPECT_GT(mass_hit(5, -600), 0);
}

}  // namespace
}  // namespace kvscope
