// policies.md §9 for all registered policies, as far as it concerns policies alone. The numbers in
// the names are its items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "runner/base/splitmix.h"
#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

constexpr int kCases = 1000;

Positions first_positions(int n) {
  Positions positions(n);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

// prompt_tokens = 0: in stream.
struct Drive {
  int prompt_tokens = 0;
  int chunk = 1;
};

// All kept sets, by step and KV head.
std::vector<Positions> trace(const std::shared_ptr<const Policy>& policy, const RandomCase& c,
                             Drive drive, int layer = 0) {
  Replay replay(policy, c.table, c.n_kv_heads, layer);
  std::vector<Positions> sets;
  const auto add = [&] {
    for (int h = 0; h < c.n_kv_heads; ++h) sets.push_back(replay.kept(h));
  };
  int t = drive.prompt_tokens;
  if (t > 0) {
    replay.prompt(t);
    add();
  }
  for (; t < c.table.n_tokens; t += drive.chunk) {
    replay.chunk(t, std::min(t + drive.chunk, c.table.n_tokens) - 1);
    add();
  }
  return sets;
}

std::vector<Positions> trace(const std::string& text, const RandomCase& c, bool in_stream) {
  const int length = in_stream ? c.table.n_tokens : c.prompt_tokens;
  return trace(fitted(text, c.budget_tokens, length, in_stream), c,
               {.prompt_tokens = in_stream ? 0 : c.prompt_tokens});
}

AttentionTable uniform_table(int n_heads, int n_tokens) { return {n_heads, n_tokens}; }

// Seeded cases first … first + n - 1; where the policy has a rule of its own, every second one in
// stream.
template <class Check>
void for_cases(const std::string& text, Check check, int first = 0, int n = kCases) {
  const bool streams = acts_in_stream(text);
  for (int seed = first; seed < first + n && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(text + " seed " + std::to_string(seed));
    check(random_case(seed), streams && seed % 2 == 1);
  }
}

// Once for each registered policy: kCases cases, shared between its variants.
class EveryPolicy : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<std::string> variants() const { return variants_of(*find_policy(GetParam())); }

  template <class Check>
  void for_variants(Check check) const {
    const auto texts = variants();
    const int n = (kCases + static_cast<int>(texts.size()) - 1) / static_cast<int>(texts.size());
    for (int v = 0; v < static_cast<int>(texts.size()); ++v) {
      for_cases(
          texts[v], [&](const RandomCase& c, bool in_stream) { check(texts[v], c, in_stream); },
          v * n, n);
    }
  }
};

TEST_P(EveryPolicy, item_1_keeps_everything_while_it_fits) {
  for_variants([&](const std::string& text, RandomCase c, bool in_stream) {
    c.budget_tokens = c.table.n_tokens;
    for (const Positions& kept : trace(text, c, in_stream)) {
      EXPECT_EQ(kept, first_positions(static_cast<int>(kept.size())));
    }
    EXPECT_EQ(trace(text, c, in_stream).back().size(), c.table.n_tokens);
  });
}

TEST_P(EveryPolicy, item_1_a_ratio_of_1000_permille_never_evicts) {
  for_variants([&](const std::string& text, const RandomCase& c, bool in_stream) {
    FitRequest request;
    request.budget.permille = 1000;
    request.length = in_stream ? c.table.n_tokens : c.prompt_tokens;
    request.in_stream = in_stream;
    const auto policy = fit_policy(parse_policy(text), request);
    EXPECT_TRUE(policy->never_evicts());
    EXPECT_EQ(policy->prompt_need(), PromptNeed{});
    const auto sets = trace(policy, c, {.prompt_tokens = in_stream ? 0 : c.prompt_tokens});
    EXPECT_EQ(sets.back(), first_positions(c.table.n_tokens));
  });
}

TEST_P(EveryPolicy, item_2_keeps_at_most_the_budget_of_what_is_visible) {
  for_variants([&](const std::string& text, const RandomCase& c, bool in_stream) {
    const PolicySpec spec = parse_policy(text);
    const int prompt_tokens = in_stream ? 0 : c.prompt_tokens;
    const auto policy =
        fitted(text, c.budget_tokens, in_stream ? c.table.n_tokens : prompt_tokens, in_stream);
    const bool grows = !policy->scan_rule().has_value();
    Replay replay(policy, c.table, c.n_kv_heads);
    const auto check = [&](int newest, int allowed) {
      for (int h = 0; h < c.n_kv_heads; ++h) {
        const Positions& kept = replay.kept(h);
        const Positions& visible = replay.visible(h);
        EXPECT_LE(static_cast<int>(kept.size()), allowed);
        EXPECT_GE(static_cast<int>(kept.size()),
                  std::min(c.budget_tokens, static_cast<int>(visible.size())));
        EXPECT_EQ(std::adjacent_find(kept.begin(), kept.end(), std::greater_equal<>()), kept.end());
        EXPECT_TRUE(std::includes(visible.begin(), visible.end(), kept.begin(), kept.end()));
        if (spec.protect_last) {
          EXPECT_EQ(kept.back(), newest);
        }
      }
    };
    if (prompt_tokens > 0) {
      replay.prompt(prompt_tokens);
      check(prompt_tokens - 1, spec.is_full() ? prompt_tokens : c.budget_tokens);
    }
    for (int t = prompt_tokens; t < c.table.n_tokens; ++t) {
      const Positions before = replay.kept(0);
      replay.step(t);
      EXPECT_EQ(replay.visible(0).size(), before.size() + 1);  // no resurrection
      check(t, grows ? t + 1 : c.budget_tokens);
    }
  });
}

TEST_P(EveryPolicy, item_12_positive_rescaling_of_scores_changes_nothing) {
  for_variants([&](const std::string& text, const RandomCase& c, bool) {
    const auto policy = fitted(text, c.budget_tokens, c.prompt_tokens);
    if (policy->prefill() == PrefillMode::kStreaming) return;  // has no prompt-end cut
    std::vector<float> weights = column_weights(c.table, policy->prompt_need(), c.prompt_tokens);
    PromptLayer layer{.n_layers = 1,
                      .n_heads = c.table.n_heads,
                      .n_kv_heads = c.n_kv_heads,
                      .prompt_tokens = c.prompt_tokens,
                      .column_weights = weights};
    const auto kept = policy->select_prompt(layer);
    std::vector<float> scaled = weights;
    for (float& weight : scaled) weight *= 8.0F;  // a power of two: no rounding
    layer.column_weights = scaled;
    const auto kept_scaled = policy->select_prompt(layer);
    for (int h = 0; h < c.n_kv_heads; ++h) {
      EXPECT_EQ(kept[h].positions, kept_scaled[h].positions);
    }
  });
}

TEST_P(EveryPolicy, item_23_a_second_request_is_as_if_it_were_alone) {
  for_variants([&](const std::string& text, const RandomCase& c, bool in_stream) {
    RandomCase other = random_case(smix(c.table.n_tokens * 64 + c.prompt_tokens));
    // A policy is fitted to one length of the prompt.
    if (other.table.n_tokens < c.prompt_tokens) {
      other.table = AttentionTable(other.table.n_heads, c.prompt_tokens);
    }
    const Drive drive{.prompt_tokens = in_stream ? 0 : c.prompt_tokens};
    const auto shared =
        fitted(text, c.budget_tokens, in_stream ? c.table.n_tokens : c.prompt_tokens, in_stream);
    trace(shared, other, drive);
    EXPECT_EQ(trace(shared, c, drive), trace(text, c, in_stream));
  });
}

TEST_P(EveryPolicy, item_23_a_clone_and_its_origin_do_not_share_state) {
  for_variants([&](const std::string& text, const RandomCase& c, bool in_stream) {
    const auto policy =
        fitted(text, c.budget_tokens, in_stream ? c.table.n_tokens : c.prompt_tokens, in_stream);
    Replay replay(policy, c.table, c.n_kv_heads);
    if (!in_stream) replay.prompt(c.prompt_tokens);
    if (replay.state() == nullptr) return;
    const Positions before = replay.kept();
    Positions visible = before;
    visible.push_back(c.table.n_tokens);
    const auto origin = replay.state()->clone();
    const auto clone = origin->clone();
    const std::vector<float> flat(visible.size(), 0.25F);
    std::vector<float> steep(visible.size(), 0.0F);
    steep.back() = 1.0F;
    origin->observe({visible, flat, 1});
    const Positions kept = origin->select(visible);
    clone->observe({visible, steep, 1});
    clone->compact(clone->select(visible));
    EXPECT_EQ(origin->select(visible), kept);
  });
}

TEST_P(EveryPolicy, item_24_threads_sharing_a_policy_get_the_same_sets) {
  for (const std::string& text : variants()) {
    std::vector<RandomCase> cases;
    std::vector<std::shared_ptr<const Policy>> fitted_policies;
    for (int seed = 0; seed < 50; ++seed) {
      cases.push_back(random_case(seed));
      fitted_policies.push_back(
          fitted(text, cases.back().budget_tokens, cases.back().prompt_tokens));
    }
    const auto all = [&] {
      std::vector<std::vector<Positions>> sets;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        sets.push_back(
            trace(fitted_policies[i], cases[i], {.prompt_tokens = cases[i].prompt_tokens}));
      }
      return sets;
    };
    const auto alone = all();
    std::vector<std::vector<std::vector<Positions>>> results(4);
    std::vector<std::thread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = all(); });
    for (auto& thread : threads) thread.join();
    for (const auto& result : results) EXPECT_EQ(result, alone);
  }
}

TEST_P(EveryPolicy, nan_probabilities_leave_first_and_are_counted) {
  for (const std::string& text : variants()) {
    const PolicySpec spec = parse_policy(text);
    const auto policy = fitted(text, 3, 8);
    const auto rule = policy->scan_rule();
    const PromptNeed need = policy->prompt_need();
    // Column 2 of the prompt and token 9 of a row are NaN; both lie outside every protected region
    // and pooling reach.
    std::vector<float> weights(need.rows == PromptNeed::Rows::kNone ? 0 : 8, 0.5F);
    if (!weights.empty()) {
      weights[2] = std::numeric_limits<float>::quiet_NaN();
      const auto heads = policy->select_prompt({.n_layers = 1,
                                                .n_heads = 1,
                                                .n_kv_heads = 1,
                                                .prompt_tokens = 8,
                                                .column_weights = weights});
      EXPECT_THAT(heads[0].positions, ::testing::Not(::testing::Contains(2)));
      EXPECT_EQ(heads[0].positions.size(), 3U);
      EXPECT_GE(heads[0].nan_scores, 1);
    }
    if (!rule || rule->statistic == ScanRule::Statistic::kNone) continue;
    const Positions visible = {8, 9, 10, 11};
    const auto state = policy->make_state({0, 0}, {});
    std::vector<float> row = {0.1F, std::numeric_limits<float>::quiet_NaN(), 0.2F, 0.7F};
    state->observe({visible, row, 1});
    EXPECT_EQ(state->select(visible), (Positions{0, 2, 3}));
    EXPECT_EQ(state->nan_scores(), 1U);
  }
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(registry, EveryPolicy, ::testing::ValuesIn(policy_names()),
                         [](const auto& info) { return info.param; });

TEST(Variants, cover_the_whole_registry) {
  const auto texts = all_variants();
  EXPECT_GE(texts.size(), 40U);
  for (const PolicyInfo& info : policies()) {
    EXPECT_THAT(texts, ::testing::Contains(std::string(info.name)));
  }
  for (const char* text : {"h2o:norm=mean", "h2o:norm=decay", "tova:scope=head", "snapkv:pool=max",
                           "snapkv:decode=tova", "random:protect_last=false"}) {
    EXPECT_THAT(texts, ::testing::Contains(std::string(text)));
  }
}

// ---- relations between policies ----

TEST(Relations, item_13_position_only_rules_do_not_depend_on_the_chunk) {
  int covered = 0;
  for (const std::string& text : all_variants()) {
    const auto rule = fitted(text, 2, 4)->scan_rule();
    // Other scores depend on what was visible, so that the chunk may matter.
    if (!acts_in_stream(text) || (rule && rule->statistic != ScanRule::Statistic::kNone)) continue;
    ++covered;
    for_cases(text, [&](const RandomCase& c, bool) {
      const auto policy = fitted(text, c.budget_tokens, c.table.n_tokens, true);
      const auto one_by_one = trace(policy, c, {.chunk = 1});
      for (const int chunk : {2, 3, 7, c.table.n_tokens}) {
        EXPECT_EQ(trace(policy, c, {.chunk = chunk}).back(), one_by_one.back());
      }
      // Nor on whether the tokens before the end were a prompt.
      EXPECT_EQ(trace(policy, c, {.prompt_tokens = c.prompt_tokens}).back(), one_by_one.back());
    });
  }
  EXPECT_GE(covered, 12);
}

TEST(Relations, item_3_h2o_without_heavy_hitters_and_streaming_without_sinks_are_windows) {
  for (int seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const RandomCase c = random_case(seed);
    const bool in_stream = seed % 2 == 1;
    const auto window = trace("sliding_window", c, in_stream);
    const std::string recent = std::to_string(c.budget_tokens);
    EXPECT_EQ(trace("h2o:recent=" + recent, c, in_stream), window);
    EXPECT_EQ(trace("h2o:norm=mean:recent=" + recent, c, in_stream), window);
    EXPECT_EQ(trace("streaming_llm:sinks=0", c, in_stream), window);
  }
}

TEST(Relations, item_4_under_uniform_attention_h2o_is_streaming_and_tova_is_a_window) {
  for (int seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomCase c = random_case(seed);
    c.table = uniform_table(c.table.n_heads, c.table.n_tokens);
    const int recent = 1 + static_cast<int>(smix(seed) % c.budget_tokens);
    const std::string written = ":recent=" + std::to_string(recent);
    const std::string sinks = "streaming_llm:sinks=" + std::to_string(c.budget_tokens - recent);
    EXPECT_EQ(trace("h2o" + written, c, true), trace(sinks, c, true));
    EXPECT_EQ(trace("h2o:norm=mean" + written, c, true), trace(sinks, c, true));
    EXPECT_EQ(trace("h2o" + written, c, false), trace(sinks, c, false));
    // norm=mean only up to the cut: rows of a long dense prompt are flatter than rows over B + 1
    // tokens.
    EXPECT_EQ(trace("h2o:norm=mean" + written, c, false).front(), trace(sinks, c, false).front());
    for (const bool in_stream : {false, true}) {
      EXPECT_EQ(trace("tova", c, in_stream), trace("sliding_window", c, in_stream));
    }
  }
}

TEST(Relations, item_5_snapkv_of_one_row_without_pooling_is_one_shot_tova) {
  for (int seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomCase c = random_case(seed);
    c.n_kv_heads = c.group = 1;
    c.table.n_heads = 1;
    c.prompt_tokens = std::max(2, c.prompt_tokens);
    EXPECT_EQ(trace("snapkv:window=1:kernel=1", c, false), trace("tova:decode=grow", c, false));
  }
}

TEST(Relations, item_6_one_shot_sets_are_nested_in_the_budget) {
  const std::vector<std::string> one_shot = {
      "snapkv:window=2",          "snapkv:window=2:pool=max:order=pool_agg",
      "random:decode=grow",       "tova:decode=grow",
      "h2o:recent=2:decode=grow", "sliding_window:decode=grow"};
  for (const std::string& text : one_shot) {
    for (int seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE(text + " seed " + std::to_string(seed));
      RandomCase c = random_case(seed);
      c.prompt_tokens = c.table.n_tokens;
      if (c.prompt_tokens < 4) continue;
      Positions smaller;
      for (c.budget_tokens = 2; c.budget_tokens <= c.prompt_tokens; ++c.budget_tokens) {
        const Positions kept = trace(text, c, false).front();
        EXPECT_TRUE(std::includes(kept.begin(), kept.end(), smaller.begin(), smaller.end()));
        smaller = kept;
      }
    }
  }
}

TEST(Relations, item_14_random_is_nested_in_the_budget_in_stream) {
  for (int seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomCase c = random_case(seed);
    Positions smaller;
    for (c.budget_tokens = 1; c.budget_tokens <= c.table.n_tokens; ++c.budget_tokens) {
      const Positions kept = trace("random:protect_last=false:seed=9", c, true).back();
      EXPECT_TRUE(std::includes(kept.begin(), kept.end(), smaller.begin(), smaller.end()));
      smaller = kept;
    }
  }
}

TEST(Relations, item_14_random_includes_every_position_equally_often) {
  constexpr int kTokens = 40;
  constexpr int kBudget = 10;
  RandomCase c = random_case(1);
  c.n_kv_heads = c.group = 1;
  c.table = uniform_table(1, kTokens);
  c.budget_tokens = kBudget;
  std::vector<int> included(kTokens, 0);
  for (int seed = 0; seed < kCases; ++seed) {
    const std::string text = "random:protect_last=false:seed=" + std::to_string(seed);
    const auto sets = trace(text, c, true);
    for (const auto position : sets.back()) ++included[position];
  }
  // Sampling without replacement: Σ (n_i - Np)² / (Np(1-p)) · (T-1)/T is χ² with T - 1 = 39 degrees
  // of freedom; its 99.9 % quantile is 72.1 and its 0.1 % quantile 16.3. The seeds are fixed, so
  // this either holds or does not.
  const double p = static_cast<double>(kBudget) / kTokens;
  double chi_squared = 0.0;
  for (const int n : included) {
    const double difference = n - kCases * p;
    chi_squared += difference * difference / (kCases * p * (1.0 - p));
  }
  chi_squared *= static_cast<double>(kTokens - 1) / kTokens;
  EXPECT_LT(chi_squared, 72.1);
  EXPECT_GT(chi_squared, 16.3);
}

TEST(Relations, item_14_random_differs_between_layers_heads_and_seeds) {
  RandomCase c = random_case(3);
  c.n_kv_heads = 2;
  c.group = 1;
  c.table = uniform_table(2, 64);
  const auto policy = fitted("random", 16, 64);
  const auto layer0 = trace(policy, c, {.prompt_tokens = 64}, 0);
  EXPECT_NE(layer0[0], layer0[1]);
  EXPECT_NE(trace(policy, c, {.prompt_tokens = 64}, 1)[0], layer0[0]);
  EXPECT_NE(trace(fitted("random:seed=1", 16, 64), c, {.prompt_tokens = 64})[0], layer0[0]);
  EXPECT_EQ(trace(policy, c, {.prompt_tokens = 64}, 0), layer0);
}

}  // namespace
}  // namespace kvscope::testing
