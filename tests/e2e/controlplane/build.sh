#!/usr/bin/env bash
# Build a real Kubernetes control plane from its source modules: etcd, kube-apiserver,
# kube-controller-manager, kube-scheduler, kubectl and kwok (nodes without a kubelet).
# Usage: build.sh BIN_DIR. Go's own build cache makes a repetition take seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:?usage: build.sh BIN_DIR}
command -v go >/dev/null || {
  echo "the control plane is built from source: install Go 1.26 or newer, or point KUBECONFIG at a cluster" >&2
  exit 3
}
mkdir -p "$bin"; bin=$(cd "$bin" && pwd)
k8s=v1.37.2
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false" GOTOOLCHAIN=local

build() { # module-folder package...
  local dir=$1; shift
  local missing=() pkg
  for pkg in "$@"; do [ -x "$bin/$(basename "$pkg")" ] || missing+=("$pkg"); done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "building ${missing[*]}" >&2
  # Into a folder beside it and then moved, so that a build cut short leaves no half binary behind.
  local tmp; tmp=$(mktemp -d "$bin/.build.XXXXXX")
  (cd "$here/$dir" && go build -ldflags "$ldflags" -o "$tmp/" "${missing[@]}")
  mv "$tmp"/* "$bin/"; rmdir "$tmp"
}

ldflags="-s -w"
build etcd go.etcd.io/etcd/server/v3
[ -e "$bin/etcd" ] || { [ -e "$bin/v3" ] && ln -s v3 "$bin/etcd"; } || true
ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$k8s -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
build kubernetes k8s.io/kubernetes/cmd/kubectl k8s.io/kubernetes/cmd/kube-apiserver \
  k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler
ldflags="-s -w"
build kwok sigs.k8s.io/kwok/cmd/kwok
