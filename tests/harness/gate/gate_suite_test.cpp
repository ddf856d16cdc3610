#include "harness/gate/gate_suite.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

std::string refusal(const char* text) {
  try {
    parse_gate_suite(json::parse(text), "g.json");
  } catch (const UsageError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(GateSuite, ReadsEveryKindOfCheck) {
  const GateSuite suite = parse_gate_suite(json::parse(R"({
    "name": "nightly", "alpha": 0.005, "min_pairs": 50, "min_clusters": 12, "max_error_rate": 0.1,
    "sequential": true,
    "checks": [
      {"candidate": "h2o@0.2", "metric": "recall", "task": "needle", "margin": 0.05},
      {"candidate": "h2o@0.2", "metric": "kv_peak_bytes", "margin": "2%", "equivalence": true,
       "baseline": {"db": "old.db", "arm": "h2o@0.2"}, "name": "bytes"},
      {"candidate": "h2o@0.2", "metric": "nll_nats", "margin": 0.01, "baseline": {"nights": 7}},
      {"candidate": "h2o@0.2", "metric": "mass_hit", "min": 0.9, "warn_only": true},
      {"candidate": "h2o@0.2", "deterministic": true}]})"),
                                           "suites/g.json");
  EXPECT_EQ(suite.name, "nightly");
  EXPECT_EQ(suite.alpha, 0.005);
  EXPECT_EQ(suite.min_pairs, 50);
  EXPECT_TRUE(suite.sequential);
  ASSERT_EQ(suite.checks.size(), 5U);
  EXPECT_EQ(suite.checks[0].name, "needle recall h2o@0.2 vs full");
  EXPECT_EQ(suite.checks[1].name, "bytes");
  EXPECT_TRUE(suite.checks[1].margin_is_relative);
  EXPECT_EQ(suite.checks[1].margin, 0.02);
  EXPECT_EQ(suite.checks[1].baseline_database, "suites/old.db");  // beside the suite
  EXPECT_EQ(suite.checks[2].baseline_nights, 7);
  EXPECT_EQ(suite.checks[3].min, 0.9);
  EXPECT_TRUE(suite.checks[3].warn_only);
  EXPECT_EQ(suite.checks[4].kind, GateCheck::Kind::kDeterministic);
}

TEST(GateSuite, RefusesWithTheirPlace) {
  EXPECT_EQ(refusal(R"([])"), "gate g.json: is no object but of type array");
  EXPECT_EQ(refusal(R"({"checks": []})"),
            "gate g.json: checks: is empty: a gate that checks nothing would always pass");
  EXPECT_NE(refusal(R"({})").find("needs \"checks\""), std::string::npos);
  EXPECT_NE(refusal(R"({"alpha": 0.7, "checks": [1]})").find("alpha: must be"), std::string::npos);
  EXPECT_NE(refusal(R"({"checks": [{"metric": "recall", "margin": 0}]})")
                .find("checks[0]: needs a \"candidate\""),
            std::string::npos);
  const auto check = [](const std::string& rest) {
    return refusal((R"({"checks": [{"candidate": "h2o", )" + rest + "}]}").c_str());
  };
  EXPECT_NE(check(R"("margin": 0)").find("needs a \"metric\""), std::string::npos);
  EXPECT_NE(check(R"("metric": "recal", "margin": 0)").find("no metric 'recal'"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "recall")").find("needs a \"margin\""), std::string::npos);
  EXPECT_NE(check(R"("metric": "recall", "margin": -1)").find("margin: must be"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "recall", "margin": "2%")").find("a percentage is for"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "kv_peak_bytes", "margin": "2 percent")").find("margin: must be"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "recall", "margin": 0, "min": 1)").find("does not go with"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "recall", "margin": 0, "baseline": {"nights": 0})").find("from 1"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "recall", "margin": 0, "baseline": {"db": "x"})").find("is an arm"),
            std::string::npos);
  EXPECT_NE(check(R"("metric": "recall", "margin": 0, "limit": 1)").find("limit"),
            std::string::npos);
  EXPECT_NE(check(R"("deterministic": false)").find("true or left out"), std::string::npos);
}

TEST(GateSuite, TwoChecksOfOneNameAreAMistake) {
  EXPECT_NE(refusal(R"({"checks": [
    {"candidate": "h2o", "metric": "recall", "margin": 0},
    {"candidate": "h2o", "metric": "recall", "margin": 0.1}]})")
                .find("a second check named"),
            std::string::npos);
}

}  // namespace
}  // namespace kvscope
