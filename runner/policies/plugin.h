// Policies that users bring as shared objects (kvscope_policy_plugin.h says what they promise).
#pragma once

#include <filesystem>
#include <memory>

#include "runner/policies/registry.h"

namespace kvscope {

// The plug-in's entry, which keeps it loaded. Throws UsageError: no such file, no shared object,
// not a plug-in, another ABI version, a null function, a bad name, parameter or number; IoError: a
// file that cannot be read.
std::shared_ptr<const PolicyInfo> load_policy_plugin(const std::filesystem::path& file);

}  // namespace kvscope
