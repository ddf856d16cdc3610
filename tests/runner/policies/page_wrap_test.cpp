// Whole pages: what the wrap owes to the score that it wraps.
#include "runner/policies/page_wrap.h"

#include <gtest/gtest.h>

#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

SyntheticLayer uniform_layer(int n_tokens) {
  SyntheticLayer layer;
  layer.table = AttentionTable(1, n_tokens);
  return layer;
}

Positions kept_at_end(const std::string& text, int budget, int prompt_tokens,
                      const SyntheticLayer& layer) {
  const int n = layer.table.n_tokens;
  Replay replay(fitted(text, budget, prompt_tokens > 0 ? prompt_tokens : n, prompt_tokens == 0),
                std::span(&layer, 1));
  if (prompt_tokens > 0) replay.prompt(prompt_tokens);
  replay.rows(prompt_tokens, n - 1);
  EXPECT_EQ(replay.fault(), "");
  return replay.kept();
}

TEST(PageWrap, pages_of_sinks_stay) {
  EXPECT_EQ(kept_at_end("streaming_llm:sinks=1+page:size=2", 4, 0, uniform_layer(8)),
            (Positions{0, 1, 6, 7}));
}

TEST(PageWrap, pages_with_recent_tokens_leave_last) {
  // Pages {0,1} {2,3} {4,5}: the newest three are protected, though attention is all on 0 and 1.
  SyntheticLayer layer = uniform_layer(6);
  for (int t = 0; t < 6; ++t) {
    for (int i = 2; i <= t; ++i) layer.table.at(0, t, i) = 0.01;
  }
  EXPECT_EQ(kept_at_end("h2o:recent=3+page:size=2", 4, 0, layer), (Positions{2, 3, 4, 5}));
  EXPECT_EQ(kept_at_end("h2o:recent=2+page:size=2", 4, 0, layer), (Positions{0, 1, 4, 5}));
}

TEST(PageWrap, scores_of_the_prompt_go_on_after_it) {
  // Token 0 has all the attention of the prompt and none after it.
  SyntheticLayer layer = uniform_layer(6);
  for (int t = 0; t < 4; ++t) layer.table.at(0, t, 0) = 1000.0;
  EXPECT_EQ(kept_at_end("h2o:recent=1+page:size=1", 3, 4, layer).front(), 0);
}

TEST(PageWrap, a_page_that_filled_between_selections_counts_as_filled) {
  // 3 tokens of the prompt stay, so that every second row leaves the newest page half full.
  const Positions kept = kept_at_end("sliding_window:every=2+page:size=2", 3, 5, uniform_layer(15));
  EXPECT_LE(kept.size(), 4U);
  EXPECT_EQ(kept.back(), 14);
}

TEST(PageWrap, the_newest_page_stays_even_above_the_budget) {
  PageMembers pages;
  for (int i = 0; i < 3; ++i) pages.append(3);
  const std::vector<float> scores = {1, 2, 3};
  EXPECT_EQ(pages.select({.page_tokens = 3}, {}, scores, Positions{0, 1, 2}, 2),
            (Positions{0, 1, 2}));
}

}  // namespace
}  // namespace kvscope::testing
