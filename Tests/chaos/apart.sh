#!/usr/bin/env bash
# Two workers in network namespaces of their own, with Redis and a bucket between them and nothing else.
#   Tests/chaos/apart.sh                                  1 GiB is handed over three times; the ways are cut four times
#   Tests/chaos/apart.sh --server seaweedfs --size 300    another server, smaller files
#   HAUL=…/haul Tests/chaos/apart.sh                      another build
# Needs 10 GB in $TMPDIR, and a Linux that lets us have namespaces. --help tells the rest. Exits 1 if a file is wrong or anything is left.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" python3 iproute2 util-linux
need_object_servers
haul=${HAUL:-}
if [ -z "$haul" ]; then
    swift build -c release --product haul >/dev/null
    haul="$(swift build -c release --show-bin-path)/haul"
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(--map-root-user)
# The names of namespaces are files in /run: these are seen by nobody else, and all of it goes with its last process.
exec unshare "${as_root[@]}" --net --mount sh -ec '
    mount -t tmpfs none /run; ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward; exec python3 -B "$@"
' sh Tests/chaos/apart.py "$haul" "$@"
