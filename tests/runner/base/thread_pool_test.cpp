#include "runner/base/thread_pool.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runner/base/error.h"

namespace kvscope {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, EveryIndexOnceInManyJobs) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  for (int job = 0; job < 2000; ++job) {
    const std::size_t n = std::size_t(job) % 37;
    std::vector<int> hits(n, 0);  // not atomic on purpose: TSan must see no race
    pool.parallel_for(n, [&](std::size_t i, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, pool.size());
      ++hits[i];
    });
    EXPECT_EQ(hits, std::vector<int>(n, 1)) << "job " << job;
  }
}

TEST_P(ThreadPoolTest, WorkersHaveScratchOfTheirOwn) {
  ThreadPool pool(GetParam());
  std::vector<long> sums(pool.size(), 0);
  pool.parallel_for(1000, [&](std::size_t i, int worker) { sums[worker] += long(i); });
  long total = 0;
  for (long s : sums) total += s;
  EXPECT_EQ(total, 499'500);
}

TEST_P(ThreadPoolTest, WakesSleepers) {
  ThreadPool pool(GetParam());
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // longer than the spin
    std::atomic<int> ran{0};
    pool.parallel_for(8, [&](std::size_t, int) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the caller sleeps, too
      ++ran;
    });
    EXPECT_EQ(ran, 8);
  }
}

TEST_P(ThreadPoolTest, RethrowsOneErrorAfterAllTasksAndGoesOn) {
  ThreadPool pool(GetParam());
  for (int job = 0; job < 50; ++job) {
    std::atomic<int> ran{0};
    const auto failing = [&](std::size_t i, int) {
      ++ran;
      if (i % 3 == 1) throw std::runtime_error("task failed");
    };
    EXPECT_THROW(pool.parallel_for(20, failing), std::runtime_error);
    EXPECT_EQ(ran, 20);
  }
  std::atomic<int> ran{0};
  pool.parallel_for(20, [&](std::size_t, int) { ++ran; });
  EXPECT_EQ(ran, 20);
}

TEST_P(ThreadPoolTest, LibrariesInsideTasksAreSingleThreaded) {
  ThreadPool pool(GetParam());
  std::vector<int> threads(64, 0);
  std::thread other([&] {  // not the thread that made the pool
    pool.parallel_for(threads.size(),
                      [&](std::size_t i, int) { threads[i] = omp_get_max_threads(); });
  });
  other.join();
  EXPECT_EQ(threads, std::vector<int>(64, 1));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, ZeroMeansAllProcessors) { EXPECT_GE(ThreadPool(0).size(), 1); }

TEST(ThreadPool, RefusesImpossibleNumbers) {
  EXPECT_THROW(ThreadPool(-1), UsageError);
  EXPECT_THROW(ThreadPool(1025), UsageError);
}

}  // namespace
}  // namespace kvscope
