#include "runner/policies/plugin_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <system_error>

#include "runner/base/sha256.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr int kMostParams = 64;
constexpr int kMostSlotBytes = 1 << 20;

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_';
  });
}

// C sources write ranges in ASCII.
std::string with_ellipsis(std::string_view values) {
  std::string text(values);
  const std::size_t at = text.substr(0, text.find(" (")).find("..");
  if (at != std::string::npos) text.replace(at, 2, "…");
  return text;
}

}  // namespace

void PluginLibrary::Close::operator()(void* handle) const { ::dlclose(handle); }

void PluginLibrary::refuse(const std::string& why) const {
  throw UsageError("policy plug-in " + file_ + ": " + why);
}

PluginLibrary::PluginLibrary(const std::filesystem::path& file) : file_(file.string()) {
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) refuse("no such file; give the path of a .so");
  if (!std::filesystem::is_regular_file(file, failed)) refuse("not a file; give the path of a .so");
  sha256_ = sha256_file_hex(file);
  // A path without a slash would be looked for in the system's folders.
  handle_.reset(::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle_ == nullptr) {
    const char* why = ::dlerror();
    refuse("cannot be loaded (" + std::string(why == nullptr ? "no reason given" : why) +
           "); build it as a shared object for this machine");
  }
  const auto function = [&](const char* name) {
    void* address = ::dlsym(handle_.get(), name);
    if (address == nullptr)
      refuse("exports no " + std::string(name) + "; see kvscope_policy_plugin.h");
    return address;
  };
  const auto version = reinterpret_cast<decltype(&kvscope_policy_abi_version)>(
      function("kvscope_policy_abi_version"));
  const auto entry =
      reinterpret_cast<decltype(&kvscope_policy_plugin)>(function("kvscope_policy_plugin"));
  if (const std::int32_t built_for = version(); built_for != KVSCOPE_POLICY_ABI_VERSION) {
    refuse("built for version " + std::to_string(built_for) +
           " of the plug-in interface, this "
           "program has version " +
           std::to_string(KVSCOPE_POLICY_ABI_VERSION) +
           "; build it again with this program's kvscope_policy_plugin.h");
  }
  policy_ = entry();
  if (policy_ == nullptr) refuse("kvscope_policy_plugin returned no policy");
  check_policy();
  read_params();
}

void PluginLibrary::check_policy() const {
  const kvscope_policy& p = *policy_;
  if (p.name == nullptr || !is_name(p.name)) {
    refuse("its name \"" + std::string(p.name == nullptr ? "" : p.name) +
           "\" is none; use small letters, digits and _, a letter first");
  }
  if (p.summary == nullptr) refuse("it has no summary; say in one sentence what stays");
  constexpr unsigned kNeeds = KVSCOPE_NEEDS_PROBABILITIES | KVSCOPE_NEEDS_KEYS |
                              KVSCOPE_NEEDS_VALUES | KVSCOPE_NEEDS_QUERIES;
  if ((p.needs & ~kNeeds) != 0) refuse("needs has unknown bits; use KVSCOPE_NEEDS_…");
  if (p.scope != KVSCOPE_SCOPE_HEAD && p.scope != KVSCOPE_SCOPE_LAYER)
    refuse("scope " + std::to_string(p.scope) + " is unknown; use KVSCOPE_SCOPE_…");
  if (p.slot_state_bytes < 0 || p.slot_state_bytes > kMostSlotBytes) {
    refuse("slot_state_bytes " + std::to_string(p.slot_state_bytes) +
           " is out of range; say 0 to " + std::to_string(kMostSlotBytes));
  }
  const auto need = [&](const char* name, bool there) {
    if (!there) refuse("its function " + std::string(name) + " is null; all six must be there");
  };
  need("create", p.create != nullptr);
  need("clone", p.clone != nullptr);
  need("destroy", p.destroy != nullptr);
  need("observe", p.observe != nullptr);
  need("select", p.select != nullptr);
  need("compact", p.compact != nullptr);
}

void PluginLibrary::read_params() {
  const int n = policy_->n_params;
  if (n < 0 || n > kMostParams || (n > 0 && policy_->params == nullptr))
    refuse("n_params " + std::to_string(n) + " is not the number of its params");
  texts_.reserve(2 * static_cast<std::size_t>(n));  // params_ point into it
  for (int i = 0; i < n; ++i) {
    const kvscope_param& param = policy_->params[i];
    const std::string what = "parameter " + std::to_string(i);
    if (param.name == nullptr || param.fallback == nullptr || param.values == nullptr)
      refuse(what + " lacks its name, default or values");
    if (!is_name(param.name)) {
      refuse(what + ": its name \"" + param.name +
             "\" is none; use small letters, digits and _, a letter first");
    }
    const auto same = [&](const ParamInfo& other) { return other.name == param.name; };
    if (std::ranges::any_of(common_params(), same) || std::string_view(param.name) == kPluginSha256)
      refuse(what + ": " + param.name + " is a key of every policy; give it another name");
    if (std::ranges::any_of(params_, same)) refuse(what + ": " + param.name + " is declared twice");
    const std::string& values = texts_.emplace_back(with_ellipsis(param.values));
    const ParamInfo info{param.name, param.fallback, values};
    const std::string& fallback = texts_.emplace_back(
        checked_value("policy plug-in " + file_ + ": the default ", info, param.fallback));
    params_.push_back({param.name, fallback, values});
  }
}

}  // namespace kvscope
