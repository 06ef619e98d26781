#!/usr/bin/env bash
# Clients of aria2 use the JSON-RPC of a real `haul web` with a real worker: aria2p over HTTP, and the requests of AriaNg's
# pages, as its sources make them, through a WebSocket.
#
#     Tests/web/aria2.sh [HAUL]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}"
haul=${1:-.build/debug/haul}
need_python aria2-client aria2p==0.12.3
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" Tests/web/aria2.py "$haul"
