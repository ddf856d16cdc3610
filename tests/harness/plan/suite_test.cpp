#include "harness/plan/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runner/base/error.h"
#include "runner/policies/parts.h"
#include "runner/policies/registry.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SuiteDefaults kDefaults = {"tova", "0.1", "qa"};

Suite parse(const std::string& text) { return parse_suite(json::parse(text), "s", kDefaults); }

std::vector<std::string> labels(const std::string& text) {
  std::vector<std::string> names;
  for (const ArmPlan& arm : parse(text).arms) names.push_back(arm.label());
  return names;
}

template <typename F>
std::string usage_error(F&& action) {
  try {
    action();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "(nothing was thrown)";
}

// A value of a parameter other than its default, from the form that params.h describes.
std::string other_value(const ParamInfo& info) {
  const std::string values(info.values.substr(0, info.values.find(" (")));
  if (const std::size_t bar = values.find('|'); bar != std::string::npos) {
    const std::string first = values.substr(0, bar);
    return first != info.fallback ? first
                                  : values.substr(bar + 1, values.find('|', bar + 1) - bar - 1);
  }
  if (values.starts_with("odd")) return "9";
  return values.starts_with("float") ? (info.fallback == "0.5" ? "0.25" : "0.5") : "3";
}

json number_or_text(const std::string& value) {
  const json parsed = json::parse(value, nullptr, false);
  return parsed.is_discarded() ? json(value) : parsed;
}

// Counts what were policies; the others go together neither as object nor as text, and both
// say so in the same words.
struct Pairs {
  int policies = 0;
  int refused = 0;

  void add(const json& object, const std::string& text) {
    PolicySpec spec;
    try {
      spec = parse_policy(text);
    } catch (const UsageError& e) {
      EXPECT_EQ(usage_error([&] { parse_policy(policy_text(object, "s", "p")); }), e.what());
      ++refused;
      return;
    }
    EXPECT_EQ(parse_policy(policy_text(object, "s", "p")).canonical, spec.canonical)
        << object.dump();
    ++policies;
  }
};

TEST(Suite, ObjectsMeanWhatTheGrammarMeans) {
  Pairs pairs;
  for (const PolicyInfo& info : policies()) {
    const std::string score(info.name);
    pairs.add({{"score", score}}, score);
    std::vector<ParamInfo> params(info.params.begin(), info.params.end());
    for (const ParamInfo& param : params) {
      const std::string name(param.name);
      const std::string value = other_value(param);
      pairs.add({{"score", score}, {"params", {{name, number_or_text(value)}}}},
                score + ":" + name + "=" + value);
    }
    for (const ParamInfo& param : common_params()) {
      const std::string name(param.name);
      const std::string value = other_value(param);
      const std::string text = score + ":" + name + "=" + value;
      pairs.add({{"score", score}, {name, number_or_text(value)}}, text);
      pairs.add({{"score", score}, {"params", {{name, number_or_text(value)}}}}, text);
    }
    for (const PartInfo& part : parts()) {
      const std::string part_name(part.name);
      pairs.add({{"score", score}, {"parts", {part_name}}}, score + "+" + part_name);
      for (const ParamInfo& param : part.params) {
        const std::string name(param.name);
        const std::string value = other_value(param);
        const json with = {{"name", part_name}, {"params", {{name, number_or_text(value)}}}};
        pairs.add({{"score", score}, {"parts", {with}}},
                  score + "+" + part_name + ":" + name + "=" + value);
      }
    }
  }
  EXPECT_GT(pairs.policies, 300);
  EXPECT_LT(pairs.refused, pairs.policies / 2);
  EXPECT_EQ(policy_text(json::parse(R"({"score": "snapkv", "params": {"window": 7},
      "parts": [{"name": "pyramid", "params": {"beta": 20}}, "kv_int8"],
      "positions": "rerotate", "prefill": "two_pass"})"),
                        "s", "p"),
            "snapkv:window=7:positions=rerotate:prefill=two_pass+pyramid:beta=20+kv_int8");
}

TEST(Suite, ArmsInTheOrderWritten) {
  EXPECT_THAT(labels("{}"), ElementsAre("full@1.000", "tova@0.100"));
  EXPECT_EQ(parse("{}").tasks, "qa");
  EXPECT_THAT(labels(R"({"policies": ["full", "h2o",
                                      {"score": "tova", "budgets": "0.2:0.4:0.2"},
                                      {"policy": "random:seed=2", "budget_tokens": [64]},
                                      "full+kv_int8"],
                         "budgets": [0.5, 1]})"),
              ElementsAre("full@1.000", "h2o@0.500", "h2o@1.000", "tova@0.200", "tova@0.400",
                          "random:seed=2@64tok", "full+kv_int8@1.000"));
  EXPECT_THAT(labels(R"({"budget_tokens": [8, 16], "question": "both"})"),
              ElementsAre("full@1.000", "tova@8tok", "tova@16tok", "full@1.000 question=hidden",
                          "tova@8tok question=hidden", "tova@16tok question=hidden"));
}

// The same plan: a sweep begun with options goes on with a suite and the other way round.
TEST(Suite, ArmsAreThoseOfTheOptions) {
  const auto options = expand_arms({"h2o,snapkv:window=4", "0.1,0.2", "", "both"});
  const auto suite = parse(R"({"policies": ["h2o", {"score": "snapkv", "params": {"window": 4}}],
                               "budgets": [0.1, 0.2], "question": "both"})")
                         .arms;
  ASSERT_EQ(suite.size(), options.size());
  for (std::size_t i = 0; i < suite.size(); ++i) {
    EXPECT_EQ(arm_record(suite[i], "m", DType::kF32, DType::kF32).key,
              arm_record(options[i], "m", DType::kF32, DType::kF32).key);
  }
}

TEST(Suite, TasksAsTextAndAsObjects) {
  EXPECT_EQ(parse(R"({"tasks": ["perplexity:windows=2",
                     {"name": "needle", "keys": {"length": [512, 1024], "samples": 20}}]})")
                .tasks,
            "perplexity:windows=2,needle:length=512:length=1024:samples=20");
}

TEST(Suite, FaultsAreOneLineWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"([])", "s: is no object but of type array"},
      {R"({"polices": []})", "s: unknown key \"polices\""},
      {R"({"policies": "tova"})", "s: policies: is no array but of type string"},
      {R"({"policies": []})", "s: policies: is empty"},
      {R"({"policies": [7]})", "s: policies[0]: is no object but of type number"},
      {R"({"policies": ["tova", "nope"]})", "s: policies[1]: policy \"nope\": unknown policy"},
      {R"({"policies": ["tova,h2o"]})", "s: policies[0]: \"tova,h2o\" is a list"},
      {R"({"policies": [{}]})", "s: policies[0]: needs a \"score\" or a \"policy\""},
      {R"({"policies": [{"policy": "tova", "chunk": 2}]})", "leave \"chunk\" out"},
      {R"({"policies": [{"score": "tova", "window": 2}]})",
       "s: policies[0]: unknown key \"window\""},
      {R"({"policies": [{"score": "snapkv", "params": {"windw": 2}}]})",
       "s: policies[0]: policy \"snapkv:windw=2\": snapkv has no parameter \"windw\""},
      {R"({"policies": [{"score": "snapkv", "params": {"window": [2]}}]})",
       "s: policies[0].params.window: is neither number"},
      {R"({"policies": [{"score": "snapkv", "params": {"window": 2.5}}]})", "s: policies[0]: "},
      {R"({"policies": [{"score": "snapkv", "params": {"window": "2+kivi"}}]})",
       "s: policies[0].params.window: is no single word"},
      {R"({"policies": [{"score": "snapkv", "params": {"prefill": "two_pass"},
                         "prefill": "two_pass"}]})",
       "prefill is given twice"},
      {R"({"policies": [{"score": "snapkv", "parts": "pyramid"}]})",
       "s: policies[0].parts: is no array"},
      {R"({"policies": [{"score": "snapkv", "parts": [{"beta": 2}]}]})",
       "s: policies[0].parts[0]: unknown key \"beta\""},
      {R"({"policies": [{"score": "snapkv", "parts": ["pyramd"]}]})", "unknown part \"pyramd\""},
      {R"({"policies": [{"score": "full", "budgets": [0.1]}]})", "takes no budget"},
      {R"({"policies": ["full:protect_last=true"]})", "full has no parameters"},
      {R"({"policies": ["tova", {"score": "tova"}]})",
       "s: policies[1]: arm tova@0.100 stands in policies[0] too"},
      {R"({"policies": ["tova", {"score": "tova", "budgets": [0.1]}]})", "stands in policies[0]"},
      {R"({"policies": ["full", "full"]})", "s: policies[1]: full is listed twice"},
      {R"({"budgets": []})", "s: budgets: is empty"},
      {R"({"budgets": [0.1, 0.1]})", "s: budgets: 0.100 is listed twice"},
      {R"({"budgets": [0]})", "s: budgets[0]: budget \"0\": must be greater than 0"},
      {R"({"budgets": [0.1234]})", "s: budgets[0]: budget \"0.1234\": not a whole permille"},
      {R"({"budgets": ["0.1"]})", "s: budgets[0]: is no number"},
      {R"({"budgets": 0.1})", "s: budgets: is no array"},
      {R"({"budgets": [0.1], "budget_tokens": [4]})", "not both"},
      {R"({"budget_tokens": [0]})", "s: budget_tokens[0]: 0 is not a number of tokens"},
      {R"({"budget_tokens": [1.5]})", "s: budget_tokens[0]: 1.5 is not a number of tokens"},
      {R"({"budget_tokens": [1e99]})", "s: budget_tokens[0]: "},
      {R"({"budget_tokens": [99999999999999999999]})", "s: budget_tokens[0]: "},
      {R"({"question": true})", "s: question: is no text"},
      {R"({"question": "all"})", "s: question: \"all\" is none of visible, hidden and both"},
      {R"({"tasks": []})", "s: tasks: is empty"},
      {R"({"tasks": ["qa,needle"]})", "s: tasks[0]: \"qa,needle\" is a list"},
      {R"({"tasks": ["qa", "qa"]})", "s: tasks: task 'qa' is listed twice"},
      {R"({"tasks": [{"name": "needl"}]})", "s: tasks[0]: unknown task 'needl'"},
      {R"({"tasks": [{"name": "needle", "keys": {"length": []}}]})",
       "s: tasks[0].keys.length: is empty"},
      {R"({"tasks": [{"name": "needle", "keys": {"length": ["5:samples=2"]}}]})",
       "s: tasks[0].keys.length[0]: is no single word"},
  };
  for (const auto& [text, wanted] : cases) {
    const std::string said = usage_error([&] { parse(text); });
    EXPECT_THAT(said, HasSubstr(wanted)) << text;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

class SuiteFile : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    const auto file = folder_.path / "a.json";
    std::ofstream(file, std::ios::binary) << text;
    return usage_error([&] { read_suite(file, kDefaults); });
  }
  testing::TempFolder folder_;
};

TEST_F(SuiteFile, TheExampleIsOne) {
  const auto example = std::filesystem::path(KVSCOPE_SOURCE_DIR) / "docs/examples/suite.json";
  const Suite suite = read_suite(example, kDefaults);
  std::vector<std::string> names;
  for (const ArmPlan& arm : suite.arms) names.push_back(arm.label());
  ASSERT_EQ(names.size(), 22U);
  names.resize(11);
  EXPECT_THAT(names, ElementsAre("full@1.000", "tova@0.200", "tova@0.500",
                                 "streaming_llm:sinks=4@0.200", "streaming_llm:sinks=4@0.500",
                                 "snapkv:window=8@0.200", "snapkv:window=8@0.500",
                                 "snapkv:window=8:prefill=two_pass+pyramid:beta=10@0.200",
                                 "snapkv:window=8:prefill=two_pass+pyramid:beta=10@0.500",
                                 "h2o:norm=mean:decode=grow@0.500", "random:seed=1@64tok"));
  EXPECT_EQ(suite.tasks, "needle:length=512:length=1024:samples=20,qa:samples=20");
}

// Every beginning of a file that is not the whole is refused in one line.
TEST_F(SuiteFile, TruncatedFilesAreRefused) {
  const std::string whole = R"({"policies": [{"score": "tova"}], "budgets": [0.2]})";
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const std::string said = error_of(whole.substr(0, n));
    EXPECT_THAT(said, HasSubstr("a.json: is not JSON, or ends too early: line 1, column ")) << n;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  EXPECT_EQ(error_of(whole), "(nothing was thrown)");
  EXPECT_EQ(error_of(whole + "\n"), "(nothing was thrown)");
  EXPECT_THAT(error_of(whole + "}"), HasSubstr("is not JSON"));
}

TEST_F(SuiteFile, KeysGivenTwiceAreRefused) {
  EXPECT_THAT(error_of(R"({"budgets": [0.1], "budgets": [0.2]})"),
              HasSubstr("a.json: \"budgets\" is given twice in one object"));
  EXPECT_THAT(
      error_of(R"({"policies": [{"score": "snapkv", "params": {"window": 4, "window": 7}}]})"),
      HasSubstr("\"window\" is given twice"));
  EXPECT_EQ(error_of(R"({"policies": [{"score": "tova"}, {"score": "h2o"}]})"),
            "(nothing was thrown)");
}

TEST_F(SuiteFile, WhatCannotBeReadIsAnIoError) {
  EXPECT_THROW(read_suite(folder_.path / "missing.json", kDefaults), IoError);
  EXPECT_THROW(read_suite(folder_.path, kDefaults), IoError);
  EXPECT_THAT(error_of(std::string((1 << 20) + 1, ' ')), HasSubstr("larger than 1 MiB"));
}

}  // namespace
}  // namespace kvscope
