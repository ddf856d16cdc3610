// Which program this is. Results of different versions are never mixed in one sweep.
#pragma once

#include <string>
#include <string_view>

namespace kvscope {

struct BuildInfo {
  std::string_view version;  // of the project, "0.1.0"
  std::string_view git_sha;  // of the sources built, "unknown" outside a repository
  bool git_dirty;            // changes that were not committed
  std::string_view compiler;
};

const BuildInfo& build_info();
std::string version_line();  // "kvscope 0.1.0 (abc1234, GNU 12.2.0)"

}  // namespace kvscope
