/* A default that is not among its values. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }
const kvscope_policy* kvscope_policy_plugin(void) {
  static kvscope_policy policy;
  static const kvscope_param params[] = {{"window", "9", "1..8"}};
  policy = stub_policy("bad_default");
  policy.params = params;
  policy.n_params = 1;
  return &policy;
}
