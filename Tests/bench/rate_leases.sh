#!/usr/bin/env bash
# Measures two workers under the queue's rate limit every second, while one is killed and another joins, and draws a
# plot.
#   Tests/bench/rate_leases.sh                      two minutes at 50 MB/s; writes docs/images/rate-leases.svg
#   Tests/bench/rate_leases.sh --seconds 24         the short form, without a plot
#   HAUL=…/haul Tests/bench/rate_leases.sh          another build
# Exits 1 if the fleet received more than 105 % of the limit over any 10 s.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_packages "${RUN_PACKAGES[@]}" python3
if [ -z "${HAUL:-}" ]; then
    need_swift
    need_packages "${BUILD_PACKAGES[@]}"
    swift build -c release --product haul >/dev/null
    HAUL="$(swift build -c release --show-bin-path)/haul"
fi
if [ $# -eq 0 ]; then set -- --svg docs/images/rate-leases.svg; fi
exec python3 -B Tests/bench/rate_leases.py "$HAUL" "$@"
