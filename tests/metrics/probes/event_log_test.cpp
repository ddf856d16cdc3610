#include "metrics/probes/event_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "metrics/probes/mass_log.h"
#include "metrics/probes/probe_tee.h"
#include "tests/metrics/probes/random_stream.h"

namespace kvscope {
namespace {

constexpr AttentionProbeShape kShape{.n_layers = 1, .n_kv_heads = 1, .group_size = 3};

// Weights of every row in double, by position, and when a token was last seen.
class NaiveWeights final : public ProbeSink {
 public:
  struct Row {
    std::map<int, double> visible;
    std::map<int, double> ghosts;
  };
  std::map<int, Row> rows;
  std::map<int, int> evicted_at;
  int last_row = 0;

  void prompt_cut(int, int, int prompt_tokens, std::span<const std::int32_t> ghosts,
                  std::span<const float>, std::span<const std::int32_t>,
                  std::span<const float>) override {
    for (const std::int32_t ghost : ghosts) evicted_at[ghost] = prompt_tokens - 1;
  }
  void attention_row(const AttentionRow& row) override {
    last_row = row.position;
    double sum = 0;
    for (const auto logits : {row.visible_logits, row.ghost_logits}) {
      for (const float logit : logits) sum += std::exp(double(logit));
    }
    Row& weights = rows[row.position];
    for (std::size_t i = 0; i < row.visible_logits.size(); ++i)
      weights.visible[row.visible_positions[i]] +=
          std::exp(double(row.visible_logits[i])) / sum / 3;
    for (std::size_t i = 0; i < row.ghost_logits.size(); ++i)
      weights.ghosts[row.ghost_positions[i]] += std::exp(double(row.ghost_logits[i])) / sum / 3;
  }
  void evicted(int, int, int position, int, int) override { evicted_at[position] = last_row; }
};

struct Watched {
  AttentionProbe probe;
  EventLog log;
  NaiveWeights naive;
  explicit Watched(std::size_t most, bool cut, const AttentionProbeConfig& config = {})
      : probe(kShape, config), log(kShape, config, most) {
    ProbeTee counters(probe, log);
    ProbeTee all(counters, naive);
    RandomStream stream(0, 0, 3, 23);
    if (cut) stream.cut_prompt(90, all);
    for (int t = 0; t < 120; ++t) stream.step(40, all);
  }
};

TEST(EventLog, FindsWhatTheProbeCounts) {
  for (const bool cut : {false, true}) {
    for (const AttentionProbeConfig& config :
         {AttentionProbeConfig{},
          AttentionProbeConfig{
              .protected_sinks = 4, .protected_recent = 10, .first_counted_position = 100}}) {
      const Watched w(100'000, cut, config);
      const auto events = w.log.heaviest();
      const ProbeSummary summary = w.probe.summary();
      EXPECT_EQ(std::ssize(events), summary.rebound_events);
      EXPECT_EQ(w.log.n_events(), summary.rebound_events);
      EXPECT_GT(events.size(), 20U);
      EXPECT_EQ(std::ranges::count_if(events, &ReboundEvent::is_wrongful),
                summary.wrongful_evictions);
    }
  }
}

TEST(EventLog, AnEventSaysWhereWhenAndHowHeavy) {
  for (const bool cut : {false, true}) {
    const Watched w(100'000, cut);
    const int first_step = cut ? 90 : 41;  // without a cut: the first row with a ghost
    for (const ReboundEvent& event : w.log.heaviest()) {
      const auto& row = w.naive.rows.at(event.rebound_at);
      const double mass = row.ghosts.at(event.position);
      EXPECT_NEAR(event.mass, mass, 1e-6);  // float weights: 6e-8 measured
      EXPECT_EQ(event.evicted_at, w.naive.evicted_at.at(event.position));
      EXPECT_EQ(event.step, event.rebound_at - first_step);
      // Of equal weights either may be a rounding above the other.
      int surely_above = 0;
      int maybe_above = 0;
      for (const auto& tokens : {row.visible, row.ghosts}) {
        for (const auto& [position, weight] : tokens) {
          surely_above += weight > mass + 1e-6;
          maybe_above += position != event.position && weight > mass - 1e-6;
        }
      }
      EXPECT_GE(event.rank, 1 + surely_above);
      EXPECT_LE(event.rank, 1 + maybe_above);
    }
  }
}

TEST(EventLog, KeepsTheHeaviest) {
  const auto all = Watched(100'000, true).log.heaviest();
  for (const std::size_t most : {0U, 1U, 7U}) {
    const Watched w(most, true);
    const auto some = w.log.heaviest();
    ASSERT_EQ(some.size(), most);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
    EXPECT_EQ(w.log.n_events(), std::ssize(all));
  }
}

TEST(EventLog, ARowThatIsNotANumberIsNoEvent) {
  EventLog log(kShape, {}, 10);
  const std::vector<float> ghosts{0.0F};
  const std::vector<float> nan{std::numeric_limits<float>::quiet_NaN()};
  const std::vector<std::int32_t> visible{1};
  const std::vector<std::int32_t> evicted{0};
  for (int head = 0; head < 3; ++head)
    log.attention_row({0, 0, head, 1, head == 1 ? nan : ghosts, visible, ghosts, evicted});
  EXPECT_EQ(log.n_events(), 0);
}

TEST(MassLog, SumsEachTokensShareOverTheRowsAskedFor) {
  MassLog log(kShape, {70, 71, 75});
  NaiveWeights naive;
  ProbeTee both(log, naive);
  RandomStream stream(0, 0, 3, 23);
  for (int t = 0; t < 90; ++t) stream.step(40, both);
  std::map<int, double> ghosts;
  std::map<int, double> cached;
  for (const int row : {70, 71, 75}) {
    for (const auto& [position, weight] : naive.rows.at(row).ghosts) ghosts[position] += weight;
    for (const auto& [position, weight] : naive.rows.at(row).visible) cached[position] += weight;
  }
  double total = 0;
  for (const auto& [sums, masses] :
       {std::pair(ghosts, log.ghost_mass(0, 0)), std::pair(cached, log.cached_mass(0, 0))}) {
    for (std::size_t i = 0; i < masses.size(); ++i) {
      const auto at = sums.find(int(i));
      EXPECT_NEAR(masses[i], at == sums.end() ? 0.0 : at->second, 1e-6);
      total += masses[i];
    }
  }
  EXPECT_NEAR(total, 3.0, 1e-5);  // a row's shares add up to one
  for (const std::int32_t ghost : stream.ghosts())
    EXPECT_EQ(log.evicted_at(0, 0, ghost), naive.evicted_at.at(ghost));
  EXPECT_FALSE(log.evicted_at(0, 0, stream.visible().front()));
}

}  // namespace
}  // namespace kvscope
