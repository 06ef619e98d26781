#!/usr/bin/env bash
# aria2p, a client of aria2, uses the JSON-RPC of a real `haul web` with a real worker, over HTTP and through a WebSocket.
#
#     Tests/web/aria2.sh [HAUL]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}" python3-venv
haul=${1:-.build/debug/haul}
venv=.build/aria2-client
version=0.12.3
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$version" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "aria2p==$version"
    echo "$version" >"$venv/installed"
fi
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" Tests/web/aria2.py "$haul"
