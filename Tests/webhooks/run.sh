#!/usr/bin/env bash
# The reference library of Standard Webhooks verifies what a real worker sends, for each kind of end.
#
#     Tests/webhooks/run.sh [HAUL]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}" python3-venv
haul=$(realpath "${1:-.build/debug/haul}")
venv=.build/webhooks
version=1.1.0
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$version" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "standardwebhooks==$version"
    echo "$version" >"$venv/installed"
fi
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" Tests/webhooks/webhooks.py "$haul"
