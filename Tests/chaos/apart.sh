#!/usr/bin/env bash
# Two workers in network namespaces of their own. They share only Redis and a bucket.
#   Tests/chaos/apart.sh                                  1 GiB is handed over three times; links are cut four times
#   Tests/chaos/apart.sh --server seaweedfs --size 300    another server, smaller files
#   HAUL=…/haul Tests/chaos/apart.sh                      another build
# Needs 10 GB in $TMPDIR, and a Linux that permits namespaces. --help lists the options. Exits 1 if a file is wrong or
# anything is left over.
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
# The names of namespaces are files in /run. This mount of /run is private, and ends with its last process.
exec unshare "${as_root[@]}" --net --mount sh -ec '
    mount -t tmpfs none /run; ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward; exec python3 -B "$@"
' sh Tests/chaos/apart.py "$haul" "$@"
