/* Has nothing to offer. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }
const kvscope_policy* kvscope_policy_plugin(void) { return NULL; }
