// Whole sweeps on a tiny random model: plan, tasks, engine, store and report together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "harness/store/memory_kinds.h"
#include "harness/store/sketches.h"
#include "runner/base/error.h"
#include "tests/harness/tasks/sweep_fixture.h"

namespace kvscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using testing::SweepTest;

constexpr const char* kThreeTasks =
    "needle:length=300:samples=2,qa:samples=2:people=2:filler=false,perplexity:context=64:windows="
    "2";

TEST_F(SweepTest, EveryArmHasARowForEverySample) {
  const std::string out = run(options("a.db", "tova,snapkv:window=4", "0.2,0.5", kThreeTasks));
  EXPECT_THAT(out, HasSubstr("\"status\":\"finished\""));
  Store store = read("a.db");
  const auto arms = list_arms(store);
  ASSERT_THAT(arms, SizeIs(5));
  EXPECT_TRUE(arms.front().is_reference);
  for (const ArmRow& arm : arms) {
    EXPECT_EQ(arm.n_ok, 6) << arm.label;
    EXPECT_EQ(arm.status, "finished") << arm.label;
  }
  // The full arm against itself.
  for (const ResultRow& row : arm_results(store, arms.front().arm_id)) {
    std::map<std::string, double> metrics(row.metrics.begin(), row.metrics.end());
    EXPECT_EQ(metrics.at("kl_full_nats"), 0.0) << row.sample_key;
    EXPECT_EQ(metrics.at("top1_agreement"), 1.0) << row.sample_key;
    EXPECT_GT(metrics.at("kv_peak_bytes"), 0.0) << row.sample_key;
  }
  const ArmRow tova = find_arm(store, "tova@0.200");
  for (const ResultRow& row : arm_results(store, tova.arm_id)) {
    std::map<std::string, double> metrics(row.metrics.begin(), row.metrics.end());
    EXPECT_GT(metrics.at("kl_full_nats"), 0.0) << row.sample_key;
    EXPECT_GT(metrics.at("rebound_mass"), 0.0) << row.sample_key;
    EXPECT_LT(metrics.at("rebound_mass"), 1.0) << row.sample_key;
    EXPECT_EQ(row.mode_run, row.task == "perplexity" ? "in_stream" : "monolithic");
  }
  Statement probes(store.database(),
                   "SELECT count(*) FROM layer_stat JOIN metric USING(metric_id) WHERE arm_id=? "
                   "AND name IN ('rebound_mass','mass_hit','hit_at_32','hit_at_90_mass',"
                   "'kv_steady_bytes')");
  probes.bind(tova.arm_id).step();
  // samples × (probe metrics + KV bytes) × layers, and of answers evidence survival twice
  EXPECT_EQ(probes.integer(0), 6 * (4 + 1) * 2 + 4 * 2 * 2);
}

TEST_F(SweepTest, ArmsAreHeldAgainstFullOnTheSameSample) {
  run(options("a.db", "tova", "0.2", kThreeTasks));
  Store store = read("a.db");
  std::map<std::string, std::map<std::string, double>> full;
  for (const ResultRow& row : arm_results(store, find_arm(store, "full").arm_id)) {
    full[row.task + row.sample_key] = {row.metrics.begin(), row.metrics.end()};
  }
  for (const ResultRow& row : arm_results(store, find_arm(store, "tova@0.200").arm_id)) {
    std::map<std::string, double> metrics(row.metrics.begin(), row.metrics.end());
    std::map<std::string, double>& reference = full.at(row.task + row.sample_key);
    EXPECT_LE(metrics.at("kl_full_p50_nats"), metrics.at("kl_full_p99_nats"));
    EXPECT_LE(metrics.at("kl_full_p99_nats"), metrics.at("kl_full_max_nats"));
    EXPECT_GT(metrics.at("kl_full_max_nats"), metrics.at("kl_full_nats") * 0.999);
    EXPECT_EQ(reference.at("kl_full_max_nats"), 0.0);
    if (row.task == "perplexity") continue;
    EXPECT_LE(metrics.at("first_divergence_step"), reference.at("first_divergence_step"));
    EXPECT_EQ(reference.at("delta_gold_nll_nats"), 0.0);
    EXPECT_DOUBLE_EQ(metrics.at("delta_gold_nll_nats"),
                     metrics.at("gold_nll_nats") - reference.at("gold_nll_nats"));
  }
}

TEST_F(SweepTest, DistributionsAndMemoryAreRecorded) {
  run(options("a.db", "tova,h2o+kv_int8", "0.2", kThreeTasks));
  Store store = read("a.db");
  for (const ArmRow& arm : list_arms(store)) {
    double keys = 0;
    double scales = 0;
    for (const KindRow& row : arm_kinds(store, arm.arm_id)) {
      EXPECT_LE(row.logical_bytes, row.physical_bytes) << row.kind;
      keys += row.kind == "keys" ? row.physical_bytes : 0;
      scales += row.kind == "scales" ? row.physical_bytes : 0;
    }
    EXPECT_GT(keys, 0) << arm.label;
    EXPECT_EQ(scales > 0, arm.label == "h2o+kv_int8@0.200") << arm.label;
    std::map<std::string, MetricSketch> of_perplexity;
    for (const MetricSketch& one : arm_sketches(store, arm.arm_id)) {
      if (one.task == "perplexity") of_perplexity.emplace(one.metric, one);
    }
    if (arm.is_reference) continue;
    const MetricSketch& rebound = of_perplexity.at("rebound_mass");
    EXPECT_EQ(rebound.sketch.n(), of_perplexity.at("entropy_nats").sketch.n()) << arm.label;
    EXPECT_TRUE(rebound.worst_head);
    EXPECT_GE(rebound.sketch.max(), rebound.worst_head->mean);
    EXPECT_EQ(of_perplexity.at("kl_full_nats").sketch.n(), 2 * 32) << arm.label;
    for (const ArmMetricRow& row : arm_metrics(store, arm.arm_id)) {
      if (row.metric != "kv_fragmentation" && row.metric != "page_occupancy") continue;
      EXPECT_GE(row.mean, 0) << row.metric;
      EXPECT_LE(row.mean, 1) << row.metric;
    }
  }
  const auto memory = process_memory(store, list_runs(store).front().run_id);
  ASSERT_TRUE(memory);
  EXPECT_GT(memory->process_peak_bytes, 1 << 20);
  EXPECT_GT(memory->page_pool_peak_bytes, 0);
  EXPECT_LT(memory->page_pool_peak_bytes, memory->process_peak_bytes);
}

TEST_F(SweepTest, TheMeanOfATraceIsTheMetric) {
  run(options("a.db", "full", "", "perplexity:context=64:windows=1"));
  Store store = read("a.db");
  Statement trace(store.database(), "SELECT first_position,n_tokens,nll_nats FROM token_trace");
  ASSERT_TRUE(trace.step());
  EXPECT_EQ(trace.integer(0), 32);  // the first half is the prompt
  EXPECT_EQ(trace.integer(1), 32);
  const auto bytes = trace.blob(2);
  double sum = 0;
  for (int i = 0; i < 32; ++i) {
    float nll = 0;
    std::memcpy(&nll, bytes.data() + 4 * i, 4);
    sum += static_cast<double>(nll);
  }
  // float32 of values below 10: 5e-7 each at most.
  EXPECT_NEAR(arm_metrics(store, 1).front().mean, sum / 32, 1e-6);
}

TEST_F(SweepTest, ANumberIsTheSameAloneAndInASweep) {
  run(options("many.db", "h2o,tova,snapkv:window=4,random,streaming_llm:sinks=2", "0.2,0.5",
              kThreeTasks));
  Store many = read("many.db");
  for (const char* policy : {"tova", "snapkv:window=4", "random", "streaming_llm:sinks=2"}) {
    const std::string file = std::string(policy).substr(0, 4) + ".db";
    SweepOptions alone = options(file, policy, "0.2", kThreeTasks);
    alone.model.threads = 2;
    run(alone);
    Store store = read(file);
    const std::string label = std::string(policy) + "@0.200";
    EXPECT_GT(fingerprint(store, label).size(), 1000U);  // of six samples
    EXPECT_EQ(fingerprint(store, label), fingerprint(many, label));
  }
}

TEST_F(SweepTest, AFinishedPlanIsNotRunAgainUnlessAsked) {
  SweepOptions o = options("a.db", "tova", "0.5", "needle:length=300:samples=1");
  const std::string first = run(o);
  EXPECT_EQ(run(o), first);
  {
    Store store = read("a.db");
    EXPECT_THAT(list_runs(store), SizeIs(1));
  }
  o.fresh = true;
  run(o);
  Store store = read("a.db");
  EXPECT_THAT(list_runs(store), SizeIs(2));
  EXPECT_THAT(list_arms(store), SizeIs(4));
  Statement samples(store.database(), "SELECT count(*) FROM sample");
  samples.step();
  EXPECT_EQ(samples.integer(0), 1);  // content has one key in both sweeps
}

TEST_F(SweepTest, AStoppedSweepGoesOnToTheSameNumbers) {
  const std::string tasks = "needle:length=300:samples=40";
  const std::string file = (folder_.path / "stopped.db").string();
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream nowhere("/dev/null");
    std::cout.rdbuf(nowhere.rdbuf());
    ::_exit(to_int(run_sweep(options("stopped.db", "h2o,tova", "0.2,0.5", tasks), {})));
  }
  int results = 0;
  for (int i = 0; i < 3000 && results == 0; ++i) {
    ::usleep(10'000);
    try {
      Store store = Store::open(file, StoreAccess::kReadOnly);
      Statement count(store.database(), "SELECT count(*) FROM sample_result");
      if (count.step()) results = count.integer(0);
    } catch (const std::exception&) {  // the child has not made it yet
    }
  }
  ASSERT_GT(results, 0);
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 75);
  {
    Store store = read("stopped.db");
    EXPECT_EQ(list_runs(store).front().status, "interrupted");
    Statement count(store.database(), "SELECT count(*) FROM sample_result");
    count.step();
    EXPECT_LT(count.integer(0), 200);  // otherwise nothing was interrupted
  }
  run(options("stopped.db", "h2o,tova", "0.2,0.5", tasks));
  run(options("whole.db", "h2o,tova", "0.2,0.5", tasks));
  Store stopped = read("stopped.db");
  Store whole = read("whole.db");
  EXPECT_THAT(list_runs(stopped), SizeIs(2));
  for (const char* label : {"full@1.000", "h2o@0.200", "tova@0.500"}) {
    EXPECT_EQ(fingerprint(stopped, label), fingerprint(whole, label)) << label;
  }
}

TEST_F(SweepTest, ArmsThatDifferOnlyInPrefillShareOnePerplexityRun) {
  run(options("a.db", "tova,tova:prefill=streaming", "0.2",
              "needle:length=300:samples=1,perplexity:context=64:windows=1"));
  Store store = read("a.db");
  std::map<std::string, std::map<std::string, std::string>> modes;
  std::map<std::string, std::map<std::string, double>> nll;
  for (const char* label : {"tova@0.200", "tova:prefill=streaming@0.200"}) {
    for (const ResultRow& row : arm_results(store, find_arm(store, label).arm_id)) {
      modes[row.task][label] = row.mode_run;
      for (const auto& [name, value] : row.metrics) {
        if (name == "nll_nats") nll[row.task][label] = value;
      }
    }
  }
  EXPECT_EQ(modes["perplexity"]["tova@0.200"], "in_stream");
  EXPECT_EQ(modes["perplexity"]["tova:prefill=streaming@0.200"], "in_stream");
  EXPECT_EQ(nll["perplexity"]["tova@0.200"], nll["perplexity"]["tova:prefill=streaming@0.200"]);
  EXPECT_EQ(modes["needle"]["tova@0.200"], "monolithic");
  EXPECT_EQ(modes["needle"]["tova:prefill=streaming@0.200"], "streaming");
}

TEST_F(SweepTest, WhatDoesNotFitIsASkippedRowWithItsReason) {
  SweepOptions o = options("a.db", "snapkv:window=64,tova", "", "needle:length=300:samples=2");
  o.arms.budget_tokens = "32";
  run(o);
  Store store = read("a.db");
  const ArmRow snapkv = find_arm(store, "snapkv:window=64@32tok");
  EXPECT_EQ(snapkv.n_skipped, 2);
  EXPECT_THAT(arm_results(store, snapkv.arm_id)[0].error, HasSubstr("window"));
  EXPECT_EQ(find_arm(store, "tova@32tok").n_ok, 2);
}

// The tiny model was trained for 512 positions.
TEST_F(SweepTest, BeyondTheContextOnlyBoundedPositionsRun) {
  SweepOptions o = options("a.db", "streaming_llm,tova", "", "perplexity:context=600:windows=1");
  o.arms.budget_tokens = "64";
  run(o);
  {
    Store store = read("a.db");
    EXPECT_EQ(find_arm(store, "full").n_skipped, 1);
    EXPECT_EQ(find_arm(store, "tova").n_skipped, 1);
    const ArmRow streaming = find_arm(store, "streaming_llm");
    EXPECT_EQ(streaming.n_ok, 1);
    const auto rows = arm_results(store, streaming.arm_id);
    std::map<std::string, double> metrics(rows[0].metrics.begin(), rows[0].metrics.end());
    EXPECT_TRUE(metrics.contains("nll_nats"));
    EXPECT_FALSE(metrics.contains("kl_full_nats"));  // there is no full pass to compare with
  }
  o.model.beyond_context = true;
  run(o);  // another plan
  Store store = read("a.db");
  for (const char* policy : {"full", "tova", "streaming_llm"})
    EXPECT_EQ(find_arm(store, policy).n_ok, 1) << policy;
}

TEST_F(SweepTest, TheTableSaysWhatItMeans) {
  SweepOptions o = options("a.db", "tova,random", "0.1,0.5", kThreeTasks);
  o.json = false;
  const std::string out = run(o);
  EXPECT_THAT(out, HasSubstr("minus full [95 %]"));
  EXPECT_THAT(out, HasSubstr("At the smallest budget (0.100)"));
  EXPECT_THAT(out, HasSubstr("Database: " + o.database));
  EXPECT_THAT(out, Not(HasSubstr("nan")));
}

TEST_F(SweepTest, MetricsGoIntoTheTextfileAndFaultsOfItDoNotFailTheRun) {
  SweepOptions o = options("a.db", "tova", "0.2", "needle:length=300:samples=1");
  o.metrics_textfile = (folder_.path / "kvscope.prom").string();
  run(o);
  std::ifstream in(o.metrics_textfile);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("policy=\"tova\""));
  o.fresh = true;
  o.metrics_textfile = (folder_.path / "no" / "such" / "folder.prom").string();
  run(o);
}

TEST_F(SweepTest, WrongOptionsEndBeforeAnythingIsWritten) {
  EXPECT_THROW(run(options("a.db", "nope", "0.2", "needle")), UsageError);
  EXPECT_THROW(run(options("a.db", "tova", "0", "needle")), UsageError);
  EXPECT_THROW(run(options("a.db", "tova", "0.2", "needl")), UsageError);
  EXPECT_THROW(run(options("no/a.db", "tova", "0.2", "needle")), IoError);
  SweepOptions o = options("a.db", "tova", "0.2", "perplexity");
  o.files.text = folder_.path / "missing.txt";
  EXPECT_THROW(run(o), IoError);
  o.model.file = (folder_.path / "missing.gguf").string();
  EXPECT_ANY_THROW(run(o));
  EXPECT_FALSE(std::filesystem::exists(folder_.path / "a.db"));
}

}  // namespace
}  // namespace kvscope
