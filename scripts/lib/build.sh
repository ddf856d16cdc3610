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

# build_program: build/release/kvscope and nothing else. A folder that is configured with tests stays so.
build_program() {
  mkdir -p build
  local tests=(-DKVSCOPE_TESTS=OFF)
  if [[ -f build/release/CMakeCache.txt ]]; then tests=(); fi
  quietly build/configure.log cmake --preset release "${tests[@]}"
  cmake --build --preset release --target kvscope -j "$(jobs)" >&2 || die "the build failed" 70
}

# build_preset NAME [TARGET…]: configures with tests and builds the targets (default: everything).
build_preset() {
  local preset="$1"
  shift
  mkdir -p build
  quietly "build/configure-$preset.log" cmake --preset "$preset" -DKVSCOPE_TESTS=ON
  cmake --build --preset "$preset" -j "$(jobs)" ${1:+--target "$@"} >&2
}
