# Debian packages that the scripts need; sourced after common.sh.
# ocl-icd-opencl-dev: the CMake configuration of libdnnl-dev asks for it, the package only recommends it.

build_packages=(g++ cmake make pkg-config libdnnl-dev ocl-icd-opencl-dev libpcre2-dev libsqlite3-dev prometheus-cpp-dev
  libcli11-dev nlohmann-json3-dev libhwy-dev libssl-dev libboost-math-dev zlib1g-dev
  libutf8proc-dev libsentencepiece-dev)
model_packages=(python3-pip unzip)
text_packages=(golang-github-pierrec-lz4-dev golang-github-andybalholm-brotli-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev sqlite3 python3)

# Prints those of its arguments that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    if [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      echo "$package"
    fi
  done
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root for: $*; become root or install sudo" 74
  fi
}

apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2; }

# Installs what is missing of its arguments and says so; does nothing else. Package lists are only fetched where the
# present ones do not do.
need_packages() {
  command -v dpkg-query >/dev/null || {
    say "no dpkg here: not Debian. Continuing; see README.md for what is needed"
    return 0
  }
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  say "installing: ${missing[*]}"
  if ! apt_install "${missing[@]}" 2>/dev/null; then
    as_root apt-get update >&2 || die "apt-get update failed: check the network and the package sources" 74
    apt_install "${missing[@]}" || die "could not install: ${missing[*]}" 74
  fi
}

# promtool checks what we export. Only that program is taken out of its package: installing it would start a server.
# Prints the folder to put on the PATH; nothing if there is none to be had (the test then says that it skips).
promtool_folder() {
  local tools="$cache_folder/tools" work
  if command -v promtool >/dev/null; then
    dirname "$(command -v promtool)"
    return 0
  fi
  if [[ ! -x "$tools/promtool" ]]; then
    mkdir -p "$tools"
    work="$(mktemp -d "$tools/fetch.XXXXXX")"
    say "fetching promtool (Debian package prometheus) into $tools"
    if (cd "$work" && { apt-get download -qq prometheus || { as_root apt-get update && apt-get download -qq prometheus; }; } &&
      dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool) >&2; then
      mv "$work/usr/bin/promtool" "$tools/promtool"
    fi
    rm -rf "$work"
  fi
  [[ ! -x "$tools/promtool" ]] || echo "$tools"
}
