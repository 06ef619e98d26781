#!/usr/bin/env bash
# Generates a client in Python from docs/reference/openapi.json, and uses it against a real `haul web` and a real worker.
#
#     Tests/web/client.sh [HAUL]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}"
haul=${1:-.build/debug/haul}
need_python openapi-client openapi-python-client==0.29.1 mypy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What the generator cannot express it leaves out with a warning. All of the description must be in the client.
PATH=$PWD/$venv/bin:$PATH "$venv/bin/openapi-python-client" generate --path docs/reference/openapi.json --meta none \
    --output-path "$work/haul_api" --fail-on-warning
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work "$venv/bin/python" Tests/web/client.py "$haul"
