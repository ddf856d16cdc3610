/* A null function. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }
const kvscope_policy* kvscope_policy_plugin(void) {
  static kvscope_policy policy;
  policy = stub_policy("no_select");
  policy.select = NULL;
  return &policy;
}
