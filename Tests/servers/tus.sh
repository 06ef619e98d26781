#!/usr/bin/env bash
# Uploads files by tus to the servers of PyPI: aiohttp-tus, tuspyserver, tussi and tuswsgi. Real workers are paused and
# killed, and other workers continue. Compares the file that the server has at the end. Exits with 1 if a file is wrong.
# Arguments choose servers. Takes two minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" python3 python3-venv
haul="${HAUL:-}"
if [ -z "$haul" ]; then
    swift build --product haul >/dev/null
    haul="$(swift build --show-bin-path)/haul"
fi
place=.build/tus-server
if [ ! -x "$place/bin/python" ] || ! "$place/bin/python" -c 'import aiohttp_tus, tuspyserver, tussi, tuswsgi, uvicorn' \
    2>/dev/null; then
    /usr/bin/python3 -m venv "$place"
    "$place/bin/pip" install -q --disable-pip-version-check aiohttp-tus==1.1.0 tuspyserver==4.4.3 tussi==3.1.0 \
        tuswsgi==0.5.5 uvicorn==0.54.0
fi
exec "$place/bin/python" -B Tests/servers/tus.py "$haul" "$@"
