#!/usr/bin/env bash
# Checks each file in deploy/ with the tool for its format. Starts nothing, and needs no build.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_packages "${CHECK_PACKAGES[@]}"

echo "-- shellcheck: every script"
mapfile -t scripts < <(git ls-files -c -o --exclude-standard -- '*.sh' .ci/run deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm)
# SC2317 is wrong about functions that only a trap calls.
shellcheck -x -P . -e SC2317 "${scripts[@]}"

echo "-- promtool: the alert rules, their tests, and the configuration of Prometheus"
promtool check rules deploy/prometheus/alerts.yml
promtool test rules deploy/prometheus/alerts-test.yml
promtool check config deploy/prometheus/prometheus.yml
python3 -B deploy/lib/check_alerts.py

echo "-- systemd-analyze: the units"
# This machine may have neither the program nor the user: make a root directory with stand-ins.
units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
mkdir -p "$units"/{etc/haul,usr/bin,bin,lib/systemd/system,usr/lib/sysusers.d}
cp deploy/systemd/*.service "$units/lib/systemd/system/"
cp /lib/systemd/system/{basic,sysinit,shutdown,network-online,multi-user,system-systemd*,-}.{target,slice} "$units/lib/systemd/system/" 2>/dev/null || true
for program in "$units/usr/bin/haul" "$units/bin/kill" "$units/usr/bin/kill"; do printf '#!/bin/sh\n' >"$program" && chmod +x "$program"; done
complaints=$(systemd-analyze verify --man=no --recursive-errors=no --root="$units" haul-worker@1.service haul-web.service 2>&1) || true
[ -z "$complaints" ] || { echo "$complaints" >&2; exit 1; }
for unit in haul-worker@.service haul-web.service; do
    # 20 means an exposure of at most 2.0, of 10.
    systemd-analyze security --offline=true --threshold=20 --no-pager "deploy/systemd/$unit" | tail -n 1
done
systemd-sysusers --dry-run --root="$units" - <deploy/systemd/sysusers.conf >/dev/null 2>&1

echo "-- hadolint: the Dockerfile"
checkers=$(python_tools)
"$checkers/hadolint" --failure-threshold style deploy/container/Dockerfile

echo "-- docker-compose: compose.yaml"
# The docker-compose of Debian 12 supports all of the file but the project's name.
mkdir -p "$units/compose"
cp -r deploy/. "$units/compose/"
sed -i '/^name:/d' "$units/compose/compose.yaml"
docker-compose -f "$units/compose/compose.yaml" config --quiet

echo "-- Kubernetes: kustomize, the schemas of the API and of KEDA, and rules of our own"
for overlay in base autoscaling; do
    kubectl kustomize "deploy/kubernetes/$overlay" >"$units/$overlay.yaml"
    "$checkers/python" -B deploy/lib/check_kubernetes.py "$units/$overlay.yaml"
done
