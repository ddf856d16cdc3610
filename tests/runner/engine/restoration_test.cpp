// Restored tokens, executed: nothing given changes no bit, everything given is the full cache.
#include "runner/policies/restoration.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

constexpr int kPrompt = 70;
constexpr int kBudget = 24;
constexpr int kNever = 100'000;  // a position that no text reaches

struct Sample {
  std::vector<std::int32_t> prompt = random_ids(kPrompt, 11);
  std::vector<std::int32_t> prefix = random_ids(4, 12);
  std::vector<std::int32_t> gold = random_ids(5, 13);
};

std::vector<GenerateArmResult> generate(TinyEngine& tiny, const Sample& s,
                                        const std::vector<std::shared_ptr<const Policy>>& policies,
                                        std::span<const std::int32_t> watched = {}) {
  GenerateRequest request;
  request.prompt = s.prompt;
  request.prefix = s.prefix;
  request.gold = s.gold;
  request.max_new_tokens = 9;
  request.stop_token = 0;
  request.forced = true;
  request.want_residents = true;
  request.watched = watched;
  for (const auto& policy : policies) request.arms.push_back({policy, nullptr});
  return (*tiny.engine.generate(std::vector{request}))[0];
}

std::shared_ptr<const Policy> full() { return fit("full", 0, kPrompt, false); }

Restoration everywhere(const TinyEngine& tiny, const std::vector<std::int32_t>& positions,
                       Restoration::Room room = Restoration::Room::kBeside) {
  Restoration restoration =
      restore_everywhere(positions, tiny.model.config.n_layers, tiny.model.config.n_kv_heads);
  restoration.room = room;
  return restoration;
}

bool is_of_full(const Policy& policy) { return policy.never_evicts() || policy.read_rule(); }

TEST(Restoration, NothingGivenIsTheArmItself) {
  TinyEngine tiny(gqa_shape());
  const auto policy = fit("h2o", kBudget, kPrompt, false);
  EXPECT_EQ(restore_tokens(policy, everywhere(tiny, {})), policy);
  const auto everything = full();
  EXPECT_EQ(restore_tokens(everything, everywhere(tiny, {3})), everything);
}

// A token that never comes: all of the wrapping at work, and not a bit or a byte of difference.
TEST(Restoration, ATokenThatNeverComesChangesNoBitsOfAnyPolicy) {
  TinyEngine tiny(gqa_shape());
  const Sample s;
  for (const std::string& text : prompt_policies()) {
    const auto policy = fit(text, kBudget, kPrompt, false);
    if (is_of_full(*policy)) continue;
    const auto results =
        generate(tiny, s, {full(), policy, restore_tokens(policy, everywhere(tiny, {kNever}))});
    GenerateArmResult without = results[1];
    // The state of host rules is in no prefill peak.
    without.ledger.prefill_peak.metadata_bytes = results[2].ledger.prefill_peak.metadata_bytes;
    expect_same(without, results[2], text);
  }
  EXPECT_EQ(tiny.engine.pool_held_pages(), 0);
}

TEST(Restoration, EverythingGivenAnswersLikeFull) {
  TinyEngine tiny(gqa_shape());
  const Sample s;
  std::vector<std::int32_t> all(kPrompt);
  for (int i = 0; i < kPrompt; ++i) all[i] = i;
  int n_policies = 0;
  for (const std::string& text : prompt_policies()) {
    const auto policy = fit(text, kBudget, kPrompt, false);
    if (is_of_full(*policy) || policy->positions() != PositionMode::kAbsolute ||
        policy->storage().is_quantised() || policy->sparse_prefill())
      continue;
    ++n_policies;
    const auto results = generate(tiny, s, {full(), restore_tokens(policy, everywhere(tiny, all))});
    EXPECT_EQ(results[1].error, "") << text;
    EXPECT_EQ(results[1].new_ids, results[0].new_ids) << text;
    expect_same_bits(results[1].gold_nll_nats, results[0].gold_nll_nats, text);
    for (const float kl : results[1].kl_full_nats) EXPECT_EQ(kl, 0.0F) << text;
  }
  EXPECT_GT(n_policies, 30);
}

// [layer * n_kv_heads + kv_head]: beside the arm's own tokens, in those heads alone, to the end.
TEST(Restoration, GivenTokensStandBesideThePolicysOwnToTheEnd) {
  TinyEngine tiny(gqa_shape());
  const Sample s;
  const std::vector<std::int32_t> given{5, 17, 40};
  for (const char* text :
       {"streaming_llm", "streaming_llm:positions=absolute", "h2o", "random", "tova:scope=head",
        "snapkv", "snapkv+adakv", "cake", "keydiff", "h2o+page:size=4"}) {
    const auto policy = fit(text, kBudget, kPrompt, false);
    Restoration some =
        restore_everywhere(given, tiny.model.config.n_layers, tiny.model.config.n_kv_heads,
                           [](int layer, int kv_head) { return layer + kv_head == 1; });
    const auto results = generate(tiny, s, {full(), policy, restore_tokens(policy, some)}, given);
    ASSERT_EQ(results[2].error, "") << text;
    for (std::size_t u = 0; u < results[2].resident_positions.size(); ++u) {
      const bool has = !some.positions[u].empty();
      std::vector<std::int32_t> wanted = results[1].resident_positions[u];
      if (has) wanted.insert(wanted.end(), given.begin(), given.end());
      std::sort(wanted.begin(), wanted.end());
      wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
      EXPECT_EQ(results[2].resident_positions[u], wanted) << text << " unit " << u;
      if (!has) continue;
      EXPECT_EQ(results[2].survival.back().alive[u], 3) << text << " unit " << u;
    }
    const auto& survival = results[2].survival;
    EXPECT_EQ(survival.front().rows, 0) << text;
    EXPECT_EQ(survival.back().rows, results[2].decode_steps) << text;
  }
}

TEST(Restoration, WithinTheBudgetAsManyOthersLeave) {
  TinyEngine tiny(gqa_shape());
  const Sample s;
  const std::vector<std::int32_t> given{5, 17, 40};
  for (const char* text :
       {"streaming_llm", "h2o", "random", "tova", "tova:scope=head", "snapkv", "snapkv+adakv",
        "snapkv:decode=window", "keydiff:decode=window", "h2o+pyramid"}) {
    const auto policy = fit(text, kBudget, kPrompt, false);
    const auto within = restore_tokens(policy, everywhere(tiny, given, Restoration::Room::kWithin));
    const auto results = generate(tiny, s, {full(), policy, within}, given);
    ASSERT_EQ(results[2].error, "") << text;
    for (std::size_t u = 0; u < results[2].resident_positions.size(); ++u) {
      const auto& kept = results[1].resident_positions[u];
      const auto& now = results[2].resident_positions[u];
      EXPECT_EQ(now.size(), kept.size()) << text << " unit " << u;
      EXPECT_TRUE(std::includes(now.begin(), now.end(), given.begin(), given.end())) << text;
      EXPECT_TRUE(std::binary_search(now.begin(), now.end(), kPrompt - 1)) << text;
      for (const std::int32_t position : now) {
        EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), position) ||
                    std::binary_search(given.begin(), given.end(), position))
            << text << " position " << position;
      }
      EXPECT_EQ(results[2].survival.back().alive[u], 3) << text << " unit " << u;
    }
    EXPECT_EQ(results[2].ledger.steady.logical_bytes, results[1].ledger.steady.logical_bytes)
        << text;
  }
}

TEST(Restoration, WithinNeedsRoom) {
  TinyEngine tiny(gqa_shape());
  std::vector<std::int32_t> many(kBudget);
  for (int i = 0; i < kBudget; ++i) many[i] = i;
  const auto within = [&](const char* text, const std::vector<std::int32_t>& given) {
    return restore_tokens(fit(text, kBudget, kPrompt, false),
                          everywhere(tiny, given, Restoration::Room::kWithin));
  };
  EXPECT_THROW(within("h2o", many), DoesNotFit);
  EXPECT_THROW(within("cake", {3}), DoesNotFit);
  EXPECT_THROW(within("keydiff", {3}), DoesNotFit);
  EXPECT_THROW(within("h2o:prefill=streaming:chunk=7", {3}), DoesNotFit);
  many.pop_back();
  EXPECT_NE(within("h2o", many), nullptr);
}

// In stream nothing is put back: a given token never leaves, and the newest others are what a rule
// by position keeps of the rest.
TEST(Restoration, InStreamGivenTokensNeverLeave) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(90, 5);
  const std::vector<std::int32_t> given{2, 30, 31, 60};
  ScoreRequest request;
  request.tokens = ids;
  request.want_residents = true;
  for (const char* text : {"sliding_window", "streaming_llm", "h2o", "tova", "lru", "random",
                           "keydiff", "expected_attention:decode=self", "h2o+page:size=4"}) {
    std::shared_ptr<const Policy> policy;
    try {
      policy = fit(text, kBudget, 90, true);
    } catch (const UsageError&) {
      continue;  // acts at a prompt's end only
    }
    const std::vector arms{
        ScoreArm{policy, nullptr, true},
        ScoreArm{restore_tokens(policy, everywhere(tiny, {kNever})), nullptr, true},
        ScoreArm{restore_tokens(policy, everywhere(tiny, given)), nullptr, true}};
    const auto results = *tiny.engine.score(request, arms);
    expect_same(results[0], results[1], text);
    for (const auto& residents : results[2].resident_positions) {
      EXPECT_TRUE(std::includes(residents.begin(), residents.end(), given.begin(), given.end()))
          << text;
      if (std::string_view(text) != "sliding_window") continue;
      std::vector<std::int32_t> wanted = given;
      for (std::int32_t i = 90 - kBudget; i < 90; ++i) wanted.push_back(i);
      std::sort(wanted.begin(), wanted.end());
      wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
      EXPECT_EQ(residents, wanted);
    }
  }
}

TEST(Restoration, AStreamedPromptKeepsGivenTokensToo) {
  TinyEngine tiny(gqa_shape());
  const Sample s;
  const std::vector<std::int32_t> given{5, 17, 40};
  for (const char* text : {"h2o:prefill=streaming:chunk=7", "streaming_llm:prefill=streaming",
                           "h2o:prefill=streaming:chunk=5:decode=window",
                           "tova:prefill=streaming:chunk=4:decode=grow"}) {
    const auto policy = fit(text, kBudget, kPrompt, false);
    const auto results =
        generate(tiny, s, {full(), restore_tokens(policy, everywhere(tiny, given))}, given);
    ASSERT_EQ(results[1].error, "") << text;
    for (const Survival& survival : results[1].survival) {
      for (const std::int32_t alive : survival.alive) EXPECT_EQ(alive, 3) << text;
    }
  }
}

TEST(Survival, IsCountedAfterTheCutAndAtDoublingRows) {
  TinyEngine tiny(gqa_shape());
  const Sample s;
  std::vector<std::int32_t> watched;
  for (int i = 40; i < 60; ++i) watched.push_back(i);
  const auto results =
      generate(tiny, s, {full(), fit("sliding_window", kBudget, kPrompt, false)}, watched);
  for (const std::int32_t alive : results[0].survival.back().alive) EXPECT_EQ(alive, 20);
  std::vector<int> rows;
  for (const Survival& survival : results[1].survival) {
    rows.push_back(survival.rows);
    // 70 - 24 = 46: of 40 … 59 fourteen are left, one fewer with every row.
    for (const std::int32_t alive : survival.alive)
      EXPECT_EQ(alive, std::max(0, 14 - survival.rows));
  }
  const int end = results[1].decode_steps;
  std::vector<int> wanted{0};
  for (int row = 1; row <= end; row *= 2) wanted.push_back(row);
  if (wanted.back() != end) wanted.push_back(end);
  EXPECT_EQ(rows, wanted);
}

}  // namespace
}  // namespace kvscope
