#!/usr/bin/env bash
# The proof by faults: real workers, a real Redis and a real origin, hit at random, then an exact ledger.
#   Tests/chaos/run.sh --faults 1000 --seed 1                            the long form, some 12 minutes
#   Tests/chaos/run.sh --faults 1000 --seed 1 --topology sentinel        the same with failovers
#   Tests/chaos/run.sh --faults 20 --lease 3 [--topology sentinel]       the short form, as in .ci/run
#   Tests/chaos/run.sh --store s3 --server radosgw --faults 500          workers that share a bucket only (or seaweedfs)
#   HAUL=…/haul Tests/chaos/run.sh                                       another build
# In a directory and without sentinels it begins with a short form of histories.sh. --help tells the rest. Exits 1 if a job is lost, a file
# wrong, or a rule broken.
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
# Jobs with random histories first, on one Redis. --help is the faults'.
case " $* " in *" --help "* | *" -h "* | *" sentinel "* | *" s3 "*) ;; *)
    HAUL=$haul Tests/chaos/histories.sh --histories 100 --bulk 200 --kills --lease 3 ;;
esac
python3 -B Tests/chaos/chaos.py "$haul" "$work/clock.so" "$@"
