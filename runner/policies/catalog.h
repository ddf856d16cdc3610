// The policies that a text may name: the built-in ones, and those that plug-ins add. A value that a
// command makes and hands to parse_policy(); a parsed policy keeps its own entry, so nothing else
// needs the catalogue.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/policies/registry.h"

namespace kvscope {

class PolicyCatalog {
 public:
  PolicyCatalog();  // the built-in policies

  // Throws UsageError, starting with `where`, if a policy or part has that name already.
  void add(std::shared_ptr<const PolicyInfo> info, const std::string& where);
  std::shared_ptr<const PolicyInfo> find(std::string_view name) const;  // null: there is none
  std::span<const std::shared_ptr<const PolicyInfo>> all() const { return all_; }

 private:
  std::vector<std::shared_ptr<const PolicyInfo>> all_;
};

// The built-in policies and one of each plug-in. Throws UsageError, IoError: plugin.h.
PolicyCatalog catalog_with_plugins(std::span<const std::string> plugin_files);

}  // namespace kvscope
