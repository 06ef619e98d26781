#!/usr/bin/env bash
# Shows why Haul has no FTP and no SFTP: two versions of a file, which real servers cannot tell apart, and what the tools
# make of them. Everything is on loopback.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages curl wget aria2 python3 python3-venv
need_python ftp-servers pyftpdlib==2.2.0 asyncssh==2.24.1
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" Tests/peers/ftp.py
