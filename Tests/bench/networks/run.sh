#!/usr/bin/env bash
# Measures `haul get` and a worker beside curl, aria2 -x16 and wget2 on typical links, made of network namespaces and
# link.c. Prints what docs/contributing/measurements.md quotes. Needs root, 3 GB in $TMPDIR, and about 20 minutes for all rows.
#   Tests/bench/networks/run.sh                                     all rows, 3 rounds of each
#   Tests/bench/networks/run.sh --rows far-500,two --repeat 5       some of: --list
#   Tests/bench/networks/run.sh --tools curl,get --rows lossy       some of: curl aria2 wget2 get worker
#   Tests/bench/networks/run.sh --publish FILE.json                 the rows of docs/evaluate/performance.md, and the page
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light nghttp2-proxy curl aria2 wget2 iproute2 iputils-ping iperf3 \
    openssl gcc libc6-dev python3
haul="${HAUL:-}"
if [ -z "$haul" ]; then
    swift build -c release --product haul >/dev/null
    haul="$(swift build -c release --show-bin-path)/haul"
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
gcc -O2 -Wall -D_GNU_SOURCE -o "$work/link" Tests/bench/networks/link.c
python3 -B Tests/bench/networks/networks.py "$haul" "$work" "$@"
if [ "${1-}" = --publish ]; then python3 -B Tests/bench/render.py "$2"; fi
