#include "runner/backend/library_versions.h"

#include <hwy/highway.h>

#include <oneapi/dnnl/dnnl.h>

namespace kvscope {
namespace {

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

std::vector<LibraryVersion> backend_libraries() {
  const dnnl_version_t& onednn = *dnnl_version();  // of the library that was loaded
  return {{"oneDNN", dotted(onednn.major, onednn.minor, onednn.patch)},
          {"Highway", dotted(HWY_MAJOR, HWY_MINOR, HWY_PATCH)}};
}

}  // namespace kvscope
