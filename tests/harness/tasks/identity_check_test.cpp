#include "harness/tasks/identity_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "runner/base/sha256.h"
#include "tests/harness/tasks/sweep_fixture.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SweepTest;
using enum IdentityFinding;
using Sets = std::vector<std::vector<std::int32_t>>;

struct Case {
  std::string policy;
  Budget budget = {.permille = {}, .tokens = 4};
  int prompt_tokens = 10;
  int tokens_seen = 10;
  std::int64_t evicted_tokens = 6;
  double mean_resident_tokens = 4.0;
};

KeptSets check(const Case& c, const Sets& sets) {
  const PolicySpec spec = parse_policy(c.policy);
  const auto policy = fit_policy(spec, {c.budget, 10, c.prompt_tokens == 0});
  Ledger ledger;
  ledger.evicted_tokens = c.evicted_tokens;
  ledger.mean_resident_tokens = c.mean_resident_tokens;
  return check_kept_sets({spec, *policy, sets, c.prompt_tokens, c.tokens_seen, ledger});
}

Sets first(int n) {
  Sets sets(1);
  sets[0].resize(std::size_t(n));
  std::iota(sets[0].begin(), sets[0].end(), 0);
  return sets;
}

TEST(IdentityCheck, AnArmThatDoesWhatWasAskedHasNoFinding) {
  const KeptSets kept = check({"tova"}, {{0, 7, 8, 9}});
  EXPECT_EQ(kept.finding, std::nullopt);
  EXPECT_EQ(kept.budget_tokens, 4);
  EXPECT_EQ(kept.offered_tokens, 10);
  EXPECT_EQ(kept.kept_tokens, 4.0);
  EXPECT_EQ(kept.final_tokens, 4.0);
}

TEST(IdentityCheck, TheHashIsOfLengthsAndPositions) {
  const std::vector<std::int32_t> content = {2, 0, 9, 1, 5};
  EXPECT_EQ(check({"tova"}, {{0, 9}, {5}}).kept_sets_hash,
            sha256_hex(std::as_bytes(std::span(content))));
  // The same positions shared out to the caches in another way are other sets.
  EXPECT_NE(check({"tova"}, {{0}, {5, 9}}).kept_sets_hash,
            check({"tova"}, {{0, 5}, {9}}).kept_sets_hash);
}

TEST(IdentityCheck, EvictingNothingHasTwoNames) {
  const Case held{.policy = "tova",
                  .budget = {.permille = {}, .tokens = 16},
                  .evicted_tokens = 0,
                  .mean_resident_tokens = 10};
  EXPECT_EQ(check(held, first(10)).finding, kHeldEverything);
  Case ratio = held;
  ratio.budget = {.permille = 1000, .tokens = {}};
  EXPECT_EQ(check(ratio, first(10)).finding, kHeldEverything);
  Case evicted_nothing = held;
  evicted_nothing.budget.tokens = 4;
  EXPECT_EQ(check(evicted_nothing, first(10)).finding, kEvictedNothing);
}

TEST(IdentityCheck, AnotherRatioIsFound) {
  EXPECT_EQ(check({"tova"}, first(5)).finding, kOtherRatio);
  EXPECT_EQ(check({"tova"}, first(3)).finding, kOtherRatio);
  EXPECT_EQ(check({"tova"}, {first(4)[0], first(5)[0]}).finding, kOtherRatio);
  // Asked for at the cut, not held to afterwards.
  Case later{.policy = "tova", .evicted_tokens = 6, .mean_resident_tokens = 7};
  EXPECT_EQ(check(later, first(4)).finding, kOtherRatioLater);
  later.policy = "tova:decode=grow";
  EXPECT_EQ(check(later, first(4)).finding, std::nullopt);
}

TEST(IdentityCheck, EachPolicyHasItsAllowance) {
  // Pages of 3 leave as a whole: B - 2 … B + 2.
  for (const auto& [tokens, finding] : std::vector<std::pair<int, std::optional<IdentityFinding>>>{
           {1, kOtherRatio}, {2, {}}, {6, {}}, {7, kOtherRatio}}) {
    const Case c{.policy = "h2o+page:size=3", .mean_resident_tokens = double(tokens)};
    EXPECT_EQ(check(c, first(tokens)).finding, finding) << tokens;
  }
  // Selections every 3 rows: up to B + 2 in between.
  EXPECT_EQ(check({.policy = "tova:every=3", .mean_resident_tokens = 6}, first(6)).finding,
            std::nullopt);
  EXPECT_EQ(check({.policy = "tova:every=3", .mean_resident_tokens = 7}, first(7)).finding,
            kOtherRatio);
  // drop = 2: one token fewer than B.
  EXPECT_EQ(check({.policy = "scissorhands", .mean_resident_tokens = 3}, first(3)).finding,
            std::nullopt);
  EXPECT_EQ(check({.policy = "scissorhands", .mean_resident_tokens = 2}, first(2)).finding,
            kOtherRatio);
  // Shares are whole tokens.
  EXPECT_EQ(
      check({.policy = "snapkv+adakv", .mean_resident_tokens = 3.5}, {first(3)[0], first(4)[0]})
          .finding,
      std::nullopt);
}

TEST(IdentityCheck, WhatNeverWasToEvictIsNotJudged) {
  const Case keeps{.policy = "", .evicted_tokens = 0, .mean_resident_tokens = 10};
  for (const char* text : {"full", "full+kv_int8", "quest"}) {
    Case c = keeps;
    c.policy = text;
    EXPECT_EQ(check(c, first(10)).finding, std::nullopt) << text;
  }
}

TEST(IdentityCheck, GrowingCachesAreJudgedByThePrompt) {
  Case c{.policy = "snapkv", .tokens_seen = 14, .mean_resident_tokens = 8};
  const KeptSets kept = check(c, {{0, 7, 8, 9, 10, 11, 12, 13}});
  EXPECT_EQ(kept.finding, std::nullopt);
  EXPECT_EQ(kept.kept_tokens, 4.0);
  EXPECT_EQ(kept.offered_tokens, 10);
  EXPECT_EQ(kept.final_tokens, 8.0);
  c.tokens_seen = 10;
  EXPECT_EQ(kept.kept_sets_hash, check(c, {{0, 7, 8, 9}}).kept_sets_hash);
}

// Every registered policy with the variants that the engine treats differently, really run.
TEST(IdentityCheck, NoPolicyOfThisProgramIsFlagged) {
  using namespace kvscope::testing;
  constexpr int kPrompt = 70;
  constexpr int kBudget = 24;
  TinyEngine tiny(gqa_shape(), 2);
  const auto judged = [](const PolicySpec& spec) {
    return !spec.is_full() && spec.score != "quest";
  };

  const auto prompt = random_ids(kPrompt, 11);
  const auto prefix = random_ids(4, 12);
  GenerateRequest request;
  request.prompt = prompt;
  request.prefix = prefix;
  request.max_new_tokens = 9;
  request.want_residents = true;
  const std::vector<std::string> texts = prompt_policies();
  for (const std::string& text : texts)
    request.arms.push_back({fit(text, kBudget, kPrompt, false), nullptr});
  const auto results = *tiny.engine.generate(std::vector{request});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const PolicySpec spec = parse_policy(texts[i]);
    const GenerateArmResult& r = results[0][i];
    const KeptSets kept = check_kept_sets(
        {spec, *request.arms[i].policy, r.resident_positions, kPrompt, kPrompt, r.ledger});
    EXPECT_EQ(kept.finding, std::nullopt)
        << texts[i] << ": " << name_of(kept.finding.value_or(kOtherRatio)) << ' '
        << kept.kept_tokens << ' ' << kept.final_tokens;
    if (judged(spec)) {
      EXPECT_LT(kept.kept_tokens, kPrompt) << texts[i];
    }
  }

  ScoreRequest score;
  const auto tokens = random_ids(2 * kPrompt, 13);
  score.tokens = tokens;
  score.prompt_tokens = kPrompt;
  score.want_residents = true;
  std::vector<ScoreArm> arms;
  for (const std::string& text : texts) {
    const bool in_stream = parse_policy(text).acts_in_stream();
    arms.push_back({fit(text, kBudget, kPrompt, in_stream), nullptr, in_stream});
  }
  const auto scored = *tiny.engine.score(score, arms);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const KeptSets kept =
        check_kept_sets({parse_policy(texts[i]), *arms[i].policy, scored[i].resident_positions,
                         arms[i].in_stream ? 0 : kPrompt, 2 * kPrompt, scored[i].ledger});
    EXPECT_EQ(kept.finding, std::nullopt)
        << "scored " << texts[i] << ": " << name_of(kept.finding.value_or(kOtherRatio)) << ' '
        << kept.kept_tokens << ' ' << kept.final_tokens;
  }
}

// Looking at what stayed changes no bits.
TEST(IdentityCheck, WantingResidentsChangesNothing) {
  using namespace kvscope::testing;
  const auto prompt = random_ids(70, 11);
  std::vector<std::vector<GenerateArmResult>> results;
  for (const bool wanted : {false, true}) {
    TinyEngine tiny(gqa_shape(), 1);
    GenerateRequest request;
    request.prompt = prompt;
    request.forced = true;
    request.want_residents = wanted;
    for (const char* text : {"full", "tova", "cake", "snapkv+adakv"})
      request.arms.push_back({fit(text, 24, 69, false), nullptr});
    results.push_back((*tiny.engine.generate(std::vector{request}))[0]);
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_EQ(results[0][i].resident_positions.size(), 0U);
    EXPECT_EQ(results[1][i].resident_positions.size(), 4U);  // 2 layers of 2 KV heads
    results[1][i].resident_positions.clear();
    expect_same(results[0][i], results[1][i], "arm " + std::to_string(i));
  }
}

TEST_F(SweepTest, NotesStandUnderTheTableAndInJson) {
  const std::string tasks = "needle:length=300:samples=2";
  // All of the noise's tokens fit 5000; windows of 4 and 5 tokens in a budget of 1: none fits.
  SweepOptions o = options(
      "a.db",
      "tova,snapkv:window=1:decode=grow,sliding_window,streaming_llm:sinks=0:positions=absolute",
      "", tasks);
  o.arms.budget_tokens = "32,5000";
  const std::string json = run(o);
  EXPECT_THAT(json, HasSubstr("\"finding\":\"held_everything\""));
  EXPECT_THAT(json, HasSubstr("\"finding\":\"same_sets_as\",\"other_arm_id\":"));
  EXPECT_THAT(json, HasSubstr("\"other_arm\":\"sliding_window@32tok\""));
  EXPECT_THAT(json, Not(HasSubstr("other_ratio")));
  EXPECT_THAT(json, Not(HasSubstr("evicted_nothing")));
  o.json = false;
  const std::string text = run(o);
  EXPECT_THAT(text, HasSubstr("! streaming_llm:sinks=0:positions=absolute@32tok kept the same "
                              "tokens as sliding_window@32tok in 2 of 2 samples of needle\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("! tova@5000tok evicted nothing, because its budget held all tokens, "
                              "in 2 of 2 samples of needle\n"));
}

// Arms that are made to keep the same are no finding.
TEST_F(SweepTest, StorageDecodingAndPrefillAreNotCompared) {
  const std::string json =
      run(options("a.db", "tova,tova:decode=grow,tova+kv_int8,tova:prefill=two_pass", "0.2",
                  "needle:length=300:samples=2,perplexity:context=64:windows=1"));
  EXPECT_THAT(json, Not(HasSubstr("\"finding\"")));
}

}  // namespace
}  // namespace kvscope
