#include "harness/store/kept_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/store/database.h"
#include "harness/store/schema.h"
#include "harness/store/statement.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using testing::make_older;
using testing::ok_outcome;
using testing::OpenStore;
using ::testing::SizeIs;
using testing::TempFolder;

SampleOutcome outcome_with(const KeptSets& kept) {
  SampleOutcome outcome = ok_outcome(0.5);
  outcome.kept_sets = kept;
  return outcome;
}

// As a program of schema version 1 left it.
void make_version_1(const std::filesystem::path& file) {
  {
    OpenStore s(file);
    const auto run = s.begin("run-1");
    s.store.record(run, s.other, s.sample(0), ok_outcome(0.25));
    make_older(s.store.database(), 1);
    s.store.checkpoint();
  }
}

TEST(KeptSets, AreStoredWithTheResult) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  const auto run = s.begin("run-1");
  s.store.record(run, s.other, s.sample(0), outcome_with({"aa", 4, 10, 4.0, 5.5, {}}));
  s.store.record(run, s.other, s.sample(1),
                 outcome_with({"bb", 4, 10, 10.0, 12.0, IdentityFinding::kEvictedNothing}));
  s.store.record(run, s.other, s.sample(2), skipped_outcome("does_not_fit", "no"));
  const auto rows = kept_sets(s.store, s.other);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].task, "needle");
  EXPECT_EQ(rows[0].dataset_key, "d1");
  EXPECT_EQ(rows[0].mode_run, "monolithic");
  EXPECT_EQ(rows[0].kept_sets_hash, "aa");
  EXPECT_EQ(rows[0].budget_tokens, 4);
  EXPECT_EQ(rows[0].offered_tokens, 10);
  EXPECT_EQ(rows[0].kept_tokens, 4.0);
  EXPECT_EQ(rows[0].final_tokens, 5.5);
  EXPECT_EQ(rows[0].finding, "");
  EXPECT_EQ(rows[1].finding, "evicted_nothing");
  EXPECT_THAT(kept_sets(s.store, s.full), SizeIs(0));
}

TEST(KeptSets, AFileOfVersionOneIsReadAsItIs) {
  TempFolder folder;
  const auto file = folder.path / "old.db";
  make_version_1(file);
  Store store = Store::open(file, StoreAccess::kReadOnly);
  EXPECT_THAT(kept_sets(store, 2), SizeIs(0));
  EXPECT_EQ(store.database().pragma("user_version"), 1);
}

TEST(KeptSets, AFileOfVersionOneIsBroughtUpToDateWhereItIsWritten) {
  TempFolder folder;
  const auto file = folder.path / "old.db";
  make_version_1(file);
  for (int i = 0; i < 2; ++i) {  // the second time there is nothing to do
    OpenStore s(file);
    EXPECT_EQ(s.store.database().pragma("user_version"), kSchemaVersion);
    Statement old(s.store.database(), "SELECT value FROM sample_metric WHERE arm_id=? AND value=?");
    EXPECT_TRUE(old.bind(s.other, 0.25).step());  // what was there is there
    s.store.record(s.begin("run-" + std::to_string(i + 2)), s.other, s.sample(i + 1),
                   outcome_with({"aa", 4, 10, 4.0, 4.0, {}}));
    EXPECT_THAT(kept_sets(s.store, s.other), SizeIs(i + 1));
  }
}

}  // namespace
}  // namespace kvscope
