#!/usr/bin/env bash
# Lists what is in the binary, and nothing else: no crate that only builds or tests it.
#
#   image/sbom.sh FOLDER    writes FOLDER/plimsoll.cdx.json (CycloneDX 1.5) and FOLDER/third-party.txt (licences and their texts)
#
# TARGET is as for image/build.sh. Cargo.lock decides, so the lists are those of the commit and not of the day.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. image/common.sh

out=${1:?"usage: image/sbom.sh FOLDER"}
need cargo "install Rust 1.89 or newer: https://rustup.rs"
need jq "install jq"
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# One order everywhere.
export LC_ALL=C

# Names and versions of what is linked: normal dependencies with the features that are on, without procedural macros.
cargo tree --locked --package plimsoll --target "$(target)" --edges normal,no-proc-macro --prefix none --format '{p}' |
  awk '{ print $1 "@" substr($2, 2) }' | sort -u > "$scratch/linked"
cargo metadata --locked --format-version 1 --filter-platform "$(target)" > "$scratch/metadata.json"
# name@version checksum
awk -F'"' '/^name = /{ name = $2 } /^version = /{ version = $2 } /^checksum = /{ print name "@" version " " $2 }' \
  Cargo.lock > "$scratch/checksums"

rust=$(rustc --version | awk '{ print $2 }')
jq --sort-keys --rawfile linked "$scratch/linked" --rawfile checksums "$scratch/checksums" \
  --arg time "$(TZ=UTC date -u -d "@$(epoch)" +%Y-%m-%dT%H:%M:%SZ)" --arg rust "$rust" --arg target "$(target)" '
  ($linked | split("\n") | map(select(. != "") | {(.): true}) | add) as $linked
  | ($checksums | split("\n") | map(select(. != "") | split(" ") | {(.[0]): .[1]}) | add) as $checksums
  | def key: "\(.name)@\(.version)";
  def purl: "pkg:cargo/" + key;
  # The old way of writing a choice.
  def expression: (.license // "NOASSERTION") | gsub(" ?/ ?"; " OR ");
  def component: {
      type: "library", "bom-ref": purl, purl: purl, name, version,
      description: ((.description // "") | gsub("\\s+"; " ") | ltrimstr(" ") | rtrimstr(" ")),
      licenses: [{expression: expression}],
      hashes: [$checksums[key] // empty | {alg: "SHA-256", content: .}],
      externalReferences: [.repository // empty | {type: "vcs", url: .}],
    } | with_entries(select(.value != [] and .value != ""));
  [.packages[] | select($linked[key])] as $packages
  | ($packages | map({(.id): purl}) | add) as $purls
  | ($packages[] | select(.name == "plimsoll")) as $root
  | {
      bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
      metadata: {
        timestamp: $time,
        component: ($root | component + {type: "application"}),
        properties: [{name: "rust:target", value: $target}],
      },
      components: ([$packages[] | select(.name != "plimsoll") | component] + [
        {type: "library", "bom-ref": "rust-std", name: "rust-std", version: $rust, description: "The standard library of Rust",
          licenses: [{expression: "MIT OR Apache-2.0"}]},
        {type: "library", "bom-ref": "musl", name: "musl", version: "as shipped with Rust \($rust)", description: "The C library",
          licenses: [{expression: "MIT"}]}
      ] | sort_by(.["bom-ref"])),
      dependencies: [.resolve.nodes[] | select($purls[.id]) | {
          ref: $purls[.id],
          dependsOn: ([.deps[] | select(any(.dep_kinds[]; .kind == null)) | $purls[.pkg] // empty] | unique),
        }] | sort_by(.ref),
    }' "$scratch/metadata.json" > "$out/plimsoll.cdx.json"

# Licence texts lie in the crates. The same text is shown once, with all that it is of.
jq --raw-output '.packages[] | select(.source) | "\(.name)@\(.version) \(.manifest_path)"' "$scratch/metadata.json" |
  sort | join - "$scratch/linked" | while read -r crate manifest; do
    folder=$(dirname "$manifest")
    # Those of C sources that a crate brings along too.
    find "$folder" -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' -o -iname unlicense \) \
      -not -name '*.rs' -not -path '*/tests/*' -not -path '*/examples/*' -size +0 | sort | while read -r file; do
        tr -d '\r' < "$file" > "$scratch/text"
        sum=$(sha256sum < "$scratch/text" | cut -c1-64)
        cp "$scratch/text" "$scratch/text.$sum"
        echo "$sum $crate ${file#"$folder"/}"
      done
  done > "$scratch/texts"

{
  echo "Plimsoll is under the licence that lies beside this file (LICENSE). The binary has in it what is listed here."
  echo "A crate that offers a choice is used under Apache-2.0 where that is among it, else under MIT."
  echo
  jq --raw-output '.components[] | "\(.name) \(.version): \(.licenses[0].expression)"' "$out/plimsoll.cdx.json"
  cut -d' ' -f1 "$scratch/texts" | sort -u | while read -r sum; do
    echo "$(grep "^$sum " "$scratch/texts" | head -n1 | cut -d' ' -f2) $sum"
  done | sort | while read -r _ sum; do
    printf '\n%s\n' "================================================================================"
    grep "^$sum " "$scratch/texts" | cut -d' ' -f2,3
    echo "--------------------------------------------------------------------------------"
    cat "$scratch/text.$sum"
  done
  for file in image/licences/*.txt; do
    printf '\n%s\n' "================================================================================"
    cat "$file"
  done
} > "$out/third-party.txt"

# A crate without a text of its own must be under the licence whose text is ours.
awk '{ print $2 }' "$scratch/texts" | sort -u > "$scratch/with-text"
jq --raw-output '.components[] | select(.purl) | "\(.name)@\(.version) \(.licenses[0].expression)"' "$out/plimsoll.cdx.json" |
  sort | join -v1 - "$scratch/with-text" | while read -r crate licence; do
    case $licence in
      *Apache-2.0*) ;;
      *) fail "$crate ($licence) has no text of its licence: put one into image/licences" ;;
    esac
  done
