#!/usr/bin/env bash
# Writes the pages of HaulClient from a debug build: Tests/docs/docc.sh [DIRECTORY]. It needs no package, because docc
# is part of the toolchain. A dead link is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-.build/docs}
build=.build/debug
[ -e "$build/Modules/HaulClient.swiftmodule" ] || swift build --target HaulClient
graphs=$(mktemp -d)
trap 'rm -rf "$graphs"' EXIT
maps=()
for map in "$build/CHaulLinux.build/module.modulemap" "$build/CHaulLua.build/module.modulemap" Sources/CHiredis/module.modulemap Sources/COpenSSL/module.modulemap; do
    maps+=(-Xcc "-fmodule-map-file=$PWD/$map")
done
triple=$(swiftc -print-target-info | sed -n 's/.*"triple": "\([^"]*\)".*/\1/p' | head -1)
# Re-exported declarations are part of the library.
swift-symbolgraph-extract -module-name HaulClient -target "$triple" -I "$build/Modules" "${maps[@]}" \
    -minimum-access-level public -skip-synthesized-members -experimental-allowed-reexported-modules=HaulContract \
    -output-dir "$graphs"
docc convert Sources/HaulClient/HaulClient.docc --additional-symbol-graph-dir "$graphs" --warnings-as-errors \
    --fallback-display-name HaulClient --fallback-bundle-identifier haul.HaulClient --output-dir "$out"
echo "$out: $(find "$out/data" -name '*.json' | wc -l) pages"
