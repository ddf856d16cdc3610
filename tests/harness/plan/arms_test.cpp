#include "harness/plan/arms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "harness/plan/plan_hash.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> labels(const ArmTexts& texts) {
  std::vector<std::string> names;
  for (const ArmPlan& arm : expand_arms(texts)) names.push_back(arm.label());
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

TEST(Arms, FullComesFirstAndOnce) {
  EXPECT_THAT(labels({"h2o,full,tova", "0.1,0.5", ""}),
              ElementsAre("full@1.000", "h2o@0.100", "h2o@0.500", "tova@0.100", "tova@0.500"));
  EXPECT_THAT(labels({"full", "", ""}), ElementsAre("full@1.000"));
}

TEST(Arms, BudgetsAsRangeAndAsTokens) {
  EXPECT_THAT(labels({"tova", "0.1:0.3:0.1", ""}),
              ElementsAre("full@1.000", "tova@0.100", "tova@0.200", "tova@0.300"));
  EXPECT_THAT(labels({"tova", "", "64,256"}),
              ElementsAre("full@1.000", "tova@64tok", "tova@256tok"));
}

TEST(Arms, EachVisibilityHasItsOwnFullArm) {
  EXPECT_THAT(labels({"tova", "0.1,0.5", "", "hidden"}),
              ElementsAre("full@1.000 question=hidden", "tova@0.100 question=hidden",
                          "tova@0.500 question=hidden"));
  EXPECT_THAT(labels({"full,tova", "", "64", "both"}),
              ElementsAre("full@1.000", "tova@64tok", "full@1.000 question=hidden",
                          "tova@64tok question=hidden"));
  EXPECT_THAT(labels({"tova", "0.1", "", "visible"}), ElementsAre("full@1.000", "tova@0.100"));
  for (const ArmPlan& arm : expand_arms({"full", "", "", "both"})) {
    const ArmRecord record = arm_record(arm, "m", DType::kF32, DType::kF32);
    EXPECT_EQ(record.question_visibility, name_of(arm.question));
    EXPECT_TRUE(record.is_reference);
  }
}

TEST(Arms, WrongTextsAreUsageErrors) {
  for (const char* bad : {"", "Visible", "hidden,visible", "all"}) {
    EXPECT_THAT(usage_error([&] {
                  expand_arms({"tova", "0.1", "", bad});
                }),
                HasSubstr("--question: '" + std::string(bad) + "' is none of visible"));
  }
  EXPECT_THAT(usage_error([] { expand_arms({"tova", "0.1", "64"}); }), HasSubstr("not both"));
  EXPECT_THAT(usage_error([] { expand_arms({"tova", "", ""}); }), HasSubstr("needs a budget"));
  EXPECT_THAT(usage_error([] {
                expand_arms({"full:prefill=streaming", "", ""});
              }),
              HasSubstr("full has no parameters: leave prefill=streaming out"));
  EXPECT_THAT(usage_error([] {
                expand_arms({"full:protect_last=true", "", ""});
              }),
              HasSubstr("full has no parameters"));
  EXPECT_THAT(usage_error([] { expand_arms({"tovaa", "0.1", ""}); }), HasSubstr("tova"));
  for (const char* bad : {"0", "1.5", "nan", "0.1234", "x", "", ","}) {
    if (*bad == '\0') continue;
    EXPECT_NE(usage_error([&] { expand_arms({"tova", bad, ""}); }), "(nothing was thrown)") << bad;
  }
  for (const char* bad : {"0", "-4", "1.5", "64,64", "64,", "99999999999"}) {
    EXPECT_THAT(usage_error([&] {
                  expand_arms({"tova", "", bad});
                }),
                HasSubstr("--budget-tokens"))
        << bad;
  }
}

TEST(Arms, KeysDifferWhereResultsMay) {
  std::set<std::string> keys;
  const auto add = [&](const std::string& model, const char* policy, const char* budget, DType kv,
                       const char* question = "visible") {
    const auto arms = expand_arms({policy, budget, "", question});
    keys.insert(arm_record(arms.at(1), model, DType::kF32, kv).key);
  };
  add("m", "tova", "0.1", DType::kF32);
  add("m", "tova", "0.1", DType::kF32);  // the same again
  add("m", "tova", "0.2", DType::kF32);
  add("n", "tova", "0.1", DType::kF32);
  add("m", "h2o", "0.1", DType::kF32);
  add("m", "tova", "0.1", DType::kBF16);
  add("m", "tova:prefill=streaming", "0.1", DType::kF32);
  add("m", "tova", "0.1", DType::kF32, "hidden");
  EXPECT_EQ(keys.size(), 7U);
  // printf 'arm\nm\ntova\n0.100\nmonolithic\nabsolute\nvisible\nf32\nf32' | sha256sum
  // Pinned: a sweep begun by an older program goes on only if this never changes.
  EXPECT_THAT(keys, Contains("2cd5c09a1237ee22649dbee36ad228973b718a223227f5934480d2754b35d3b1"));
}

TEST(Arms, RecordHasExactlyOneBudget) {
  const auto ratio =
      arm_record(expand_arms({"tova", "0.1", ""}).at(1), "m", DType::kF32, DType::kF32);
  EXPECT_EQ(ratio.budget_permille, 100);
  EXPECT_FALSE(ratio.budget_tokens);
  const auto tokens =
      arm_record(expand_arms({"tova", "", "64"}).at(1), "m", DType::kF32, DType::kF32);
  EXPECT_FALSE(tokens.budget_permille);
  EXPECT_EQ(tokens.budget_tokens, 64);
  const auto full = arm_record(expand_arms({"full", "", ""}).at(0), "m", DType::kF32, DType::kF32);
  EXPECT_TRUE(full.is_reference);
  EXPECT_EQ(full.budget_permille, 1000);
}

TEST(PlanHash, IsStableAndCoversEveryPart) {
  const PlanIdentity base{"model", {"a", "b"}, {"needle:d1"}, "all", false};
  // sha-256 of "plan\nmodel model\narm a\narm b\ndataset needle:d1\nprobe all\n": a sweep started
  // by one process is found by the next only if this never changes.
  EXPECT_EQ(plan_hash(base), "f164a920ac8038b19c3273f69e87cdf1dabfed75894055d90641cb00c2d23d47");
  std::set<std::string> hashes = {plan_hash(base)};
  PlanIdentity changed = base;
  changed.model_key = "other";
  hashes.insert(plan_hash(changed));
  changed = base;
  changed.arm_keys = {"b", "a"};
  hashes.insert(plan_hash(changed));
  changed = base;
  changed.dataset_keys.push_back("qa:d2");
  hashes.insert(plan_hash(changed));
  changed = base;
  changed.probe_level = "off";
  hashes.insert(plan_hash(changed));
  changed = base;
  changed.beyond_context = true;
  hashes.insert(plan_hash(changed));
  EXPECT_EQ(hashes.size(), 6U);
}

}  // namespace
}  // namespace kvscope
