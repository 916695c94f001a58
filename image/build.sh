#!/usr/bin/env bash
# Builds the static binary for the image and prints its path.
#
#   PROFILE   release (default), or dev: quick to build, for checks
#   TARGET    x86_64-unknown-linux-musl or aarch64-unknown-linux-musl; default: this machine's processor
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. image/common.sh

target=$(target)
architecture >/dev/null
profile=${PROFILE:-release}
need cargo "install Rust 1.89 or newer: https://rustup.rs"
library=$(rustc --print target-libdir --target "$target")
[ -d "$library" ] || fail "Rust's library for $target is missing: rustup target add $target"
# ring and mimalloc are C.
compiler=CC_${target//-/_}
[ -n "${!compiler:-}" ] || command -v "${target%%-*}-linux-musl-gcc" >/dev/null ||
  { [ "${target%%-*}" = "$(uname -m)" ] && command -v musl-gcc >/dev/null; } ||
  fail "a C compiler for $target is missing: install musl-tools (Debian, Ubuntu) on such a machine, or name one by $compiler"

# No path of the machine that builds it is left in the binary, nor the time, so that two machines build the same.
home=${CARGO_HOME:-$HOME/.cargo}
output=${CARGO_TARGET_DIR:-$PWD/target}
export RUSTFLAGS="--remap-path-prefix=$home=/cargo --remap-path-prefix=$output=/target --remap-path-prefix=$PWD=/plimsoll"
flags="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$output=/target -ffile-prefix-map=$PWD=/plimsoll"
# mimalloc tells when it was compiled. SOURCE_DATE_EPOCH would do, but what builds C for the build itself would be compiled
# anew for it, here and in the next build without it.
flags+=' -Wno-builtin-macro-redefined -D__DATE__="0" -D__TIME__="0"'
export "CFLAGS_${target//-/_}=$flags"
unset SOURCE_DATE_EPOCH
# The profile `dev` as it is elsewhere shares what runs at build time with the other builds; lines of code are of no use here.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_STRIP=symbols CARGO_INCREMENTAL=0

cargo build --locked --package plimsoll --bin plimsoll --target "$target" --profile "$profile" >&2
case $profile in
  dev | test) folder=debug ;;
  bench) folder=release ;;
  *) folder=$profile ;;
esac
echo "$output/$target/$folder/plimsoll"
