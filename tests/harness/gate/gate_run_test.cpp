#include "harness/gate/gate_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/harness/gate/gate_store.h"

namespace kvscope {
namespace {

using nlohmann::json;
using testing::add_night;
using testing::noise;
using testing::TempFolder;

class Gate : public ::testing::Test {
 protected:
  Store open(const char* name = "a.db") {
    return Store::open(folder_.path / name, StoreAccess::kCreate);
  }
  static GateReport decide(Store& store, json check, json gate = json::object()) {
    gate["checks"] = json::array({std::move(check)});
    return run_gate(parse_gate_suite(gate, "g.json"), store);
  }
  static json nll_check(double margin) {
    return {{"candidate", "h2o@0.2"}, {"metric", "gold_nll_nats"}, {"margin", margin}};
  }

  TempFolder folder_;
};

testing::Values worse_by(double loss, int night = 0, double spread = 0.2) {
  return [=](bool is_h2o, int i) {
    return 2.0 + noise(99, i) + (is_h2o ? loss + spread * noise(night, i) : 0.0);
  };
}

TEST_F(Gate, CatchesARegressionAndOnlyThat) {
  Store store = open();
  add_night(store, "n1", "d1", 60, worse_by(0.3));
  const GateReport caught = decide(store, nll_check(0.1));
  EXPECT_EQ(caught.verdict, Verdict::kFail);
  ASSERT_EQ(caught.results.size(), 1U);
  const CheckResult& result = caught.results[0];
  EXPECT_EQ(result.name, "gold_nll_nats h2o@0.2 vs full");
  EXPECT_EQ(result.figures.n, 60);
  EXPECT_EQ(result.figures.clusters, 30);
  EXPECT_NEAR(result.figures.inference->delta, -0.3, 0.03);  // + is better
  EXPECT_EQ(decide(store, nll_check(0.5)).verdict, Verdict::kPass);
}

TEST_F(Gate, EqualArmsPassWithMarginZero) {
  Store store = open();
  add_night(store, "n1", "d1", 40, worse_by(0.0, 0, 0.0));
  const GateReport report = decide(store, nll_check(0.0));
  EXPECT_EQ(report.verdict, Verdict::kPass);
  EXPECT_EQ(report.results[0].reason, "all values are equal");
}

TEST_F(Gate, WhatCannotBeDecidedIsAnErrorWithItsReason) {
  Store store = open();
  add_night(store, "n1", "d1", 20, worse_by(0.0));
  const auto reason = [&](const json& check, const json& gate = json::object()) {
    const GateReport report = decide(store, check, gate);
    EXPECT_EQ(report.verdict, Verdict::kError);
    return report.results.at(0).reason;
  };
  EXPECT_EQ(reason(nll_check(0.1)), "fewer pairs than min_pairs");
  EXPECT_EQ(reason(nll_check(0.1), {{"min_pairs", 10}, {"min_clusters", 11}}),
            "fewer clusters than min_clusters");
  json check = nll_check(0.1);
  check["candidate"] = "tova@0.2";
  EXPECT_NE(reason(check).find("no arm 'tova@0.2'"), std::string::npos);
  check = nll_check(0.1);
  check["metric"] = "token_f1";
  EXPECT_EQ(reason(check), "the arms share no finished sample with this metric");
  check = nll_check(0.1);
  check["task"] = "qa";
  EXPECT_EQ(reason(check), "the arms share no finished sample with this metric");
  check = nll_check(0.1);
  check["baseline"] = {{"db", "absent.db"}, {"arm", "h2o@0.2"}};
  EXPECT_NE(reason(check).find("absent.db"), std::string::npos);
  EXPECT_EQ(reason({{"candidate", "h2o@0.2"}, {"deterministic", true}}),
            "no other sweep of this arm on the same samples in the database");
}

TEST_F(Gate, TooManyFailedSamplesAreAnError) {
  Store store = open();
  add_night(store, "n1", "d1", 60, worse_by(0.0), 6);
  const GateReport report = decide(store, nll_check(0.5));
  EXPECT_EQ(report.verdict, Verdict::kError);
  EXPECT_EQ(report.results[0].reason, "6 of 60 samples of h2o@0.200 failed");
  EXPECT_EQ(decide(store, nll_check(0.5), {{"max_error_rate", 0.2}}).verdict, Verdict::kPass);
}

TEST_F(Gate, BoundsOnOneArm) {
  Store store = open();
  add_night(store, "n1", "d1", 60, worse_by(0.3));  // means near 2.3
  const auto verdict = [&](const char* key, double value) {
    return decide(store, {{"candidate", "h2o@0.2"}, {"metric", "gold_nll_nats"}, {key, value}})
        .verdict;
  };
  EXPECT_EQ(verdict("max", 3.0), Verdict::kPass);
  EXPECT_EQ(verdict("max", 2.0), Verdict::kFail);
  EXPECT_EQ(verdict("max", 2.3), Verdict::kInconclusive);
  EXPECT_EQ(verdict("min", 2.0), Verdict::kPass);
}

TEST_F(Gate, APinnedReleasePairsBySample) {
  {
    Store release = open("release.db");
    add_night(release, "r", "d1", 60, worse_by(0.1, 5));
  }
  Store store = open();
  add_night(store, "n1", "d1", 60, worse_by(0.4, 5));  // the same noise: only the level moved
  json check = nll_check(0.05);
  check["baseline"] = {{"db", (folder_.path / "release.db").string()}, {"arm", "h2o@0.2"}};
  const GateReport report = decide(store, check);
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_NEAR(report.results[0].figures.inference->delta, -0.3, 1e-12);  // sums of doubles near 2
  EXPECT_FALSE(report.results[0].baseline_arm);
}

TEST_F(Gate, NightsBeforeAreABaselineWithoutPairs) {
  Store store = open();
  for (int night = 1; night <= 5; ++night) {
    add_night(store, "n" + std::to_string(night), "d" + std::to_string(night), 60,
              worse_by(0.1, night));
  }
  json check = nll_check(0.1);
  check["baseline"] = {{"nights", 4}};
  const GateReport calm = decide(store, check);
  EXPECT_EQ(calm.verdict, Verdict::kPass);
  EXPECT_EQ(calm.results[0].baseline_label, "4 nights before");
  add_night(store, "n6", "d6", 60, worse_by(0.5, 6));
  EXPECT_EQ(decide(store, check).verdict, Verdict::kFail);
}

TEST_F(Gate, DeterminismComparesBits) {
  Store store = open();
  add_night(store, "n1", "d1", 40, worse_by(0.1));
  add_night(store, "n2", "d1", 40, worse_by(0.1));
  const json check = {{"candidate", "h2o@0.2"}, {"deterministic", true}};
  EXPECT_EQ(decide(store, check).verdict, Verdict::kPass);
  add_night(store, "n3", "d1", 40, [](bool is_h2o, int i) {
    return worse_by(0.1)(is_h2o, i) + (is_h2o && i == 7 ? 1e-15 : 0.0);
  });
  const GateReport report = decide(store, check);
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_EQ(report.results[0].reason,
            "2 of 160 values differ from another sweep's, first needle gold_nll_nats");
}

TEST_F(Gate, AFailMustShowOnFreshSamples) {
  Store store = open();
  add_night(store, "n1", "d1", 60, worse_by(0.3));
  Store calm = open("calm.db");
  add_night(calm, "c", "d2", 60, worse_by(0.0, 8));
  Store worse = open("worse.db");
  add_night(worse, "w", "d3", 60, worse_by(0.3, 9));

  GateReport report = decide(store, nll_check(0.1));
  confirm(report, decide(calm, nll_check(0.1)));
  EXPECT_EQ(report.verdict, Verdict::kInconclusive);
  report = decide(store, nll_check(0.1));
  confirm(report, decide(worse, nll_check(0.1)));
  EXPECT_EQ(report.verdict, Verdict::kFail);
  report = decide(store, nll_check(0.1));
  confirm(report, decide(store, nll_check(0.1)));  // the same samples confirm nothing
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_NE(report.results[0].reason.find("nothing confirmed"), std::string::npos);
}

// A loss too small for any single night.
TEST_F(Gate, EvidenceGrowsOverNights) {
  Store store = open();
  const json gate = {{"name", "nightly"}, {"sequential", true}};
  int first_fail = 0;
  for (int night = 1; night <= 12; ++night) {
    add_night(store, "n" + std::to_string(night), "d" + std::to_string(night), 60,
              worse_by(0.08, night, 1.0));
    const GateReport report = decide(store, nll_check(0.02), gate);
    record_gate(store, report);
    record_gate(store, report);  // the same night again counts once
    EXPECT_EQ(report.results[0].history.nights, night);
    if (report.verdict == Verdict::kFail && first_fail == 0) first_fail = night;
  }
  EXPECT_GT(first_fail, 1);
  EXPECT_LE(first_fail, 12);
}

TEST_F(Gate, ExitStatusFollowsTheWorst) {
  EXPECT_EQ(exit_code_of(Verdict::kPass, "exit2"), ExitCode::kOk);
  EXPECT_EQ(exit_code_of(Verdict::kFail, "exit2"), ExitCode::kGateFailed);
  EXPECT_EQ(exit_code_of(Verdict::kInconclusive, "exit2"), ExitCode::kInconclusive);
  EXPECT_EQ(exit_code_of(Verdict::kInconclusive, "pass"), ExitCode::kOk);
  EXPECT_EQ(exit_code_of(Verdict::kInconclusive, "fail"), ExitCode::kGateFailed);
  EXPECT_EQ(exit_code_of(Verdict::kError, "pass"), ExitCode::kNotEvaluable);
  std::vector<CheckResult> results(3);
  results[0].verdict = Verdict::kPass;
  results[1].verdict = Verdict::kFail;
  results[2].verdict = Verdict::kInconclusive;
  EXPECT_EQ(overall_verdict(results), Verdict::kFail);
  results[1].check.warn_only = true;
  EXPECT_EQ(overall_verdict(results), Verdict::kInconclusive);
}

}  // namespace
}  // namespace kvscope
