#!/usr/bin/env bash
# The chaos run: faults hit real workers, a real Redis and a real origin at random. Then an exact ledger checks the
# results.
#   Tests/chaos/run.sh --faults 1000 --seed 1                            the long form, about 12 minutes
#   Tests/chaos/run.sh --faults 1000 --seed 1 --topology sentinel        the same with failovers
#   Tests/chaos/run.sh --faults 20 --lease 3 [--topology sentinel]       the short form, as in .ci/run
#   Tests/chaos/run.sh --store s3 --server radosgw --faults 500          workers that share only a bucket (or seaweedfs, ministack)
#   HAUL=…/haul Tests/chaos/run.sh                                       another build
# With a directory and without sentinels it begins with a short form of histories.sh. --help lists the options. Exits 1
# if a job is lost, a file is wrong, or a rule is broken.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
haul=${HAUL:-}
if [ -z "$haul" ]; then
    swift build -c release --product haul >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
    haul="$(swift build -c release --show-bin-path)/haul"
fi
clang -O2 -Wall -shared -fPIC -o "$work/clock.so" Tests/chaos/clock.c
case " $* " in *" s3 "*) need_object_servers ;; esac
# Run random histories first, on a single Redis. --help is for the faults.
case " $* " in *" --help "* | *" -h "* | *" sentinel "* | *" s3 "*) ;; *)
    HAUL=$haul Tests/chaos/histories.sh --histories 100 --bulk 200 --kills --lease 3 ;;
esac
python3 -B Tests/chaos/chaos.py "$haul" "$work/clock.so" "$@"
