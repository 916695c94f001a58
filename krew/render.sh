#!/bin/sh
# Prints the krew manifest of a release: krew/render.sh VERSION FOLDER, where FOLDER has the release's archives
# kubectl-plimsoll-OS-ARCH.tar.gz. Fails when one is missing.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: krew/render.sh VERSION FOLDER, as in krew/render.sh 0.1.0 dist" >&2
  exit 2
fi
version=${1#v}
folder=$2
case "$version" in
  *[!0-9A-Za-z.-]* | "") echo "$1 is no version, as 0.1.0" >&2; exit 2 ;;
esac
script="s/{{VERSION}}/$version/g"
for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
  archive=$folder/kubectl-plimsoll-$platform.tar.gz
  if [ ! -f "$archive" ]; then
    echo "$archive is missing" >&2
    exit 1
  fi
  sum=$(sha256sum "$archive" | cut -d ' ' -f 1)
  name=$(echo "$platform" | tr 'a-z-' 'A-Z_')
  script="$script;s/{{SHA256_$name}}/$sum/"
done
sed "$script" "$(dirname "$0")/plimsoll.yaml"
