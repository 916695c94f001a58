# What the scripts of this folder share; sourced, with `set -euo pipefail` and the root of the repository as the folder.

fail() { echo "$*" >&2; exit 1; }

# need PROGRAM HOW: stops with how to get a program that is not there.
need() { command -v "$1" >/dev/null || fail "$1 is missing: $2"; }

# The triple that the image's binary is built for: static, for this machine's processor unless TARGET says another.
target() {
  local processor; processor=$(uname -m)
  echo "${TARGET:-${processor/arm64/aarch64}-unknown-linux-musl}"
}

# The processor as images name it.
architecture() {
  case $(target) in
    x86_64-*) echo amd64 ;;
    aarch64-*) echo arm64 ;;
    *) fail "TARGET=$(target): images are built for x86_64-unknown-linux-musl and aarch64-unknown-linux-musl" ;;
  esac
}

# The time that everything in the image has: that of the commit, so that who builds it again gets the same bytes.
epoch() {
  echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
}

# The commit, if it can be told.
revision() {
  echo "${REVISION:-$(git rev-parse HEAD 2>/dev/null || true)}"
}

version() {
  sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml
}
