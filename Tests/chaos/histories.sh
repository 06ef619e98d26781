#!/usr/bin/env bash
# Random histories of pushes and requests on real workers, checked by an oracle of docs/reference/ordering.md.
#   Tests/chaos/histories.sh                                     the short form
#   Tests/chaos/histories.sh --histories 3000 --kills --lease 3  the long form
#   HAUL=…/haul Tests/chaos/histories.sh                         another build, to see what it gets wrong
# --help lists the options. Exits 1 if a job ended as the contract does not allow.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_packages "${RUN_PACKAGES[@]}" python3
if [ -z "${HAUL:-}" ]; then
    need_swift
    need_packages "${BUILD_PACKAGES[@]}"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    swift build -c release --product haul >"$log" || { cat "$log" >&2; exit 1; }
    HAUL="$(swift build -c release --show-bin-path)/haul"
fi
python3 -B Tests/chaos/oracle_check.py
python3 -B Tests/chaos/histories.py "$HAUL" "$@"
