#include "harness/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/store/database.h"
#include "harness/store/metric_info.h"
#include "harness/store/queries.h"
#include "harness/store/schema.h"
#include "harness/store/statement.h"
#include "harness/store/transaction.h"
#include "harness/store/uuid.h"
#include "runner/base/error.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using testing::arm_record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ok_outcome;
using testing::OpenStore;
using ::testing::Pair;
using ::testing::SizeIs;
using testing::TempFolder;

template <typename Error, typename F>
std::string message_of(F&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "(nothing was thrown)";
}

TEST(Store, WhatIsRecordedComesBack) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  s.store.record(run, s.full, s.sample(0), ok_outcome(0.5));

  const auto results = arm_results(s.store, s.full);
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].sample_key, "s0");
  EXPECT_EQ(results[0].output_text, "42");
  EXPECT_EQ(results[0].gold_text, "42");
  EXPECT_EQ(results[0].mode_run, "monolithic");
  EXPECT_THAT(results[0].metrics, ElementsAre(Pair("recall", 1.0), Pair("gold_nll_nats", 0.5)));

  Statement trace(
      s.store.database(),
      "SELECT first_position,n_tokens,hex(nll_nats),hex(kl_full_nats) FROM token_trace");
  ASSERT_TRUE(trace.step());
  EXPECT_EQ(trace.integer(0), 5);
  EXPECT_EQ(trace.integer(1), 2);
  EXPECT_EQ(trace.text(2), "0000003F0000C03F");  // 0.5F, 1.5F little-endian
  EXPECT_EQ(trace.text(3), "000000000000803E");  // 0.0F, 0.25F
  Statement ids(s.store.database(), "SELECT hex(token_ids) FROM sample_output");
  ASSERT_TRUE(ids.step());
  EXPECT_EQ(ids.text(0), "0400000002000000");
  Statement ledger(
      s.store.database(),
      "SELECT kv_prefill_peak_physical_bytes,kv_decode_peak_logical_bytes,fitted_params FROM "
      "sample_result");
  ASSERT_TRUE(ledger.step());
  EXPECT_EQ(ledger.integer(0), 128);
  EXPECT_EQ(ledger.integer(1), 50);
  EXPECT_EQ(ledger.text(2), R"({"recent":"3"})");
}

TEST(Store, TheFileSaysWhoseItIs) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  EXPECT_EQ(s.store.database().pragma("application_id"), 0x4B564556);
  EXPECT_EQ(s.store.database().pragma("user_version"), kSchemaVersion);
  Statement mode(s.store.database(), "PRAGMA journal_mode");
  ASSERT_TRUE(mode.step());
  EXPECT_EQ(mode.text(0), "wal");
}

TEST(Store, FinishedSamplesAreTheResumeLedgerAcrossProcesses) {
  TempFolder folder;
  {
    OpenStore s(folder.path / "a.db");
    const auto run = s.begin("run-1");
    s.store.record(run, s.full, s.sample(0), ok_outcome(0.5));
    s.store.record(run, s.full, s.sample(2),
                   skipped_outcome("does_not_fit", "window does not fit"));
    // No end_run: the process was killed.
  }
  OpenStore s(folder.path / "a.db");
  EXPECT_THAT(s.store.finished_samples(s.full), ElementsAre(s.sample(0), s.sample(2)));
  EXPECT_TRUE(s.store.finished_samples(s.other).empty());
  const auto state = s.store.find_sweep("plan", "v1");
  ASSERT_TRUE(state);
  EXPECT_FALSE(state->finished);
  const auto run = s.begin("run-2");
  EXPECT_THAT(list_runs(s.store), SizeIs(2));
  EXPECT_EQ(list_runs(s.store)[1].status, "interrupted");
  for (const int i : {1, 3}) s.store.record(run, s.full, s.sample(i), ok_outcome(0.5));
  for (const int i : {0, 1, 2, 3}) s.store.record(run, s.other, s.sample(i), ok_outcome(2));
  s.store.end_run(run, RunStatus::kFinished);
  EXPECT_TRUE(s.store.find_sweep("plan", "v1")->finished);
  EXPECT_EQ(list_arms(s.store)[0].status, "finished");
}

TEST(Store, ASweepWithAMissingSampleIsNotFinished) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  for (const int i : {0, 1, 2, 3}) s.store.record(run, s.full, s.sample(i), ok_outcome(0.5));
  for (const int i : {0, 1, 3}) s.store.record(run, s.other, s.sample(i), ok_outcome(0.5));
  s.store.end_run(run, RunStatus::kInterrupted);
  EXPECT_FALSE(s.store.find_sweep("plan", "v1")->finished);
  EXPECT_FALSE(s.store.find_sweep("plan", "v2"));   // another program
  EXPECT_FALSE(s.store.find_sweep("other", "v1"));  // another plan
}

TEST(Store, TheNewestUnfinishedSweepIsFoundBeforeAFinishedOne) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db", 1);
  const auto run = s.begin("run-1");
  s.store.record(run, s.full, s.sample(0), ok_outcome(0.5));
  s.store.record(run, s.other, s.sample(0), ok_outcome(0.5));
  s.store.end_run(run, RunStatus::kFinished);
  for (const char* uuid : {"sweep-2", "sweep-3"}) {
    s.store.begin_sweep(
        {.uuid = uuid, .plan_hash = "plan", .program_version = "v1", .options_json = "{}"});
  }
  EXPECT_EQ(s.store.find_sweep("plan", "v1")->uuid, "sweep-3");
}

TEST(Store, TheSameValueTwiceIsFineAndADifferentOneIsAnError) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  SampleOutcome outcome = ok_outcome(0.5);
  s.store.record(run, s.full, s.sample(0), outcome);
  outcome.duration_seconds = 9;  // times may differ
  EXPECT_NO_THROW(s.store.record(run, s.full, s.sample(0), outcome));
  outcome.metrics[0].second = std::nextafter(0.5, 1.0);
  EXPECT_THAT(message_of<DataError>([&] { s.store.record(run, s.full, s.sample(0), outcome); }),
              HasSubstr("another gold_nll_nats"));
  outcome = ok_outcome(0.5);
  outcome.output_ids = {4, 3};
  EXPECT_THAT(message_of<DataError>([&] { s.store.record(run, s.full, s.sample(0), outcome); }),
              HasSubstr("another output"));
  outcome = ok_outcome(0.5);
  outcome.trace_nll_nats[1] = 1.25F;
  EXPECT_THROW(s.store.record(run, s.full, s.sample(0), outcome), DataError);
  outcome = ok_outcome(0.5);
  outcome.trace_kl_nats[1] = 0.5F;
  EXPECT_THAT(message_of<DataError>([&] { s.store.record(run, s.full, s.sample(0), outcome); }),
              HasSubstr("another token trace"));
  outcome.trace_kl_nats.clear();
  EXPECT_THROW(s.store.record(run, s.full, s.sample(0), outcome), DataError);
  EXPECT_THROW(s.store.record(run, s.full, s.sample(0), error_outcome("engine", "x")), DataError);
  EXPECT_THAT(arm_results(s.store, s.full)[0].metrics[1], Pair("gold_nll_nats", 0.5));
}

TEST(Store, ASampleWithOtherTokensUnderTheSameKeyIsAnError) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  auto samples = testing::sample_records(4, 1);
  samples[1].input_sha256 = "other";
  EXPECT_THROW(
      s.store.put_dataset(
          {.key = "d1", .task = "needle", .name = "needle", .version = "1", .n_samples = 4},
          samples),
      DataError);
}

TEST(Store, NonFiniteNumbersBecomeAnErrorRow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  s.store.record(run, s.full, s.sample(0), ok_outcome(nan));
  s.store.record(run, s.full, s.sample(1), ok_outcome(inf));
  SampleOutcome trace = ok_outcome(0.5);
  trace.trace_kl_nats[1] = std::numeric_limits<float>::infinity();
  s.store.record(run, s.full, s.sample(2), trace);
  const auto rows = arm_results(s.store, s.full);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].status, "error");
  EXPECT_EQ(rows[0].error, "gold_nll_nats is not finite");
  EXPECT_EQ(rows[1].status, "error");
  EXPECT_EQ(rows[2].error, "KL at position 6 is not finite");
  for (const auto& row : rows) EXPECT_TRUE(row.metrics.empty());
  Statement kind(s.store.database(), "SELECT DISTINCT error_kind FROM sample_result");
  ASSERT_TRUE(kind.step());
  EXPECT_EQ(kind.text(0), "nonfinite");
}

TEST(Store, TheSchemaItselfRefusesNaNAndInfinity) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  s.store.record(run, s.full, s.sample(0), skipped_outcome("does_not_fit", "x"));
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(Statement(s.store.database(), "INSERT INTO sample_metric VALUES(?,?,1,?)")
                     .bind(s.full, s.sample(0), bad)
                     .run(),
                 std::logic_error);
  }
  EXPECT_NO_THROW(Statement(s.store.database(), "INSERT INTO sample_metric VALUES(?,?,1,?)")
                      .bind(s.full, s.sample(0), 1.0)
                      .run());
}

TEST(Store, AnArmHasExactlyOneOfTheTwoBudgets) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  ArmRecord arm = arm_record("tova", 100);
  arm.key = "both";
  arm.budget_tokens = 64;
  EXPECT_THROW(s.store.put_arm(s.sweep, arm), std::logic_error);
  arm.budget_permille.reset();
  EXPECT_NO_THROW(s.store.put_arm(s.sweep, arm));
  arm.key = "none";
  arm.budget_tokens.reset();
  EXPECT_THROW(s.store.put_arm(s.sweep, arm), std::logic_error);
  EXPECT_EQ(find_arm(s.store, "tova").budget, "64tok");
}

TEST(Store, TextThatIsNotUtf8IsStoredReadable) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  SampleOutcome outcome = ok_outcome(0.5);
  outcome.output_text = "a\xff";
  s.store.record(run, s.full, s.sample(0), outcome);
  EXPECT_EQ(arm_results(s.store, s.full)[0].output_text, "a\xEF\xBF\xBD");  // U+FFFD
}

TEST(Store, ProbesAreKeptByLayerAndStepBin) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  SampleOutcome outcome = ok_outcome(0.5);
  ProbeSummary probes;
  RunningStat stat;
  stat.add(0.25);
  stat.add(0.75);
  probes.rebound_mass.overall = stat;
  probes.rebound_mass.by_layer = {RunningStat{}, stat};  // layer 0 saw no ghosts
  probes.rebound_mass.by_step_bin = {RunningStat{}, RunningStat{}, stat};
  outcome.probes = probes;
  s.store.record(run, s.other, s.sample(0), outcome);
  Statement layers(s.store.database(), "SELECT layer,n,mean,m2,min,max FROM layer_stat");
  ASSERT_TRUE(layers.step());
  EXPECT_EQ(layers.integer(0), 1);
  EXPECT_EQ(layers.integer(1), 2);
  EXPECT_EQ(layers.real(2), 0.5);
  EXPECT_EQ(layers.real(3), 0.125);
  EXPECT_EQ(layers.real(4), 0.25);
  EXPECT_EQ(layers.real(5), 0.75);
  EXPECT_FALSE(layers.step());
  Statement bins(s.store.database(), "SELECT step_lo,step_hi,n FROM step_stat");
  ASSERT_TRUE(bins.step());
  EXPECT_EQ(bins.integer(0), 2);  // bin 2 holds steps 2 and 3
  EXPECT_EQ(bins.integer(1), 4);
  EXPECT_FALSE(bins.step());
}

TEST(Store, ArmsAreFoundByIdKeyAndLabel) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  s.store.put_arm(s.sweep, arm_record("h2o", 500));
  EXPECT_EQ(find_arm(s.store, std::to_string(s.other)).label, "h2o@0.200");
  EXPECT_EQ(find_arm(s.store, "h2o@0.500").budget, "0.500");
  EXPECT_EQ(find_arm(s.store, "h2o:norm=sum@0.5").label, "h2o@0.500");  // as stored
  EXPECT_EQ(find_arm(s.store, "full").is_reference, true);
  EXPECT_THAT(message_of<UsageError>([&] { find_arm(s.store, "h2o"); }),
              HasSubstr("could be h2o@0.200, h2o@0.500"));
  EXPECT_THAT(message_of<UsageError>([&] { find_arm(s.store, "nope"); }),
              HasSubstr("kvscope list arms"));
}

TEST(Store, LabelsTellWhetherTheQuestionIsSeenInFilesOfOlderProgramsToo) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  ArmRecord hidden = arm_record("h2o", 200);
  hidden.key += "-hidden";
  hidden.question_visibility = "hidden";
  const std::int64_t id = s.store.put_arm(s.sweep, hidden);
  const auto check = [&] {
    EXPECT_EQ(find_arm(s.store, "h2o@0.200").arm_id, s.other);
    EXPECT_EQ(find_arm(s.store, "h2o@0.2 question=hidden").arm_id, id);
    EXPECT_EQ(find_arm(s.store, std::to_string(id)).label, "h2o@0.200 question=hidden");
  };
  check();
  Statement label(s.store.database(), "SELECT label FROM v_arm WHERE arm_id=?");
  ASSERT_TRUE(label.bind(id).step());
  EXPECT_EQ(label.text(0), "h2o@0.200 question=hidden");
  // Older programs made the view without the suffix, and it stays as it is.
  Statement stored(s.store.database(), "SELECT sql FROM sqlite_master WHERE name='v_arm'");
  ASSERT_TRUE(stored.step());
  std::string sql = stored.text(0);
  const std::size_t suffix = sql.find("|| CASE a.question_visibility");
  ASSERT_NE(suffix, std::string::npos);
  sql.erase(suffix, sql.find("AS label", suffix) - suffix);
  label.reset();
  stored.reset();
  s.store.database().execute("DROP VIEW v_arm; " + sql);
  check();
}

TEST(Store, EveryMetricIsInTheFileWithItsUnit) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  Statement count(s.store.database(), "SELECT count(*) FROM metric WHERE help<>''");
  ASSERT_TRUE(count.step());
  EXPECT_EQ(count.integer(0), static_cast<int>(metric_infos().size()));
  const auto run = s.begin("run-1");
  SampleOutcome outcome = ok_outcome(0.5);
  outcome.metrics.emplace_back("no_such_metric", 1.0);
  EXPECT_THROW(s.store.record(run, s.full, s.sample(0), outcome), std::logic_error);
  EXPECT_FALSE(s.store.finished(s.full, s.sample(0)));  // rolled back as a whole
}

TEST(Uuid, IsVersionSevenAndSortsByTime) {
  const std::string a = new_uuid();
  ASSERT_EQ(a.size(), 36U);
  EXPECT_EQ(a[14], '7');
  EXPECT_THAT(std::string("89ab"), HasSubstr(std::string(1, a[19])));
  EXPECT_NE(a, new_uuid());
  EXPECT_LE(a.substr(0, 13), new_uuid().substr(0, 13));
}

}  // namespace
}  // namespace kvscope
