// Ctrl-C, TERM and USR1 ask for a stop; the work ends at the next safe point.
#pragma once

#include <signal.h>

#include <array>
#include <optional>

#include "harness/exit_code.h"

namespace kvscope {

// While one lives, INT, TERM and USR1 only set a flag. A second Ctrl-C ends the program at once,
// which is safe too: the store keeps whole samples. At most one at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // the former handlers come back
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const { return signal_number() != 0; }
  int signal_number() const;  // 0: none
  // 130 after Ctrl-C, 75 after TERM and USR1 (run again), nothing without a signal.
  std::optional<ExitCode> exit_code() const;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> former_{};
};

}  // namespace kvscope
