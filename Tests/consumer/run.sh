#!/usr/bin/env bash
# Builds a package that depends on HaulClient by path, in a directory of its own, and looks at what was compiled: neither the worker,
# nor what downloads, nor the packages of the command.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" Package.resolved' EXIT
began=$SECONDS
swift build --scratch-path "$scratch" 2>&1 | tail -3
echo "built in $((SECONDS - began)) s"
# Folders are made for all targets that the package has; what was compiled has objects.
compiled=$(find "$scratch/debug/" -path '*.build/*.o' -printf '%P\n' | sed 's/\.build\/.*//' | sort -u | xargs)
echo "compiled: $compiled"
for module in $compiled; do
    case $module in
        consumer | CHaulLinux | CHaulLua | HaulBus | HaulClient | HaulContract | HaulExecutors | HaulRedis) ;;
        *) echo "$module should not be compiled for a service" >&2; exit 1 ;;
    esac
done
"$scratch/debug/consumer" | grep -qx '[0-9a-f]\{16\}'
if ldd "$scratch/debug/consumer" | grep -E 'libcurl'; then echo "a service should not need libcurl" >&2; exit 1; fi
