#!/usr/bin/env bash
# How soon a job runs again after its worker was killed on another machine, and whether stalls take jobs from live workers.
#   Tests/chaos/recovery.sh                                   20 kills and a minute of stalls
#   Tests/chaos/recovery.sh --kills 100 --stalls 3600         the long form
#   HAUL=…/haul Tests/chaos/recovery.sh                       another build
# Needs a Linux that permits namespaces. Exits 1 if a live worker has lost a job.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" python3 util-linux
haul=${HAUL:-}
if [ -z "$haul" ]; then
    swift build -c release --product haul >/dev/null
    haul="$(swift build -c release --show-bin-path)/haul"
fi
exec python3 -B Tests/chaos/recovery.py "$haul" "$@"
