#include <gtest/gtest.h>

#include "runner/engine/prefix_store.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

constexpr int kPrompt = 70;
constexpr int kBudget = 24;

struct Sample {
  std::vector<std::int32_t> prompt, prefix, gold;
};
Sample sample(std::uint64_t seed) {
  return {random_ids(kPrompt, seed), random_ids(4, seed + 1), random_ids(5, seed + 2)};
}

GenerateRequest request_of(const Sample& s, const std::vector<std::string>& texts) {
  GenerateRequest request;
  request.prompt = s.prompt;
  request.prefix = s.prefix;
  request.gold = s.gold;
  request.max_new_tokens = 9;
  request.stop_token = 0;
  request.forced = true;
  request.want_residents = true;
  for (const std::string& text : texts)
    request.arms.push_back({fit(text, kBudget, int(s.prompt.size()), false), nullptr});
  return request;
}

std::vector<std::string> all_arms() {
  std::vector<std::string> texts{"full"};
  for (const std::string& text : prompt_policies()) {
    if (text != "full") texts.push_back(text);
  }
  return texts;
}

TEST(Generate, ArmsAreBitIdenticalAloneInASweepAndBesideOtherSamples) {
  TinyEngine one(gqa_shape(), 1);
  TinyEngine two(gqa_shape(), 2);
  const Sample a = sample(11);
  const Sample b = sample(22);
  const std::vector<std::string> texts = all_arms();
  const std::vector requests{request_of(a, texts), request_of(b, texts)};
  const auto together = *two.engine.generate(requests);
  for (std::size_t i = 1; i < texts.size(); ++i) {
    const std::vector alone{request_of(b, {"full", texts[i]})};
    const auto results = *one.engine.generate(alone);
    expect_same(results[0][0], together[1][0], "full");
    expect_same(results[0][1], together[1][i], texts[i]);
  }
  EXPECT_EQ(one.engine.pool_held_pages(), 0);
  EXPECT_EQ(two.engine.pool_held_pages(), 0);
}

// Prompts with a common beginning: what an earlier sample computed gives the same bits to every
// arm, and a stopped pass leaves nothing behind that a later one could read.
TEST(Generate, PrefixCacheChangesNoBits) {
  TinyEngine without(gqa_shape(), 2);
  TinyEngine with(gqa_shape(), 2);
  with.engine.use_prefix_cache(std::int64_t{1} << 30);
  const auto document = random_ids(150, 5);
  std::vector<Sample> samples;
  for (const std::uint64_t seed : {1, 2, 3}) {
    Sample s = sample(seed);
    s.prompt.resize(20 + 7 * seed);
    s.prompt.insert(s.prompt.begin(), document.begin(), document.end());
    samples.push_back(s);
  }
  samples.push_back(samples[0]);                            // wholly known but for the last block
  samples[3].prompt.resize(2 * PrefixStore::kBlockTokens);  // … and a prompt of full blocks
  const std::vector<std::string> texts = all_arms();
  const std::vector stopped{request_of(samples[0], texts)};
  int polls = 0;
  EXPECT_EQ(with.engine.generate(stopped, [&] { return ++polls == 2; }), std::nullopt);
  for (const Sample& s : samples) {
    const std::vector request{request_of(s, texts)};
    const auto expected = *without.engine.generate(request);
    const auto actual = *with.engine.generate(request);
    for (std::size_t i = 0; i < texts.size(); ++i)
      expect_same(expected[0][i], actual[0][i], texts[i]);
  }
  const PrefixCacheCounters counters = with.engine.prefix_counters();
  EXPECT_EQ(counters.hit_tokens, 128 + 128 + 64);
  EXPECT_EQ(counters.evictions, 0);
  EXPECT_EQ(without.engine.prefix_counters().hit_tokens, 0);
}

TEST(Generate, PrefixCacheOfOneBlockIsOfNoUseAndDoesNoHarm) {
  TinyEngine without(gqa_shape());
  TinyEngine with(gqa_shape());
  with.engine.use_prefix_cache(1);
  const Sample s = sample(9);
  const std::vector request{request_of(s, {"full", "h2o"})};
  for (int i = 0; i < 2; ++i)
    expect_same((*without.engine.generate(request))[0][1], (*with.engine.generate(request))[0][1],
                "h2o");
  EXPECT_EQ(with.engine.prefix_counters().hit_tokens, 0);
}

// The gold row is the same computation as scoring prompt + prefix + gold: the two ways of advancing
// arms must agree to the bit.
TEST(Generate, GoldRowsEqualTheLayerMajorScoreOfTheSameTokens) {
  TinyEngine tiny(gqa_shape());
  const Sample s = sample(33);
  std::vector<std::int32_t> ids = s.prompt;
  ids.insert(ids.end(), s.prefix.begin(), s.prefix.end());
  const std::size_t first_gold = ids.size();
  ids.insert(ids.end(), s.gold.begin(), s.gold.end());
  const std::vector<std::string> texts = all_arms();
  const std::vector requests{request_of(s, texts)};
  const auto generated = *tiny.engine.generate(requests);
  ScoreRequest score;
  score.tokens = ids;
  score.prompt_tokens = kPrompt;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector arms{ScoreArm{requests[0].arms[i].policy, nullptr, false}};
    const auto scored = *tiny.engine.score(score, arms);
    for (std::size_t k = 0; k < s.gold.size(); ++k) {
      EXPECT_EQ(generated[0][i].gold_nll_nats[k], float(scored[0].nll_nats[first_gold + k]))
          << texts[i] << " gold " << k;
    }
  }
}

TEST(Generate, GreedyAnswerOfFullIsTheArgmaxChainOfTheScore) {
  TinyEngine tiny(mqa_shape());
  const Sample s = sample(44);
  const auto generated = *tiny.engine.generate(std::vector{request_of(s, {"full"})});
  std::vector<std::int32_t> ids = s.prompt;
  ids.insert(ids.end(), s.prefix.begin(), s.prefix.end());
  for (const std::int32_t token : generated[0][0].new_ids) {
    ScoreRequest request;
    request.tokens = ids;
    request.top = 1;
    const std::vector arms{ScoreArm{fit("full", 0, int(ids.size()), true), nullptr, true}};
    const auto scored = *tiny.engine.score(request, arms);
    ASSERT_EQ(scored[0].top.back()[0].first, token);
    ids.push_back(token);
  }
}

TEST(Generate, AnArmThatKeepsEverythingAnswersLikeFullWithZeroDivergence) {
  TinyEngine tiny(gqa_shape());
  const Sample s = sample(55);
  GenerateRequest request = request_of(s, {"full"});
  for (const char* text : {"h2o:positions=absolute", "snapkv:decode=grow", "tova"}) {
    request.arms.push_back({fit(text, 200, kPrompt, false), nullptr});
  }
  const auto results = *tiny.engine.generate(std::vector{request});
  for (std::size_t i = 1; i < request.arms.size(); ++i) {
    EXPECT_EQ(results[0][i].new_ids, results[0][0].new_ids);
    ASSERT_EQ(results[0][i].kl_full_nats.size(), results[0][0].new_ids.size());
    for (const float kl : results[0][i].kl_full_nats) EXPECT_EQ(kl, 0.0F);
    for (const float delta : results[0][i].forced_delta_nll_nats) EXPECT_EQ(delta, 0.0F);
  }
}

TEST(Generate, WithoutAPrefixTheLastPromptTokenIsFedAfterTheSelection) {
  TinyEngine tiny(gqa_shape());
  const Sample s = sample(66);
  GenerateRequest held = request_of(s, {"full", "h2o"});
  held.prefix = {};
  held.arms[1].policy = fit("h2o", kBudget, kPrompt - 1, false);
  GenerateRequest explicit_prefix = held;
  explicit_prefix.prompt = held.prompt.first(kPrompt - 1);
  explicit_prefix.prefix = held.prompt.last(1);
  const auto results = *tiny.engine.generate(std::vector{held, explicit_prefix});
  for (int arm : {0, 1})
    expect_same(results[0][arm], results[1][arm], "arm " + std::to_string(arm));
}

TEST(Generate, ForcedRowsFollowFullsAnswerToItsEnd) {
  TinyEngine tiny(gqa_shape());
  const Sample s = sample(77);
  const auto results =
      *tiny.engine.generate(std::vector{request_of(s, {"full", "random", "tova"})});
  for (int arm : {1, 2}) {
    EXPECT_EQ(results[0][arm].kl_full_nats.size(), results[0][0].new_ids.size());
    EXPECT_EQ(results[0][arm].gold_nll_nats.size(), s.gold.size());
  }
}

TEST(Generate, PrefillPeakIsOneDenseLayerBesideWhatTheOthersKept) {
  TinyEngine tiny(gqa_shape());
  const Sample s = sample(88);
  const auto results = *tiny.engine.generate(
      std::vector{request_of(s, {"full", "snapkv", "snapkv:prefill=two_pass"})});
  const PageShape page = tiny.model.page_shape();
  const std::int64_t heads = tiny.model.config.n_kv_heads;
  const std::int64_t layers = tiny.model.config.n_layers;
  const auto tokens = [&](std::int64_t n) { return n * heads * std::int64_t(page.token_bytes()); };
  EXPECT_EQ(results[0][0].ledger.prefill_peak.logical_bytes, layers * tokens(kPrompt));
  EXPECT_EQ(results[0][1].ledger.prefill_peak.logical_bytes,
            (layers - 1) * tokens(kBudget) + tokens(kPrompt));
  EXPECT_EQ(results[0][2].ledger.prefill_peak.logical_bytes, layers * tokens(kPrompt));
  // snapkv grows by what is fed: the prefix and all answer tokens but the last.
  const std::int64_t fed = std::int64_t(s.prefix.size() + results[0][1].new_ids.size()) - 1;
  EXPECT_EQ(results[0][1].ledger.steady.logical_bytes, layers * tokens(kBudget + fed));
}

}  // namespace
}  // namespace kvscope
