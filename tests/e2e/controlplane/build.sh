#!/usr/bin/env bash
# A real Kubernetes control plane from its source modules: etcd, kube-apiserver, kube-controller-manager,
# kube-scheduler, kubectl and kwok (nodes that live without a kubelet), for the end-to-end tests.
#
#   build.sh [helm] [metrics-server] [prometheus]   build what is missing, with these if asked, print the folder
#   build.sh --dir                                  print the folder, build nothing
#
# The folder is target/controlplane/KEY; KEY changes with the versions, the go.mod and go.sum files and the flags, so
# that a changed dependency is never tested with an old binary. The first build takes about 15 minutes on two cores,
# with helm, metrics-server and Prometheus 27; afterwards Go's own build cache (which outlives a fresh clone) leaves only the
# linking.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
kubernetes=v1.37.2
need_go=1.26

# Go's cache is keyed by these flags too: change them and everything is compiled anew.
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOTOOLCHAIN=local GOWORK=off
strip="-s -w"
stamp="-X k8s.io/component-base/version.gitVersion=$kubernetes \
-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"

key() {
  { cat "$here"/{etcd,helm,kubernetes,kwok,metrics-server,prometheus}/go.{mod,sum}; echo "$strip $stamp"; } | sha256sum | cut -c1-12
}
bin=${CARGO_TARGET_DIR:-$root/target}/controlplane/$kubernetes-$(key)

fail() { echo "$*" >&2; exit 3; }

check_go() {
  command -v go >/dev/null ||
    fail "the control plane is built from source: install Go $need_go+ (https://go.dev/dl) or set KUBECONFIG"
  local have; have=$(go env GOVERSION); have=${have#go}
  [ "$(printf '%s\n' "$need_go" "$have" | sort -V | head -n1)" = "$need_go" ] ||
    fail "Go $have is too old for Kubernetes $kubernetes: install Go $need_go+ (https://go.dev/dl) or set KUBECONFIG"
}

# build MODULE_FOLDER PACKAGE NAME LDFLAGS [FLAG...]: go build PACKAGE into $bin/NAME, if it is not there yet.
build() {
  [ -x "$bin/$3" ] && return
  echo "building $3" >&2
  # Beside its place and then renamed: a build that is cut short leaves nothing that looks finished.
  (cd "$here/$1" && go build -ldflags "$4" "${@:5}" -o "$bin/$3.part" "$2")
  mv "$bin/$3.part" "$bin/$3"
}

# Kwok's rules for how nodes and pods come to life, from its own module, as one file.
stages() {
  [ -s "$bin/kwok-stages.yaml" ] && return
  local kwok file
  kwok=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize
  for file in "$kwok"/stage/node/fast/node-initialize.yaml "$kwok"/stage/pod/fast/*.yaml \
    "$kwok"/stage/node/heartbeat-with-lease/*.yaml "$kwok"/metrics/usage/usage-from-annotation.yaml \
    "$kwok"/metrics/resource/metrics-resource.yaml; do
    case $file in */kustomization.yaml) continue ;; esac
    echo "---"; cat "$file"; echo
  done > "$bin/kwok-stages.part"
  mv "$bin/kwok-stages.part" "$bin/kwok-stages.yaml"
}

if [ "$*" = --dir ]; then echo "$bin"; exit; fi
for more in "$@"; do
  case $more in
    helm | metrics-server | prometheus) ;;
    *) fail "usage: build.sh [--dir | [helm] [metrics-server] [prometheus]]" ;;
  esac
done

check_go
mkdir -p "$bin"
# One build at a time, where the system can say so (util-linux).
exec 9> "$bin/lock"
if command -v flock >/dev/null; then flock 9; fi
build etcd go.etcd.io/etcd/server/v3 etcd "$strip"
for name in kubectl kube-apiserver kube-controller-manager kube-scheduler; do
  build kubernetes "k8s.io/kubernetes/cmd/$name" "$name" "$strip $stamp"
done
build kwok sigs.k8s.io/kwok/cmd/kwok kwok "$strip"
stages
for more in "$@"; do
  case $more in
    helm) build helm helm.sh/helm/v4/cmd/helm helm "$strip" ;;
    metrics-server) build metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server metrics-server "$strip" ;;
    prometheus)
      # Without the finders of targets in clouds: their clients are most of what there is to compile.
      for name in prometheus promtool; do
        build prometheus "github.com/prometheus/prometheus/cmd/$name" "$name" "$strip" -tags remove_all_sd
      done
      ;;
  esac
done
echo "$bin"
