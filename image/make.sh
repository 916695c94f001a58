#!/usr/bin/env bash
# What `make image` does: the root filesystem in target/image/rootfs, and the image in target/image/plimsoll-VERSION-ARCHITECTURE.tar.
# The variables are those of image/build.sh, image/rootfs.sh and image/oci.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. image/common.sh

folder=${CARGO_TARGET_DIR:-target}/image
rm -rf "$folder/rootfs"
image/rootfs.sh "$folder/rootfs"
archive=$folder/plimsoll-$(version)-$(architecture).tar
digest=$(image/oci.sh "$folder/rootfs" "$archive")
echo "$archive ($(( $(stat -c %s "$archive") / 1024 )) KiB), $digest"
