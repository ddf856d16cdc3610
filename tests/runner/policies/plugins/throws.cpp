// A C++ plug-in whose exceptions escape.
#include <stdexcept>

#include "plugin_stub.h"

namespace {

std::int32_t select_slots(const void*, const kvscope_slots*, std::int32_t, std::int32_t*,
                          std::int32_t) {
  throw std::runtime_error("no idea who stays");
}

}  // namespace

std::int32_t kvscope_policy_abi_version() { return KVSCOPE_POLICY_ABI_VERSION; }

const kvscope_policy* kvscope_policy_plugin() {
  static kvscope_policy policy;
  policy = stub_policy("throws");
  policy.select = select_slots;
  return &policy;
}
