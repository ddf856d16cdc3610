# Configuring and building; sourced after common.sh.

jobs() { nproc 2>/dev/null || echo 2; }

# quietly LOG COMMAND…: the output goes to LOG and is shown only if the command fails.
quietly() {
  local log="$1"
  shift
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    die "failed: $*" 70
  fi
}

# find_nvcc: false without one. Where the toolkit's own place has it and the path does not, CMake is told.
find_nvcc() {
  if [[ -n "${CUDACXX:-}" ]] || command -v nvcc >/dev/null; then return 0; fi
  [[ -x /usr/local/cuda/bin/nvcc ]] && export CUDACXX=/usr/local/cuda/bin/nvcc
}

# build_program: build/release/kvscope and nothing else. A folder that is configured already stays so. The CUDA backend
# takes minutes to compile: without a device it is left out, unless KVSCOPE_CUDA=ON asks for it.
build_program() {
  mkdir -p build
  local cuda=OFF
  if [[ -e /dev/nvidiactl ]]; then cuda=AUTO; fi
  local options=(-DKVSCOPE_TESTS=OFF "-DKVSCOPE_CUDA=${KVSCOPE_CUDA:-$cuda}")
  if [[ -f build/release/CMakeCache.txt ]]; then options=(); fi
  find_nvcc || true
  quietly build/configure.log cmake --preset release "${options[@]}"
  cmake --build --preset release --target kvscope -j "$(jobs)" >&2 || die "the build failed" 70
}

# build_preset NAME [TARGET…]: configures with tests and configure_options and builds the targets (default: everything).
configure_options=()
build_preset() {
  local preset="$1"
  shift
  mkdir -p build
  quietly "build/configure-$preset.log" cmake --preset "$preset" -DKVSCOPE_TESTS=ON "${configure_options[@]}"
  cmake --build --preset "$preset" -j "$(jobs)" ${1:+--target "$@"} >&2
}
