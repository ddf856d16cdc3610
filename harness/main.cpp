// kvscope: what does KV-cache eviction cost and save, on this model and this work?
// The subcommands are in harness/commands/program.cpp. Which CUDA backend there is, a real one or
// none, is decided where this file is linked.
#include "harness/commands/program.h"
#include "runner/backend/cuda/cuda_backend.h"

int main(int argc, char** argv) {
  return kvscope::run_kvscope(argc, argv, kvscope::cuda_support());
}
