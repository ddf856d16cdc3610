#include "harness/plan/stop_signals.h"

namespace kvscope {
namespace {

// A handler has no argument of ours, so its flag cannot live in the object.
volatile sig_atomic_t received_signal = 0;

extern "C" void remember_signal(int number) { received_signal = number; }

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = remember_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    if (kSignals[i] == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    sigaction(kSignals[i], &action, &former_[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
}

int StopSignals::signal_number() const { return received_signal; }

std::optional<ExitCode> StopSignals::exit_code() const {
  if (!requested()) return std::nullopt;
  return signal_number() == SIGINT ? ExitCode::kInterrupted : ExitCode::kTryAgain;
}

}  // namespace kvscope
