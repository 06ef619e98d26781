#!/usr/bin/env bash
# Scrapes two workers with a real Prometheus during a load with failures. Every query of the dashboard has to give
# data, and alerts have to fire and clear. It takes half a minute.
#   deploy/prometheus/live.sh        HAUL=…/haul for another build than the debug one
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_packages "${RUN_PACKAGES[@]}" prometheus python3 python3-yaml
haul="${HAUL:-}"
if [ -z "$haul" ]; then
    need_swift
    need_packages "${BUILD_PACKAGES[@]}"
    swift build --product haul >/dev/null
    haul="$(swift build --show-bin-path)/haul"
fi
exec /usr/bin/python3 -B deploy/prometheus/live.py "$haul"
