// How much memory this process took at most.
#pragma once

#include <cstdint>

namespace kvscope {

// Most memory the process ever held (VmHWM), and from now on: where the system lets the mark be
// reset. 0 where /proc is not there.
std::int64_t peak_process_bytes();
void reset_peak_process_bytes();

}  // namespace kvscope
