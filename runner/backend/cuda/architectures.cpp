#include "runner/backend/cuda/architectures.h"

#include <charconv>

namespace kvscope::cuda {

bool runs_on(std::string_view built_for, int compute_capability) {
  while (!built_for.empty()) {
    const std::string_view one = built_for.substr(0, built_for.find(' '));
    built_for.remove_prefix(one.size() == built_for.size() ? one.size() : one.size() + 1);
    int built = 0;
    const char* end = one.data() + one.size();
    const char* kind = std::from_chars(one.data(), end, built).ptr;
    if (built == 0 || built > compute_capability) continue;
    const std::string_view suffix(kind, std::size_t(end - kind));
    if (suffix != "-real") return true;  // PTX alone, or PTX and machine code
    if (built / 10 == compute_capability / 10) return true;
  }
  return false;
}

}  // namespace kvscope::cuda
