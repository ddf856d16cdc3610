// What computed the numbers, in files of this program and of older ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/store/queries.h"
#include "harness/store/schema.h"
#include "runner/base/error.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

using testing::arm_record;
using testing::make_older;
using testing::ok_outcome;
using testing::OpenStore;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::tiny_model_record;

TEST(Backends, AnArmsBackendIsThatOfItsModel) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  ModelRecord model = tiny_model_record();
  model.key = "m2";
  model.backend = "cuda";
  s.store.put_model(model);
  s.store.begin_sweep(
      {.uuid = "sweep-2", .plan_hash = "p2", .program_version = "v1", .options_json = "{}"});
  ArmRecord arm = arm_record("h2o", 200);
  arm.model_key = "m2";
  arm.key += "-cuda";
  const std::int64_t id = s.store.put_arm("sweep-2", arm);
  EXPECT_EQ(find_arm(s.store, std::to_string(s.other)).backend, "cpu");
  EXPECT_EQ(find_arm(s.store, std::to_string(id)).backend, "cuda");
  Statement view(s.store.database(), "SELECT backend FROM v_arm WHERE arm_id=?");
  ASSERT_TRUE(view.bind(id).step());
  EXPECT_EQ(view.text(0), "cuda");
}

TEST(Backends, ARunSaysHowMuchOfItsDeviceItTook) {
  TempFolder folder;
  OpenStore s(folder.path / "a.db");
  s.begin("run-1");
  const auto run = s.begin("run-2");
  s.store.put_device_memory(run, {100, 300, 500});
  const auto runs = list_runs(s.store);
  ASSERT_THAT(runs, SizeIs(2));
  for (const RunRow& row : runs) {
    EXPECT_EQ(row.device_memory.has_value(), row.run_id == run);
    if (!row.device_memory) continue;
    EXPECT_EQ(row.device_memory->allocated_bytes, 100);
    EXPECT_EQ(row.device_memory->peak_bytes, 300);
    EXPECT_EQ(row.device_memory->driver_delta_bytes, 500);
  }
}

TEST(Backends, FilesOfOlderProgramsRanOnTheCpu) {
  for (const int version : {1, 2}) {
    TempFolder folder;
    const auto file = folder.path / "old.db";
    {
      OpenStore s(file);
      s.store.record(s.begin("run-1"), s.other, s.sample(0), ok_outcome(0.25));
      make_older(s.store.database(), version);
      s.store.checkpoint();
    }
    const auto check = [](Store& store) {
      for (const ArmRow& arm : list_arms(store)) EXPECT_EQ(arm.backend, "cpu");
      EXPECT_FALSE(list_runs(store).front().device_memory);
    };
    {
      Store old = Store::open(file, StoreAccess::kReadOnly);
      EXPECT_EQ(old.database().pragma("user_version"), version);
      check(old);
    }
    OpenStore s(file);
    EXPECT_EQ(s.store.database().pragma("user_version"), kSchemaVersion);
    check(s.store);
    EXPECT_EQ(arm_metrics(s.store, s.other).size(), 2U);  // views on the view work, too
    s.store.put_device_memory(s.begin("run-2"), {1, 2, 3});
    EXPECT_TRUE(list_runs(s.store).front().device_memory);
  }
}

}  // namespace
}  // namespace kvscope
