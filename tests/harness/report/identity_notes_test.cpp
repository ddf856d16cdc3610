#include "harness/report/identity_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::ok_outcome;
using testing::OpenStore;
using testing::TempFolder;

class IdentityNotes : public ::testing::Test {
 protected:
  IdentityNotes() : s_(folder_.path / "a.db"), run_(s_.begin("run-1")) {}

  // One sample of h2o@0.200 (arm "other") or of another policy.
  std::int64_t arm(const std::string& policy, const std::string& question = "visible") {
    ArmRecord record = testing::arm_record(policy, 200);
    record.key += question;
    record.question_visibility = question;
    return s_.store.put_arm(s_.sweep, record);
  }
  void record(std::int64_t arm, int sample, const std::string& hash, double kept = 4.0,
              std::optional<IdentityFinding> finding = {}) {
    SampleOutcome outcome = ok_outcome(0.5);
    outcome.kept_sets = KeptSets{hash, 4, 10, kept, 5.0, finding};
    s_.store.record(run_, arm, s_.sample(sample), outcome);
  }
  std::string text() { return notes_text(identity_notes(s_.store, list_arms(s_.store))); }

  TempFolder folder_;
  OpenStore s_;
  std::int64_t run_;
};

TEST_F(IdentityNotes, TheFirstEarlierArmWithTheSameSetsOnEverySample) {
  const auto snapkv = arm("snapkv");
  const auto tova = arm("tova");
  const auto random = arm("random");
  for (int i = 0; i < 3; ++i) {
    record(s_.other, i, "a" + std::to_string(i));
    record(snapkv, i, "a" + std::to_string(i));
    record(tova, i, "a" + std::to_string(i));
    record(random, i, i == 0 ? "other" : "a" + std::to_string(i));  // differs on one sample
  }
  EXPECT_EQ(text(),
            "! snapkv@0.200 kept the same tokens as h2o@0.200 in 3 of 3 samples of needle\n"
            "! tova@0.200 kept the same tokens as h2o@0.200 in 3 of 3 samples of needle\n");
  const Json json = notes_json(identity_notes(s_.store, list_arms(s_.store)));
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["arm"], "snapkv@0.200");
  EXPECT_EQ(json[0]["finding"], "same_sets_as");
  EXPECT_EQ(json[0]["other_arm"], "h2o@0.200");
  EXPECT_EQ(json[0]["n"], 3);
  EXPECT_EQ(json[0]["samples"], 3);
}

TEST_F(IdentityNotes, SetsOfEverythingAreNotTheSameSets) {
  const auto tova = arm("tova");
  record(s_.other, 0, "all", 10.0, IdentityFinding::kHeldEverything);
  record(tova, 0, "all", 10.0, IdentityFinding::kEvictedNothing);
  EXPECT_EQ(text(),
            "! h2o@0.200 evicted nothing, because its budget held all tokens, in 1 of 1 samples of "
            "needle\n"
            "! tova@0.200 evicted nothing, although its budget is below the prompt, in 1 of 1 "
            "samples of needle\n");
}

TEST_F(IdentityNotes, FindingsAreCountedAndTheirTokensAveraged) {
  record(s_.other, 0, "a", 6.0, IdentityFinding::kOtherRatio);
  record(s_.other, 1, "b", 7.0, IdentityFinding::kOtherRatio);
  record(s_.other, 2, "c", 4.0, IdentityFinding::kOtherRatioLater);
  record(s_.other, 3, "d", 4.0);
  EXPECT_EQ(text(),
            "! h2o@0.200 kept 6.5 tokens per layer and KV head instead of 4.0 in 2 of 4 samples of "
            "needle\n"
            "! h2o@0.200 held 5.0 tokens per layer and KV head instead of 4.0 at the end in 1 of 4 "
            "samples of needle\n");
}

TEST_F(IdentityNotes, WhatIsMadeToKeepTheSameIsNotCompared) {
  record(s_.other, 0, "a");
  for (const char* policy : {"h2o:decode=grow", "h2o+kv_int8", "h2o:every=4",
                             "h2o:positions=rerotate", "h2o:prefill=two_pass"}) {
    record(arm(policy), 0, "a");
  }
  EXPECT_EQ(text(), "");
  record(arm("h2o:norm=mean"), 0, "a");
  record(arm("h2o+pyramid"), 0, "a");
  record(arm("from_a_plugin"), 0, "a");  // no policy that this program knows
  std::vector<std::string> arms;
  for (const IdentityNote& note : identity_notes(s_.store, list_arms(s_.store)))
    arms.push_back(note.arm);
  EXPECT_THAT(arms, ElementsAre("h2o:norm=mean@0.200", "h2o+pyramid@0.200", "from_a_plugin@0.200"));
}

TEST_F(IdentityNotes, ArmsOfTwoVisibilitiesAreNotCompared) {
  record(s_.other, 0, "a");
  record(arm("tova", "hidden"), 0, "a");
  EXPECT_EQ(text(), "");
}

TEST_F(IdentityNotes, ResultsOfOlderProgramsHaveNone) {
  s_.store.record(run_, s_.other, s_.sample(0), ok_outcome(0.5));
  EXPECT_EQ(text(), "");
}

}  // namespace
}  // namespace kvscope
