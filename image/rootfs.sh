#!/usr/bin/env bash
# Assembles the image's root filesystem in a folder. The Containerfile and `make image` both do it by this script.
#
#   image/rootfs.sh FOLDER [BINARY]    without BINARY it is built first; FOLDER must not exist
#
#   CA_CERTIFICATES   the public authorities that HTTPS to Prometheus trusts where recommender.prometheus.caFile is not set;
#                     default: this machine's; empty: none, and that setting must be set
# Beside these, what image/build.sh takes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. image/common.sh

out=${1:?"usage: image/rootfs.sh FOLDER [BINARY]"}
[ ! -e "$out" ] || fail "$out exists already"
binary=${2:-$(image/build.sh)}
authorities=${CA_CERTIFICATES-/etc/ssl/certs/ca-certificates.crt}
[ -z "$authorities" ] || [ -s "$authorities" ] ||
  fail "$authorities is missing: install ca-certificates, name a file by CA_CERTIFICATES, or leave it out by CA_CERTIFICATES="

umask 022
mkdir -p "$out/licenses"
install -m 0755 "$binary" "$out/plimsoll"
install -m 0644 LICENSE "$out/licenses/LICENSE"
image/sbom.sh "$out/licenses"
if [ -n "$authorities" ]; then
  mkdir -p "$out/etc/ssl/certs"
  install -m 0644 "$authorities" "$out/etc/ssl/certs/ca-certificates.crt"
fi
find "$out" -exec touch --no-dereference --date="@$(epoch)" {} +
