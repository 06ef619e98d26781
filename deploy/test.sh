#!/usr/bin/env bash
# Installs what the tests need and runs all of them. Arguments go to `swift test`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light btrfs-progs
swift build --build-tests
# A test that hangs is a failure, not a wait. Many start servers and workers: all of them at once would only wait for each
# other on a small machine.
timeout 1500 swift test --skip-build --parallel --experimental-maximum-parallelization-width 12 "$@"
