/* A parameter that every policy has. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }
const kvscope_policy* kvscope_policy_plugin(void) {
  static kvscope_policy policy;
  static const kvscope_param params[] = {{"decode", "1", "0.."}};
  policy = stub_policy("common_key");
  policy.params = params;
  policy.n_params = 1;
  return &policy;
}
