#include "harness/build_info/build_info.h"

#include "kvscope_build_info.h"  // written by cmake/WriteBuildInfo.cmake at every build

namespace kvscope {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo = {kBuildVersion, kBuildGitSha, kBuildGitDirty, kBuildCompiler};
  return kInfo;
}

std::string version_line() {
  const BuildInfo& info = build_info();
  return "kvscope " + std::string(info.version) + " (" + std::string(info.git_sha) +
         (info.git_dirty ? " with changes, " : ", ") + std::string(info.compiler) + ")";
}

}  // namespace kvscope
