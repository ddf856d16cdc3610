#include "harness/gate/gate_text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvscope {
namespace {

CheckResult result_of(const std::string& name, Verdict verdict) {
  CheckResult result;
  result.name = result.check.name = name;
  result.check.metric = "recall";
  result.verdict = verdict;
  result.reason = "because <x> & \"y\" | z";
  result.rule.outlook = false;
  result.figures.n = 40;
  result.figures.clusters = 20;
  result.figures.inference = gate_inference(-0.1, 0.02, 19, result.rule);
  return result;
}

GateReport three_checks() {
  GateReport report{"nightly", "a.db", 0.01, {}, Verdict::kFail};
  report.results = {result_of("good", Verdict::kPass), result_of("a<b", Verdict::kFail),
                    result_of("unclear", Verdict::kInconclusive)};
  return report;
}

TEST(GateText, JunitCountsAndEscapes) {
  const std::string xml = gate_junit(three_checks());
  EXPECT_NE(xml.find("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), std::string::npos);
  EXPECT_NE(
      xml.find("name=\"a&lt;b\"><failure message=\"because &lt;x&gt; &amp; &quot;y&quot; | z\"/>"),
      std::string::npos)
      << xml;
  EXPECT_NE(xml.find("<skipped message="), std::string::npos);
}

TEST(GateText, MarkdownIsWorstFirstAndBounded) {
  const std::string text = gate_markdown(three_checks());
  EXPECT_LT(text.find("a\\<b"), text.find("unclear"));
  EXPECT_LT(text.find("unclear"), text.find("good"));
  EXPECT_NE(text.find("\\| z |"), std::string::npos);

  GateReport many = three_checks();
  for (int i = 0; i < 20'000; ++i) {
    many.results.push_back(result_of("check " + std::to_string(i), Verdict::kPass));
  }
  const std::string cut = gate_markdown(many);
  EXPECT_LE(cut.size(), kMarkdownBytes);
  EXPECT_NE(cut.find(" more checks are left out here.\n"), std::string::npos);
}

TEST(GateText, AnnotationsAreEscapedAndFew) {
  GateReport report = three_checks();
  report.results[1].reason = "line one\nline two: 5%";
  const std::string text = gate_annotations(report);
  EXPECT_TRUE(text.starts_with("::error title=a<b::line one%0Aline two: 5%25\n")) << text;
  EXPECT_NE(text.find("::warning title=unclear::"), std::string::npos);
  for (int i = 0; i < 30; ++i) report.results.push_back(result_of("f", Verdict::kFail));
  const std::string many = gate_annotations(report);
  std::size_t errors = 0;
  for (std::size_t at = 0; (at = many.find("::error ", at)) != std::string::npos; ++at) ++errors;
  EXPECT_EQ(errors, 10U);
}

TEST(GateText, JsonHoldsWhatTheVerdictRestsOn) {
  const Json json = gate_json(three_checks());
  EXPECT_EQ(json["schema"], "kvscope-gate-1");
  EXPECT_EQ(json["verdict"], "fail");
  ASSERT_EQ(json["checks"].size(), 3U);
  EXPECT_EQ(json["checks"][1]["verdict"], "fail");
  EXPECT_EQ(json["checks"][1]["inference"]["delta"], -0.1);
  EXPECT_EQ(json["checks"][1]["inference"]["df"], 19);
  EXPECT_TRUE(json["checks"][1]["mcnemar_exact"].is_null());
}

TEST(GateText, TableSaysWhy) {
  const std::string text = gate_table(three_checks());
  EXPECT_NE(text.find("a<b: because"), std::string::npos);
  EXPECT_EQ(text.find("good: "), std::string::npos);
  EXPECT_TRUE(text.ends_with("Gate nightly: fail.\n"));
}

}  // namespace
}  // namespace kvscope
