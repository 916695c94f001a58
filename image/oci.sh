#!/usr/bin/env bash
# Packs a root filesystem as an image, with tar, gzip, sha256sum and jq: no container engine is needed. Prints the digest.
#
#   image/oci.sh FOLDER FILE    FOLDER is what image/rootfs.sh made; FILE becomes an OCI layout in a tar,
#                               which `podman load`, `docker load` and `skopeo copy oci-archive:FILE` take
#
#   NAME   the image's name; default: plimsoll
# The same folder gives the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. image/common.sh

rootfs=${1:?"usage: image/oci.sh FOLDER FILE"}
out=${2:?"usage: image/oci.sh FOLDER FILE"}
need jq "install jq"
layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT
export LC_ALL=C
epoch=$(epoch)
created=$(TZ=UTC date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
version=$(version)
mkdir -p "$layout/blobs/sha256"

# pack FOLDER: a tar that depends on names, modes and contents only. Everything belongs to root, so that the user whom
# the program runs as can change nothing.
pack() {
  tar --create --directory "$1" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$epoch" \
    --mode='u+rwX,go+rX,go-w' --no-recursion --files-from <(cd "$1" && find . -mindepth 1 -printf '%P\n' | sort)
}

digest() { sha256sum "$1" | cut -c1-64; }

# blob FILE: moves it to where its digest says, and prints that.
blob() {
  local sum; sum=$(digest "$1")
  mv "$1" "$layout/blobs/sha256/$sum"
  echo "$sum"
}

# described MEDIA_TYPE DIGEST: how OCI refers to a blob.
described() {
  jq --null-input --compact-output --arg type "$1" --arg digest "sha256:$2" \
    --argjson size "$(stat -c %s "$layout/blobs/sha256/$2")" '{mediaType: $type, digest: $digest, size: $size}'
}

pack "$rootfs" > "$layout/layer"
uncompressed=$(digest "$layout/layer")
gzip --no-name -9 "$layout/layer"
layer=$(blob "$layout/layer.gz")

jq --null-input --compact-output --sort-keys --arg created "$created" --arg architecture "$(architecture)" \
  --arg version "$version" --arg revision "$(revision)" --arg diff "sha256:$uncompressed" '{
    created: $created, architecture: $architecture, os: "linux",
    config: {
      User: "65532:65532", Entrypoint: ["/plimsoll"], WorkingDir: "/",
      Labels: ({
        "org.opencontainers.image.title": "plimsoll",
        "org.opencontainers.image.description": "A Kubernetes admission server that lowers what pods request to what they need",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": "https://github.com/plimsoll-dev/plimsoll",
        "org.opencontainers.image.documentation": "https://github.com/plimsoll-dev/plimsoll/blob/main/docs/README.md",
        "org.opencontainers.image.version": $version,
        "org.opencontainers.image.revision": $revision,
      } | with_entries(select(.value != ""))),
    },
    rootfs: {type: "layers", diff_ids: [$diff]},
    history: [{created: $created, created_by: "image/rootfs.sh"}],
  }' > "$layout/config"
config=$(blob "$layout/config")

jq --null-input --compact-output --sort-keys \
  --argjson config "$(described application/vnd.oci.image.config.v1+json "$config")" \
  --argjson layer "$(described application/vnd.oci.image.layer.v1.tar+gzip "$layer")" \
  '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]}' > "$layout/manifest"
manifest=$(blob "$layout/manifest")

name=${NAME:-plimsoll}:v$version
jq --null-input --compact-output --sort-keys --arg name "$name" --arg tag "v$version" --arg architecture "$(architecture)" \
  --argjson manifest "$(described application/vnd.oci.image.manifest.v1+json "$manifest")" '{
    schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [$manifest + {
      platform: {os: "linux", architecture: $architecture},
      annotations: {"org.opencontainers.image.ref.name": $tag, "io.containerd.image.name": $name},
    }],
  }' > "$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' > "$layout/oci-layout"
# For engines that do not read the index.
jq --null-input --compact-output --arg config "blobs/sha256/$config" --arg layer "blobs/sha256/$layer" --arg name "$name" \
  '[{Config: $config, RepoTags: [$name], Layers: [$layer]}]' > "$layout/manifest.json"

mkdir -p "$(dirname "$out")"
pack "$layout" > "$out.part"
mv "$out.part" "$out"
echo "sha256:$manifest"
