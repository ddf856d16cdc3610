#include "runner/policies/catalog.h"

#include <algorithm>

#include "runner/policies/parts.h"
#include "runner/policies/plugin.h"

namespace kvscope {

PolicyCatalog::PolicyCatalog() {
  // Entries of the static table are nobody's to delete.
  for (const PolicyInfo& info : policies()) all_.emplace_back(std::shared_ptr<void>(), &info);
}

void PolicyCatalog::add(std::shared_ptr<const PolicyInfo> info, const std::string& where) {
  const std::string name(info->name);
  const std::string what = where + ": its name \"" + name + "\" is taken by ";
  const std::string then = "; give the plug-in another name";
  // An old spelling of a part (spec.cpp) is taken too.
  if (find_part(name) != nullptr || name == "pyramidkv")
    throw UsageError(what + "a part that follows a policy after \"+\"" + then);
  if (const auto other = find(name)) {
    throw UsageError(what +
                     (other->plugin_sha256.empty() ? "a built-in policy"
                                                   : "plug-in " + std::string(other->source)) +
                     then);
  }
  all_.push_back(std::move(info));
}

std::shared_ptr<const PolicyInfo> PolicyCatalog::find(std::string_view name) const {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [name](const auto& info) { return info->name == name; });
  return found == all_.end() ? nullptr : *found;
}

PolicyCatalog catalog_with_plugins(std::span<const std::string> plugin_files) {
  PolicyCatalog catalog;
  for (const std::string& file : plugin_files)
    catalog.add(load_policy_plugin(file), "policy plug-in " + file);
  return catalog;
}

}  // namespace kvscope
