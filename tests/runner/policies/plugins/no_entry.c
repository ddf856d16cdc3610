/* Exports its version and nothing else. */
#include "plugin_stub.h"

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }
