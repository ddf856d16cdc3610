/* Built for an interface that this program does not have. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return 99; }
const kvscope_policy* kvscope_policy_plugin(void) {
  static kvscope_policy policy;
  policy = stub_policy("wrong_version");
  return &policy;
}
