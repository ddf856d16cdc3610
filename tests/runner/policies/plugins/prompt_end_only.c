/* Acts at the prompt's end only. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }
const kvscope_policy* kvscope_policy_plugin(void) {
  static kvscope_policy policy;
  policy = stub_policy("prompt_end_only");
  policy.acts_in_stream = 0;
  return &policy;
}
