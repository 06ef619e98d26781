#!/usr/bin/env bash
# Tests the policy and the lifecycle rule of docs/guides/buckets.md on radosgw. Takes about two minutes.
#   Tests/chaos/policy.sh
#   HAUL=…/haul Tests/chaos/policy.sh      another build
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" python3
need_object_servers
haul=${HAUL:-}
if [ -z "$haul" ]; then
    swift build -c release --product haul >/dev/null
    haul="$(swift build -c release --show-bin-path)/haul"
fi
exec python3 -B Tests/chaos/policy.py "$haul" "$@"
