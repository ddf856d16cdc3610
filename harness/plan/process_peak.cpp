#include "harness/plan/process_peak.h"

#include <fstream>
#include <string>

namespace kvscope {

std::int64_t peak_process_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    std::int64_t kilobytes = 0;
    if (key == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

void reset_peak_process_bytes() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM to the present size
}

}  // namespace kvscope
