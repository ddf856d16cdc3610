// What official code does where this project does otherwise on purpose: its rows as the vectors
// state them, and that ours differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runner/conform/vector_tools.h"

namespace kvscope::conform {
namespace {

// SLM's evict_for_space: room for what is coming, before it attends (timing=pre).
Positions evict_for_space(int cached, int coming, int sinks, int recent) {
  Positions kept;
  for (int slot = 0; slot < cached; ++slot) {
    const bool fits = cached + coming <= sinks + recent;
    if (fits || slot < sinks || slot >= cached - recent + coming) kept.push_back(slot);
  }
  return kept;
}

// Ours: all join, then as many stay as the budget holds (timing=post).
Positions after_joining(int cached, int coming, int sinks, int recent) {
  const std::string text = "streaming_llm:sinks=" + std::to_string(sinks);
  SyntheticLayer layer;
  layer.table = AttentionTable(1, cached + coming);
  Replay replay(fitted(text, sinks + recent, cached + coming, true), std::span(&layer, 1));
  replay.rows(0, cached - 1);
  replay.chunk(cached, cached + coming - 1);
  return replay.kept();
}

TEST(Compat, streaming_llm_makes_room_before_tokens_join) {
  for (const char* id : {"streaming-evict-for-space", "streaming-evict-for-space-overflow"}) {
    const Json& vector = vector_named(id);
    const int sinks = vector.at("params").at("sinks");
    const int recent = vector.at("params").at("recent");
    const int cached = vector.at("input").at("cached");
    const int coming = vector.at("input").at("num_coming");
    const Positions official = evict_for_space(cached, coming, sinks, recent);
    EXPECT_EQ(official, vector.at("expect").at("kept_slots").get<Positions>()) << id;
    // With what comes, the official cache holds as much as the budget, or more where it overflows.
    const auto then = static_cast<int>(official.size()) + coming;
    EXPECT_GE(then, sinks + recent) << id;
    EXPECT_EQ(then > sinks + recent, coming > recent) << id;
    const Positions ours = after_joining(cached, coming, sinks, recent);
    EXPECT_EQ(ours.size(), static_cast<std::size_t>(sinks + recent)) << id;
    EXPECT_EQ(ours.back(), cached + coming - 1) << id;
  }
}

// H2O's masking simulation (utils_hh): scores of masked tokens go on counting, index n - recent is
// in neither part, and nothing is freed. What each row t attends to, and what the next one will.
struct SimRow {
  Positions attended;
  Positions next;
};
std::vector<SimRow> h2o_simulation(const AttentionTable& table, int prompt_tokens, int heavy,
                                   int recent) {
  std::vector<double> sums(table.n_tokens + 1, 0.0);
  const auto add_row = [&](int t, const Positions& attended) {
    double whole = 0.0;
    for (const auto i : attended) whole += table.at(0, t, i);
    for (const auto i : attended) sums[i] += table.at(0, t, i) / whole;
  };
  Positions attended;
  for (int t = 0; t < prompt_tokens; ++t) {
    attended.push_back(t);
    add_row(t, attended);
  }
  std::vector<SimRow> rows;
  for (int t = prompt_tokens - 1; t < table.n_tokens; ++t) {
    if (t >= prompt_tokens) add_row(t, attended);
    const int n = t + 1;
    Positions candidates;
    for (int i = 0; i < n - recent; ++i) candidates.push_back(i);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](auto a, auto b) { return sums[a] > sums[b]; });
    candidates.resize(std::min<std::size_t>(candidates.size(), heavy));
    // The window is that of the next row, one token further on.
    for (int i = n - recent + 1; i <= n; ++i) candidates.push_back(i);
    std::sort(candidates.begin(), candidates.end());
    rows.push_back({attended, candidates});
    attended = candidates;
  }
  return rows;
}

TEST(Compat, h2o_simulation_hides_a_token_and_resurrects_it) {
  for (const char* id : {"h2o-sim-offbyone", "h2o-sim-resurrection"}) {
    const Json& vector = vector_named(id);
    const SyntheticLayer layer = layer_of(vector.at("input"));
    const int prompt_tokens = vector.at("input").at("prompt_len");
    const auto official =
        h2o_simulation(layer.table, prompt_tokens, vector.at("params").at("heavy"),
                       vector.at("params").at("recent"));
    const Json& rows = vector.at("expect").at("rows");
    ASSERT_EQ(official.size(), rows.size());
    Replay ours(fitted("h2o:recent=2", 4, prompt_tokens), std::span(&layer, 1));
    bool differ = false;
    for (std::size_t r = 0; r < official.size(); ++r) {
      const int t = rows[r].at("t");
      EXPECT_EQ(official[r].attended, rows[r].at("attended").get<Positions>()) << id << " t=" << t;
      EXPECT_EQ(official[r].next, rows[r].at("attended_next_step").get<Positions>())
          << id << " t=" << t;
      if (r == 0) {
        ours.prompt(prompt_tokens);
      } else {
        ours.step(t);
        differ |= ours.visible() != official[r].attended;
      }
    }
    EXPECT_TRUE(differ) << id;
  }
}

}  // namespace
}  // namespace kvscope::conform
