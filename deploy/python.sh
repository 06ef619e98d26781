#!/usr/bin/env bash
# Builds the wheel and the source archive of the Python client, Sources/PythonClient, into a directory:
#
#     deploy/python.sh [DIRECTORY]        # .build/python without one
#
# The version is Haul's. SOURCE_DATE_EPOCH (else the time of the last commit) is the time of all files, so that two builds
# of one commit have equal bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:-.build/python}
venv=.build/python-build
tools=(build==1.6.1 hatchling==1.33.0)
if [ "$(cat "$venv/installed" 2>/dev/null)" != "${tools[*]}" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${tools[@]}"
    echo "${tools[*]}" >"$venv/installed"
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1763712000)}
export SOURCE_DATE_EPOCH
version=$(sed -n 's/.*static let text = "\(.*\)".*/\1/p' Sources/Contract/Version.swift)
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
# A copy without what tests and editors leave behind. Its modes do not depend on the umask.
cp -r Sources/PythonClient/. LICENSE "$package/"
find "$package" \( -name __pycache__ -o -name .mypy_cache \) -prune -exec rm -rf {} +
find "$package" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
sed -i "s/^__version__ = .*/__version__ = \"$version\"/" "$package/haul_client/__init__.py"
mkdir -p "$directory"
"$venv/bin/python" -m build --no-isolation --outdir "$directory" "$package" >"$package/log" 2>&1 || { cat "$package/log" >&2; exit 1; }
(cd "$directory" && sha256sum "haul_client-$version-py3-none-any.whl" "haul_client-$version.tar.gz")
