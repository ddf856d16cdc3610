// Sweeps on a device: made up, with a memory that fills and results of its own in the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runner/base/error.h"
#include "tests/harness/commands/fake_cuda.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope {
namespace {

using testing::fake_cuda;
using testing::fake_device;
using testing::FakeMemory;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kTasks = "needle:length=300:samples=3,perplexity:context=64:windows=1";

class DeviceSweep : public testing::SweepTest {
 protected:
  SweepOptions on_device(const std::string& database, const std::string& policies,
                         const std::string& budgets, const std::string& tasks = kTasks) const {
    SweepOptions o = options(database, policies, budgets, tasks);
    o.model.backend.backend = "cuda";
    return o;
  }
  std::string run_on(const SweepOptions& o, const std::shared_ptr<FakeMemory>& memory,
                     ExitCode wanted = ExitCode::kOk) const {
    return run(o, wanted, fake_cuda({fake_device(0)}, memory));
  }
  // Most bytes of pages that arms hold at once on one sample.
  std::int64_t peak(const std::string& policies, const std::string& budgets) const {
    const std::string tasks = "needle:length=300:samples=1";
    const auto memory = std::make_shared<FakeMemory>();
    run_on(on_device("peak_" + policies + budgets + ".db", policies, budgets, tasks), memory);
    return memory->peak_bytes;
  }
};

TEST_F(DeviceSweep, ResultsOfTwoBackendsNeverMix) {
  run(options("a.db", "tova", "0.5", kTasks));
  run_on(on_device("a.db", "tova", "0.5"), std::make_shared<FakeMemory>());
  Store store = read("a.db");
  // Two sweeps: the second one did not go on with the first, nor find it finished.
  ASSERT_THAT(list_runs(store), SizeIs(2));
  const auto arms = list_arms(store);  // newest sweep first
  ASSERT_THAT(arms, SizeIs(4));
  EXPECT_EQ(arms[0].backend, "cuda");
  EXPECT_EQ(arms[2].backend, "cpu");
  EXPECT_NE(arms[0].arm_key, arms[2].arm_key);
  EXPECT_EQ(find_arm_pair(store, "full", "tova@0.500").first.backend, "cuda");
  Statement models(store.database(), "SELECT count(DISTINCT model_key) FROM model");
  ASSERT_TRUE(models.step());
  EXPECT_EQ(models.integer(0), 2);
  // The same arithmetic here, so the same numbers.
  EXPECT_EQ(arm_results(store, arms[0].arm_id)[0].metrics,
            arm_results(store, arms[2].arm_id)[0].metrics);
}

TEST_F(DeviceSweep, MemoryIsInTheRunsRecordAndInTheMetrics) {
  SweepOptions o = on_device("a.db", "tova", "0.5");
  o.metrics_textfile = (folder_.path / "m.prom").string();
  const auto memory = std::make_shared<FakeMemory>();
  const auto out = nlohmann::json::parse(run_on(o, memory));
  ASSERT_GT(memory->peak_bytes, 0);
  EXPECT_EQ(out["device_memory"]["peak_bytes"], memory->peak_bytes);
  Store store = read("a.db");
  const auto stored = list_runs(store).front().device_memory;
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->peak_bytes, memory->peak_bytes);
  EXPECT_EQ(stored->driver_delta_bytes, memory->peak_bytes + 4096);
  std::ostringstream text;
  text << std::ifstream(o.metrics_textfile).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("kvscope_gpu_memory_bytes{kind=\"peak\"} " +
                                    std::to_string(memory->peak_bytes) + "\n"));
  EXPECT_THAT(text.str(), HasSubstr("kvscope_gpu_memory_bytes{kind=\"total\"} " +
                                    std::to_string(fake_device(0).total_bytes) + "\n"));
  EXPECT_THAT(text.str(), HasSubstr("gpu_name=\"Fake 0\""));
}

TEST_F(DeviceSweep, OnTheCpuThereIsNoDeviceMemory) {
  SweepOptions o = options("a.db", "tova", "0.5", kTasks);
  o.metrics_textfile = (folder_.path / "m.prom").string();
  EXPECT_FALSE(nlohmann::json::parse(run(o)).contains("device_memory"));
  Store store = read("a.db");
  EXPECT_FALSE(list_runs(store).front().device_memory);
  std::ostringstream text;
  text << std::ifstream(o.metrics_textfile).rdbuf();
  EXPECT_EQ(text.str().find("kvscope_gpu_memory"), std::string::npos);
}

TEST_F(DeviceSweep, TooManyArmsAtOnceAreSplitAndLoseNothing) {
  const std::string policies = "streaming_llm:sinks=2,tova,random";
  const std::string budgets = "0.2,0.5,0.8";
  const std::string tasks = "needle:length=300:samples=3";
  run_on(on_device("roomy.db", policies, budgets, tasks), std::make_shared<FakeMemory>());
  // Room for the largest arm beside full, not for all nine.
  const std::int64_t all = peak(policies, budgets);
  const std::int64_t one = peak("tova", "0.8");
  ASSERT_LT(one, all * 2 / 3);
  const auto memory = std::make_shared<FakeMemory>();
  memory->limit_bytes = one;
  run_on(on_device("tight.db", policies, budgets, tasks), memory);
  Store roomy = read("roomy.db");
  Store tight = read("tight.db");
  for (const ArmRow& arm : list_arms(tight)) {
    EXPECT_EQ(arm.n_ok, 3) << arm.label;
    EXPECT_EQ(fingerprint(tight, arm.label), fingerprint(roomy, arm.label)) << arm.label;
  }
}

TEST_F(DeviceSweep, OnlyTheArmThatDoesNotFitIsAnErrorRow) {
  const std::string tasks = "needle:length=300:samples=2";
  const std::int64_t small = peak("tova", "0.2");
  const std::int64_t large = peak("tova", "0.9");
  ASSERT_LT(small, large);
  const auto memory = std::make_shared<FakeMemory>();
  memory->limit_bytes = (small + large) / 2;
  run_on(on_device("a.db", "tova,streaming_llm:sinks=2", "0.1,0.2,0.9", tasks), memory);
  Store store = read("a.db");
  for (const ArmRow& arm : list_arms(store)) {
    // streaming_llm drops the oldest tokens first, so that its rows share most of their pages.
    const bool fits = arm.label != "tova@0.900";
    EXPECT_EQ(arm.n_ok, fits ? 2 : 0) << arm.label;
    EXPECT_EQ(arm.n_error, fits ? 0 : 2) << arm.label;
    EXPECT_EQ(arm.status, "finished") << arm.label;
    for (const ResultRow& row : arm_results(store, arm.arm_id))
      EXPECT_EQ(row.error, fits ? "" : "out of memory: device 0 is full") << arm.label;
  }
  Statement kinds(store.database(),
                  "SELECT DISTINCT error_kind FROM sample_result WHERE status='error'");
  ASSERT_TRUE(kinds.step());
  EXPECT_EQ(kinds.text(0), "oom");
}

TEST_F(DeviceSweep, WhereNothingFitsEveryRowSaysSo) {
  const auto memory = std::make_shared<FakeMemory>();
  memory->limit_bytes = 1;
  run_on(on_device("a.db", "tova", "0.5", kTasks), memory, ExitCode::kNotEvaluable);
  Store store = read("a.db");
  for (const ArmRow& arm : list_arms(store)) EXPECT_EQ(arm.n_error, 4) << arm.label;
}

TEST_F(DeviceSweep, AnAbsentDeviceIsRefusedBeforeTheDatabaseIsMade) {
  const SweepOptions o = on_device("a.db", "tova", "0.5");
  EXPECT_THROW(run_sweep(o, {}), UsageError);
  EXPECT_THROW(run_sweep(o, fake_cuda({})), UsageError);
  EXPECT_FALSE(std::filesystem::exists(o.database));
}

}  // namespace
}  // namespace kvscope
