// A plug-in's shared object: opened, checked, and closed with its last user.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/policies/kvscope_policy_plugin.h"
#include "runner/policies/registry.h"

namespace kvscope {

class PluginLibrary {
 public:
  // Throws as load_policy_plugin().
  explicit PluginLibrary(const std::filesystem::path& file);

  const kvscope_policy& policy() const { return *policy_; }
  std::span<const ParamInfo> params() const { return params_; }
  const std::string& file() const { return file_; }  // as the user wrote it
  const std::string& sha256() const { return sha256_; }
  bool needs(unsigned need) const { return (policy_->needs & need) != 0; }

 private:
  struct Close {
    void operator()(void* handle) const;
  };

  void check_policy() const;
  void read_params();
  [[noreturn]] void refuse(const std::string& why) const;

  std::string file_;
  std::string sha256_;
  std::unique_ptr<void, Close> handle_;
  const kvscope_policy* policy_ = nullptr;
  std::vector<std::string> texts_;  // values and defaults in the project's spelling
  std::vector<ParamInfo> params_;
};

}  // namespace kvscope
