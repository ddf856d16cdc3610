#include "harness/tasks/task_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/tasks/task.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string usage_error(const std::string& text) {
  try {
    parse_tasks(text);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "(nothing was thrown)";
}

TEST(TaskList, ARepeatedKeyIsAList) {
  const auto tasks = parse_tasks("needle:length=1024:length=2048:samples=20:seed=1,qa,perplexity");
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks[0].name, "needle");
  EXPECT_THAT(tasks[0].integers("length"), ElementsAre(1024, 2048));
  EXPECT_EQ(tasks[0].integer("samples"), 20);
  EXPECT_EQ(tasks[0].unsigned64("seed"), 1U);
  EXPECT_EQ(tasks[1].name, "qa");
  EXPECT_EQ(tasks[2].name, "perplexity");
}

TEST(TaskList, DefaultsAreFilledIn) {
  const auto tasks = parse_tasks("needle,qa,perplexity");
  EXPECT_THAT(tasks[0].integers("length"), ElementsAre(1024));
  EXPECT_EQ(tasks[0].word("kind"), "magic_number");
  EXPECT_THAT(tasks[0].numbers("depth"), IsEmpty());
  EXPECT_EQ(tasks[1].integer("samples"), 20);
  EXPECT_EQ(tasks[2].integer("windows"), 4);
  EXPECT_FALSE(tasks[2].was_written("windows"));
}

TEST(TaskList, CanonicalTextHasWrittenKeysInOrderOfName) {
  EXPECT_EQ(parse_tasks("needle:seed=2:length=64")[0].canonical(), "needle:length=64:seed=2");
}

TEST(TaskList, FaultsNameTheNearest) {
  EXPECT_THAT(usage_error("nedle"), AllOf(HasSubstr("unknown task 'nedle'"), HasSubstr("needle")));
  EXPECT_THAT(usage_error("needle:lenght=3"), AllOf(HasSubstr("lenght"), HasSubstr("\"length\"")));
  EXPECT_THAT(usage_error("needle:kind=magic"), HasSubstr("none of"));
  EXPECT_THAT(usage_error("needle:length"), HasSubstr("not key=value"));
  EXPECT_THAT(usage_error("needle:length=12.5"), HasSubstr("whole number from 64"));
  EXPECT_THAT(usage_error("needle:length=63"), HasSubstr("whole number from 64"));
  EXPECT_THAT(usage_error("needle:depth=101"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(usage_error("needle:depth=nan"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(usage_error("needle:samples=1:samples=2"), HasSubstr("given twice"));
  EXPECT_THAT(usage_error("needle:length=64:length=64"), HasSubstr("given twice"));
  EXPECT_THAT(usage_error("qa,qa"), HasSubstr("listed twice"));
  EXPECT_THAT(usage_error("needle,"), HasSubstr("unknown task ''"));
}

TEST(TaskTable, EveryTaskSaysWhatItIs) {
  for (const TaskInfo& task : task_infos()) {
    EXPECT_FALSE(task.summary.empty()) << task.name;
    EXPECT_NE(task.make, nullptr) << task.name;
    for (const TaskKey& key : task.keys) EXPECT_FALSE(key.help.empty()) << task.name << key.name;
  }
}

}  // namespace
}  // namespace kvscope
