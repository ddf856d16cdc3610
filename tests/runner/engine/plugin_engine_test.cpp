// Plug-ins in the engine: the same bits as built-in rules, and faults that stay in their arm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/policies/catalog.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kTokens = 90;  // almost three pages
constexpr int kPrompt = 60;
constexpr int kBudget = 20;

std::shared_ptr<const Policy> fit_plugin(const std::string& text, int length, bool in_stream) {
  std::vector<std::string> files;
  for (const char* name : {"attention_average", "misbehaving", "newest", "throws"})
    files.push_back(std::string(KVSCOPE_PLUGIN_DIR "/") + name + ".so");
  files.emplace_back(KVSCOPE_PLUGIN_DIR "/prompt_end_only.so");
  const PolicySpec spec = parse_policy(text, catalog_with_plugins(files));
  Budget budget;
  if (spec.is_full()) {
    budget.permille = 1000;
  } else {
    budget.tokens = kBudget;
  }
  return fit_policy(spec, {budget, length, in_stream});
}

ScoreArm in_stream(const std::string& text) {
  return {fit_plugin(text, kTokens, true), nullptr, true};
}
ScoreArm after_prompt(const std::string& text) {
  return {fit_plugin(text, kPrompt, false), nullptr, false};
}

std::vector<ScoreArmResult> score(Engine& engine, const std::vector<ScoreArm>& arms,
                                  bool token_major = false) {
  const auto ids = random_ids(kTokens);
  ScoreRequest request;
  request.tokens = ids;
  request.prompt_tokens = kPrompt;
  request.compare_full = true;
  request.want_residents = true;
  request.token_major = token_major;
  return *engine.score(request, arms);
}

std::vector<GenerateArmResult> generate(Engine& engine, const std::vector<std::string>& texts) {
  const auto prompt = random_ids(kPrompt, 11);
  const auto prefix = random_ids(4, 12);
  const auto gold = random_ids(5, 13);
  GenerateRequest request;
  request.prompt = prompt;
  request.prefix = prefix;
  request.gold = gold;
  request.max_new_tokens = 9;
  request.forced = true;
  request.want_residents = true;
  for (const std::string& text : texts)
    request.arms.push_back({fit_plugin(text, kPrompt, false), nullptr});
  return engine.generate(std::span(&request, 1))->front();
}

// Pairs that keep the same tokens by the same arithmetic.
struct Twins {
  std::string plugin, built_in;
};
const std::vector<Twins> kWindows = {
    {"newest", "sliding_window"},
    {"newest:positions=cache_relative", "sliding_window:positions=cache_relative"},
    {"newest:positions=rerotate", "sliding_window:positions=rerotate"},
    {"newest:every=4", "sliding_window:every=4"},
    {"newest+pyramid", "sliding_window+pyramid"},
    {"newest+kv_int8", "sliding_window+kv_int8"}};

TEST(PluginEngine, AWindowIsTheBuiltInOneBitForBit) {
  for (const auto& shape : {gqa_shape(), mqa_shape()}) {
    TinyEngine tiny(shape, 2);
    for (const Twins& twins : kWindows) {
      const auto streamed =
          score(tiny.engine, {in_stream(twins.plugin), in_stream(twins.built_in)});
      expect_same(streamed[0], streamed[1], twins.plugin + " in stream");
      const auto cut =
          score(tiny.engine, {after_prompt(twins.plugin), after_prompt(twins.built_in)});
      expect_same(cut[0], cut[1], twins.plugin + " after a prompt");
    }
    for (const char* keys :
         {":decode=grow", ":decode=window", ":decode=h2o", ":prefill=streaming:chunk=7",
          ":prefill=streaming:chunk=7:decode=window", ":prefill=two_pass"}) {
      const auto cut = score(tiny.engine, {after_prompt(std::string("newest") + keys),
                                           after_prompt(std::string("sliding_window") + keys)});
      expect_same_bits(cut[0].nll_nats, cut[1].nll_nats, keys);
      EXPECT_EQ(cut[0].resident_positions, cut[1].resident_positions) << keys;
      EXPECT_EQ(cut[0].error, "") << keys;
    }
  }
}

TEST(PluginEngine, OneThatActsAtThePromptsEndIsAWindowThatGrows) {
  TinyEngine tiny(gqa_shape());
  const auto cut = score(
      tiny.engine, {after_prompt("prompt_end_only"), after_prompt("sliding_window:decode=grow")});
  expect_same(cut[0], cut[1], "prompt_end_only");
}

TEST(PluginEngine, TheExampleIsH2oWithDecayWhereBothSeeRowByRow) {
  TinyEngine tiny(gqa_shape(), 2);
  for (const char* mode : {"", ":positions=rerotate", ":every=3"}) {
    const auto arms = score(tiny.engine, {in_stream(std::string("attention_average") + mode),
                                          in_stream(std::string("h2o:norm=decay") + mode)});
    expect_same(arms[0], arms[1], mode);
  }
  // Rows fork here, so states are cloned.
  const auto answers = generate(tiny.engine, {"full", "attention_average:prefill=streaming:chunk=5",
                                              "h2o:norm=decay:prefill=streaming:chunk=5"});
  expect_same(answers[1], answers[2], "generate");
}

TEST(PluginEngine, TokenByTokenGivesTheSameBits) {
  TinyEngine tiny(gqa_shape());
  const std::vector arms{in_stream("attention_average"), after_prompt("attention_average"),
                         in_stream("newest")};
  const auto by_layer = score(tiny.engine, arms);
  const auto by_token = score(tiny.engine, arms, true);
  for (std::size_t i = 0; i < arms.size(); ++i)
    expect_same(by_layer[i], by_token[i], std::to_string(i));
}

struct Fault {
  std::string text, why;
};
const std::vector<Fault> kFaults = {
    {"misbehaving:fault=duplicate", "twice"},
    {"misbehaving:fault=duplicate:after=70", "twice"},
    {"misbehaving:fault=out_of_range", "select kept slot "},
    {"misbehaving:fault=negative_slot", "select kept slot -1 of "},
    {"misbehaving:fault=drops_newest", "dropped the newest token"},
    {"misbehaving:fault=none_kept", "select kept 0 slots"},
    {"misbehaving:fault=select_code", "select failed with code -3"},
    {"misbehaving:fault=too_many", "1 to the budget of 20 may stay"},
    {"misbehaving:fault=huge_count", "select kept 2147483647 slots"},
    {"misbehaving:fault=writes_behind", "behind the end of its buffer"},
    {"misbehaving:fault=observe_code:after=7", "observe failed with code -7"},
    {"misbehaving:fault=compact_code", "compact failed with code -5"},
    {"misbehaving:fault=null_create", "create returned no state"},
    {"misbehaving:fault=undeclared_value", "observe read values without declaring the need"},
    {"misbehaving:fault=key_of_no_slot:after=5", "observe read keys of slot 6 of 6"},
    {"throws", "select threw: no idea who stays"}};

std::vector<std::vector<std::int32_t>> newest_of(const TinyEngine& tiny) {
  std::vector<std::int32_t> positions;
  for (int p = kTokens - kBudget; p < kTokens; ++p) positions.push_back(p);
  const ModelConfig& c = tiny.model.config;
  return std::vector(std::size_t(c.n_layers) * c.n_kv_heads, positions);
}

TEST(PluginEngine, AFaultEndsItsArmAndTouchesNoOther) {
  TinyEngine tiny(gqa_shape(), 2);
  const auto alone = score(tiny.engine, {in_stream("h2o"), after_prompt("snapkv")});
  for (const Fault& fault : kFaults) {
    for (const bool token_major : {false, true}) {
      const auto arms = score(tiny.engine,
                              {in_stream("h2o"), in_stream(fault.text), after_prompt(fault.text),
                               after_prompt("snapkv")},
                              token_major);
      expect_same(arms[0], alone[0], fault.text);
      expect_same(arms[3], alone[1], fault.text);
      for (const int i : {1, 2}) {
        EXPECT_THAT(arms[i].error, AllOf(HasSubstr("plug-in "), HasSubstr(", layer 0, KV head 0: "),
                                         HasSubstr(fault.why)))
            << fault.text;
        EXPECT_EQ(arms[i].resident_positions, newest_of(tiny)) << fault.text;
      }
    }
  }
  EXPECT_EQ(tiny.engine.pool_held_pages(), 0);
}

TEST(PluginEngine, AFaultOfACutIsNotForgottenWhenAnotherRuleTakesOver) {
  TinyEngine tiny(gqa_shape());
  for (const char* keys : {":decode=grow", ":decode=window", ":decode=h2o",
                           ":prefill=streaming:decode=window", ":prefill=streaming:decode=grow"}) {
    const auto arms =
        score(tiny.engine, {after_prompt(std::string("misbehaving:fault=select_code") + keys)});
    EXPECT_THAT(arms[0].error, HasSubstr("select failed with code -3")) << keys;
  }
}

TEST(PluginEngine, AFaultWhileDecodingEndsItsArmAndTouchesNoOther) {
  TinyEngine tiny(gqa_shape(), 2);
  const auto alone = generate(tiny.engine, {"full", "h2o", "snapkv"});
  std::vector<Fault> faults = kFaults;
  faults.push_back({"misbehaving:fault=null_clone", "clone returned no state"});
  faults.push_back({"misbehaving:fault=select_code:decode=grow", "select failed with code -3"});
  faults.push_back({"misbehaving:fault=select_code:after=66", "select failed with code -3"});
  for (const Fault& fault : faults) {
    if (fault.text.ends_with("after=70")) continue;  // the answer may be shorter
    const auto arms = generate(tiny.engine, {"full", "h2o", fault.text, "snapkv"});
    expect_same(arms[0], alone[0], fault.text);
    expect_same(arms[1], alone[1], fault.text);
    expect_same(arms[3], alone[2], fault.text);
    EXPECT_THAT(arms[2].error, HasSubstr(fault.why)) << fault.text;
  }
  EXPECT_EQ(tiny.engine.pool_held_pages(), 0);
}

TEST(PluginEngine, WithoutAFaultTheSamePluginRuns) {
  TinyEngine tiny(gqa_shape());
  const auto arms = score(tiny.engine, {in_stream("misbehaving"), in_stream("sliding_window"),
                                        in_stream("misbehaving:fault=duplicate:after=1000")});
  expect_same(arms[0], arms[1], "fault=none");
  expect_same(arms[2], arms[1], "a fault that never comes");
}

}  // namespace
}  // namespace kvscope
