// Which libraries the backends of this program compute with.
#pragma once

#include <string>
#include <vector>

namespace kvscope {

struct LibraryVersion {
  std::string name;     // "oneDNN"
  std::string version;  // "2.6.3"
};

std::vector<LibraryVersion> backend_libraries();

}  // namespace kvscope
