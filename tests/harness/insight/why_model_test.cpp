// On the real model: needles that eviction lost are found and, put back, give the right answer.
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/commands/common.h"
#include "harness/insight/planted.h"
#include "harness/tasks/needle.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

std::string model_path() {
  if (const char* path = std::getenv("KVSCOPE_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return (fs::path(home ? home : "") / ".cache/kvscope/SmolLM2-135M-Instruct.Q4_1.gguf").string();
}

TEST(WhyOnTheModel, APlantedNeedleIsNamedAndPutBack) {
  ModelOptions options;
  options.file = model_path();
  if (!fs::exists(options.file)) {
    GTEST_SKIP() << "no model at " << options.file
                 << ": run scripts/fetch-model or set KVSCOPE_MODEL";
  }
  const OpenedModel opened = open_model(options, {});
  const ArmPlan arm{parse_policy("streaming_llm:positions=absolute"), parse_budget_ratio("0.3")};
  const ExplainRequest request{
      *opened.engine, *opened.tokenizer, arm, kNeedleTask.score_answer, {.n_controls = 1}, {}, {}};
  PlantedOptions planted;
  planted.n_failures = 2;
  planted.length_tokens = 256;
  const auto result = explain_planted(request, planted);
  ASSERT_TRUE(result);
  ASSERT_EQ(result->n_failures, 2);
  ASSERT_EQ(result->frames.size(), 2U);
  for (const FrameResult& frame : result->frames) EXPECT_EQ(frame.n_any, 2);
  EXPECT_EQ(result->n_evidence_repaired, 2);
  EXPECT_EQ(result->n_random_repaired, 0);
}

}  // namespace
}  // namespace kvscope
