// Errors that a user can cause. Each ends the program with one line on stderr (what, where, what to
// do) and the exit code named beside it; anything else that is thrown is an internal error (70).
#pragma once

#include <stdexcept>

namespace kvscope {

struct UsageError : std::runtime_error {  // exit 64: a wrong option, policy, budget or parameter
  using std::runtime_error::runtime_error;
};
struct DataError : std::runtime_error {  // exit 65: a bad model, data set or text
  using std::runtime_error::runtime_error;
};
struct IoError
    : std::runtime_error {  // exit 74: a file, folder, port or database that cannot be used
  using std::runtime_error::runtime_error;
};

}  // namespace kvscope
