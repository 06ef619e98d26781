#!/usr/bin/env bash
# Builds a package that depends on HaulClient by path, in a temporary directory, and checks what was compiled: no
# worker, no downloader, and no package of the command.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" Package.resolved' EXIT
began=$SECONDS
swift build --scratch-path "$scratch" 2>&1 | tail -3
echo "built in $((SECONDS - began)) s"
# SwiftPM creates folders for all targets of the package. Only compiled targets have objects.
compiled=$(find "$scratch/debug/" -path '*.build/*.o' -printf '%P\n' | sed 's/\.build\/.*//' | sort -u | xargs)
echo "compiled: $compiled"
for module in $compiled; do
    case $module in
        consumer | CHaulLinux | CHaulLua | HaulBus | HaulClient | HaulContract | HaulExecutors | HaulRedis | Logging) ;;
        *) echo "$module should not be compiled for a service" >&2; exit 1 ;;
    esac
done
"$scratch/debug/consumer" | grep -qx '[0-9a-f]\{16\}'
if ldd "$scratch/debug/consumer" | grep -E 'libcurl'; then echo "a service should not need libcurl" >&2; exit 1; fi
