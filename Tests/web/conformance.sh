#!/usr/bin/env bash
# Schemathesis uses the API of a real `haul web` as docs/reference/openapi.json describes it, and as it does not. It fails if an
# answer differs from the description. The same seed makes the same requests. Further arguments go to Schemathesis.
#
#     Tests/web/conformance.sh [HAUL]                        # the short form: a minute
#     Tests/web/conformance.sh [HAUL] --long [--seed N]      # all cases that follow from the schemas, and 300 examples each
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}"
haul=.build/debug/haul
case ${1-} in
'' | --*) ;;
*) haul=$1 && shift ;;
esac
need_python schemathesis schemathesis==4.32.5
run() { "$venv/bin/python" -B Tests/web/conformance.py "$haul" --no-color --generation-database none --warnings off "$@"; }
if [ "${1-}" = --long ]; then
    shift
    run --seed 1 --max-examples 300 "$@"
else
    # The cases of these two schemas are thousands.
    run --seed 1 --phases coverage --exclude-operation-id push --exclude-operation-id set "$@"
    run --seed 1 --phases examples,fuzzing,stateful --max-examples 25 "$@"
fi
