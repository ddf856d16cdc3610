#include "runner/backend/cuda/architectures.h"

#include <gtest/gtest.h>

namespace kvscope::cuda {
namespace {

TEST(Architectures, MachineCodeRunsOnItsMajorVersionFromItsMinorOneOn) {
  EXPECT_TRUE(runs_on("80-real", 80));
  EXPECT_TRUE(runs_on("80-real", 86));
  EXPECT_FALSE(runs_on("86-real", 80));
  EXPECT_FALSE(runs_on("80-real", 90));
  EXPECT_FALSE(runs_on("90-real", 86));
}

TEST(Architectures, PtxRunsOnAllThatAreNotOlder) {
  EXPECT_TRUE(runs_on("80-real 90-virtual", 120));
  EXPECT_TRUE(runs_on("90", 100));
  EXPECT_FALSE(runs_on("120-virtual", 100));
}

TEST(Architectures, OneOfAListIsEnough) {
  constexpr const char* kAll = "80-real 86-real 89-real 90-real 100-real 120-real 120-virtual";
  for (const int capability : {80, 86, 87, 89, 90, 100, 103, 120, 121})
    EXPECT_TRUE(runs_on(kAll, capability)) << capability;
  EXPECT_FALSE(runs_on(kAll, 75));
  EXPECT_FALSE(runs_on("", 90));
}

}  // namespace
}  // namespace kvscope::cuda
