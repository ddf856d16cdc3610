# Shared by the scripts; sourced, not run. Expects `set -euo pipefail`.
# Leaves the caller in the project's root.

script_name="$(basename "$0")"
start_folder="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

say() { printf '%s: %s\n' "$script_name" "$*" >&2; }
die() {
  say "$1"
  exit "${2:-70}"
}

cache_folder="${XDG_CACHE_HOME:-$HOME/.cache}/kvscope"
text_folder="$cache_folder/texts"
