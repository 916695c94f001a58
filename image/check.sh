#!/usr/bin/env bash
# Makes the image and checks what is in it, without a container engine.
#
# The program is run with an empty environment and the image's files as its root, by `chroot` as root, else by `unshare`.
# PROFILE=dev (the default here) is quick to build; PROFILE=release checks what is shipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. image/common.sh
export PROFILE=${PROFILE:-dev}

need readelf "install binutils"
need curl "install curl"
need jq "install jq"
target=$(target)
case $target in
  "$(uname -m)"-*) ;;
  *) fail "TARGET=$target cannot be run here, and so not be checked: this machine is $(uname -m)" ;;
esac

passed=0
# check WHAT COMMAND...: one line about what holds; the first thing that does not hold ends it.
check() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || fail "image: not so: $what
$said"
  echo "image: $what"
  passed=$((passed + 1))
}

work=$(mktemp -d)
server=
end() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT

# --- Made twice, from two folders, with another umask: the same bytes.
began=$SECONDS
binary=$(image/build.sh)
echo "image: built with PROFILE=$PROFILE for $target in $((SECONDS - began)) s"
image/rootfs.sh "$work/one" "$binary"
digest=$(image/oci.sh "$work/one" "$work/one.tar")
(umask 077 && image/rootfs.sh "$work/two" "$binary" && image/oci.sh "$work/two" "$work/two.tar" > /dev/null)
check "made twice it is the same ($digest)" cmp "$work/one.tar" "$work/two.tar"

# --- The image: what it says of itself, and that every blob is what its name says.
mkdir "$work/layout" "$work/tree"
tar --extract --directory "$work/layout" --file "$work/one.tar"
blobs() {
  local blob
  for blob in "$work"/layout/blobs/sha256/*; do
    [ "$(sha256sum "$blob" | cut -c1-64)" = "$(basename "$blob")" ] || fail "$blob is not what its name says"
  done
}
check "every blob is what its name says" blobs
blob() { echo "$work/layout/blobs/$(sed s,:,/, <<< "$1")"; }
manifest=$(blob "$(jq -r '.manifests[0].digest' "$work/layout/index.json")")
config=$(blob "$(jq -r .config.digest "$manifest")")
layer=$(blob "$(jq -r '.layers[0].digest' "$manifest")")
check "it runs /plimsoll, not as root" jq -e \
  '.config.User == "65532:65532" and .config.Entrypoint == ["/plimsoll"] and (.config.Env | not)' "$config"
check "its layer is the one that the configuration names" test \
  "sha256:$(gzip -dc "$layer" | sha256sum | cut -c1-64)" = "$(jq -r '.rootfs.diff_ids[0]' "$config")"
# The Containerfile says the same in its own words.
labels() { jq -r '.config.Labels | to_entries[] | select(.key | test("version|revision") | not) | "\(.key)=\"\(.value)\""' "$config"; }
containerfile() {
  local label
  while read -r label; do grep -qF -- "$label" Containerfile || fail "$label"; done < <(labels)
  grep -qx 'USER 65532:65532' Containerfile && grep -qFx 'ENTRYPOINT ["/plimsoll"]' Containerfile
  grep -qx "ARG VERSION=$(version)" Containerfile || fail "VERSION is not $(version)"
}
check "the Containerfile says the same" containerfile
check "every engine leaves the same files out" cmp .containerignore .dockerignore

# --- The files: these and no others, all root's, none writable by others.
tar --list --verbose --numeric-owner --gzip --file "$layer" | awk '{ print $1, $2, $6 }' > "$work/files"
cat > "$work/expected" <<'FILES'
drwxr-xr-x 0/0 etc/
drwxr-xr-x 0/0 etc/ssl/
drwxr-xr-x 0/0 etc/ssl/certs/
-rw-r--r-- 0/0 etc/ssl/certs/ca-certificates.crt
drwxr-xr-x 0/0 licenses/
-rw-r--r-- 0/0 licenses/LICENSE
-rw-r--r-- 0/0 licenses/plimsoll.cdx.json
-rw-r--r-- 0/0 licenses/third-party.txt
-rwxr-xr-x 0/0 plimsoll
FILES
check "it has the expected files, owner and modes" diff "$work/expected" "$work/files"
tar --extract --gzip --directory "$work/tree" --file "$layer"

# --- The binary: static, and silent about the machine that built it.
program=$work/tree/plimsoll
static() {
  ! readelf --wide --program-headers "$program" | grep -w INTERP || fail "it asks for a program interpreter"
  ! readelf --wide --dynamic "$program" | grep NEEDED || fail "it needs shared libraries"
}
check "the binary is static" static
no_paths() {
  local place
  for place in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "${CARGO_TARGET_DIR:-$PWD/target}"; do
    ! grep --text --only-matching --fixed-strings --max-count=3 -- "$place/" "$program" || fail "it names $place"
  done
}
check "it names no folder of this machine" no_paths

# --- The lists of what is in it.
sbom=$work/tree/licenses/plimsoll.cdx.json
check "the bill of materials is CycloneDX with a licence for each component" jq -e '
  .bomFormat == "CycloneDX" and (.components | length) > 100
  and all(.components[]; .name and .version and .licenses[0].expression and .licenses[0].expression != "NOASSERTION")
  and ([.components[]["bom-ref"]] | length == (unique | length))' "$sbom"
check "every reference in it leads somewhere" jq -e '
  [.components[]["bom-ref"], .metadata.component["bom-ref"]] as $known
  | all(.dependencies[] | .ref, .dependsOn[]; IN($known[]))' "$sbom"
for crate in kube rustls ring mimalloc plimsoll-core; do
  check "it lists $crate, which is in the binary" jq -e --arg name "$crate" 'any(.components[]; .name == $name)' "$sbom"
done
for crate in criterion proptest insta serde_derive cc; do
  check "it does not list $crate, which only builds or tests it" jq -e --arg name "$crate" 'all(.components[]; .name != $name)' "$sbom"
done

# --- It runs, with nothing around it.
mkdir --mode=0755 "$work/tree/check"
cp -R examples/standalone "$work/tree/check/objects"
mkdir --mode=1777 "$work/tree/check/out"
cat > "$work/tree/check/config.yaml" <<'YAML'
server: {address: "127.0.0.1:0", drainDelay: 0s}
probes: {address: "127.0.0.1:0"}
api: {address: ""}
YAML
chmod -R a+rX "$work/tree/check"
chmod 0755 "$work" "$work/tree"
if [ "$(id -u)" = 0 ] && chroot --userspec=65532:65532 "$work/tree" /plimsoll --version > /dev/null 2>&1; then
  inside=(env -i "$(command -v chroot)" --userspec=65532:65532 "$work/tree" /plimsoll)
  as="as 65532:65532"
elif unshare --map-root-user "$(command -v chroot)" "$work/tree" /plimsoll --version > /dev/null 2>&1; then
  inside=(env -i "$(command -v unshare)" --map-root-user "$(command -v chroot)" "$work/tree" /plimsoll)
  as="in a namespace"
else
  fail "the program cannot be run with the image as its root: run this as root (chroot), or allow user namespaces (unshare --map-root-user)"
fi
says_version() { [ "$("${inside[@]}" --version)" = "plimsoll $(version)" ]; }
check "it runs $as with an empty environment and tells its version" says_version
check "config check" "${inside[@]}" --config /check/config.yaml config check
check "serve --help" "${inside[@]}" serve --help

"${inside[@]}" --config /check/config.yaml serve --standalone /check/objects --ca-file /check/out/ca.crt \
  --ports-file /check/out/ports.json > "$work/log" 2>&1 < /dev/null &
server=$!
for _ in $(seq 300); do
  [ ! -s "$work/tree/check/out/ports.json" ] || break
  kill -0 "$server" 2>/dev/null || fail "image: the server ended: $(cat "$work/log")"
  sleep 0.1
done
[ -s "$work/tree/check/out/ports.json" ] || fail "image: the server is not ready after 30 s: $(cat "$work/log")"
port() { jq -r --arg of "$1" '.[$of] | split(":") | last' "$work/tree/check/out/ports.json"; }
ask() { curl --silent --show-error --fail --noproxy '*' --max-time 10 "$@"; }
check "the server is ready" ask "http://127.0.0.1:$(port probes)/readyz"
cat > "$work/review.json" <<'JSON'
{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
  "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "namespace": "NAMESPACE", "name": "web",
  "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
  "userInfo": {"username": "image-check"}, "dryRun": false, "oldObject": null,
  "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "NAMESPACE"},
    "spec": {"containers": [{"name": "app", "image": "web", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}}}}
JSON
namespace=$(sed -n 's/^  name: //p' examples/standalone/namespace.yaml)
sed -i "s/NAMESPACE/$namespace/g" "$work/review.json"
reviewed() {
  ask --cacert "$work/tree/check/out/ca.crt" --header 'Content-Type: application/json' --data-binary "@$work/review.json" \
    --connect-to "localhost:443:127.0.0.1:$(port admission)" https://localhost/mutate?timeout=3s > "$work/answer.json"
  jq -e '.response.allowed and (.response.patch | @base64d | fromjson | any(.[]; .path | test("requests")))' "$work/answer.json"
}
check "over TLS it lowers a pod" reviewed
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
check "SIGTERM ends it with 0" test "$status" = 0

echo "image: binary $(( $(stat -c %s "$program") / 1024 )) KiB, compressed image $(( $(stat -c %s "$layer") / 1024 )) KiB (PROFILE=$PROFILE)"
echo "image: $passed checks passed"
