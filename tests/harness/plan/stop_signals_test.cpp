#include "harness/plan/stop_signals.h"

#include <gtest/gtest.h>

namespace kvscope {
namespace {

TEST(StopSignals, EachSignalHasItsExitCode) {
  {
    const StopSignals signals;
    EXPECT_FALSE(signals.requested());
    EXPECT_FALSE(signals.exit_code());
    ::raise(SIGINT);
    EXPECT_TRUE(signals.requested());
    EXPECT_EQ(signals.exit_code(), ExitCode::kInterrupted);
  }
  for (const int number : {SIGTERM, SIGUSR1}) {
    const StopSignals signals;
    EXPECT_FALSE(signals.requested());  // a new one starts clean
    ::raise(number);
    EXPECT_EQ(signals.exit_code(), ExitCode::kTryAgain);
  }
}

TEST(StopSignals, FormerHandlersComeBack) {
  static volatile sig_atomic_t calls = 0;
  struct sigaction mine {};
  mine.sa_handler = [](int) { calls = calls + 1; };
  struct sigaction before {};
  ::sigaction(SIGUSR1, &mine, &before);
  {
    const StopSignals signals;
    ::raise(SIGUSR1);
  }
  EXPECT_EQ(calls, 0);
  ::raise(SIGUSR1);
  EXPECT_EQ(calls, 1);
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace kvscope
