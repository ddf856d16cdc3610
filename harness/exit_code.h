// What the program's exit status says. 64 and above are those of <sysexits.h>, so that a crash is
// never taken for a regression.
#pragma once

namespace kvscope {

enum class ExitCode : int {
  kOk = 0,
  kGateFailed = 1,
  kInconclusive = 2,
  kNotEvaluable = 3,
  kUsage = 64,         // wrong option, policy, budget, parameter or device; also no subcommand
  kData = 65,          // bad model, data set or text
  kInternal = 70,      // a fault of the program, or no memory of host or device
  kIo = 74,            // a file, folder, port or database that cannot be used
  kTryAgain = 75,      // stopped by TERM or USR1; the same command goes on where it stopped
  kInterrupted = 130,  // Ctrl-C
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

}  // namespace kvscope
