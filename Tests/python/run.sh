#!/usr/bin/env bash
# Tests the Python client against a real Redis and a real worker: types, generated code, the wheel, and the behaviour.
# Further arguments go to pytest. PYTHON names the interpreter.
#
#     Tests/python/run.sh .build/release/haul [-k PART_OF_A_NAME]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_packages "${RUN_PACKAGES[@]}"
haul=$(realpath "${1:?usage: Tests/python/run.sh HAUL-BINARY}")
shift
need_python python-tests mypy pytest redis
export MYPY_CACHE_DIR=$PWD/$venv/mypy PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/Sources/PythonClient HAUL=$haul
"$venv/bin/python" Sources/PythonClient/generate.py --check
(cd Sources/PythonClient && "../../$venv/bin/python" -m mypy --strict haul_client)
exec timeout 540 "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" Tests/python
