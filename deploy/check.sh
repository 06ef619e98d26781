#!/usr/bin/env bash
# Each file beneath deploy/ before its own tool. Nothing is started, and no build is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_packages "${CHECK_PACKAGES[@]}"

echo "-- shellcheck: every script"
mapfile -t scripts < <(git ls-files -c -o --exclude-standard -- '*.sh' .ci/run deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm)
# SC2317: what a trap calls is reached.
shellcheck -x -P . -e SC2317 "${scripts[@]}"

echo "-- promtool: alert rules, each of them firing and not, and the configuration of Prometheus"
promtool check rules deploy/prometheus/alerts.yml
promtool test rules deploy/prometheus/alerts-test.yml
promtool check config deploy/prometheus/prometheus.yml
python3 -B deploy/lib/check_alerts.py

echo "-- systemd-analyze: the units"
# The program and the user are not here: a root with stand-ins for both.
units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
mkdir -p "$units"/{etc/haul,usr/bin,bin,lib/systemd/system,usr/lib/sysusers.d}
cp deploy/systemd/*.service "$units/lib/systemd/system/"
cp /lib/systemd/system/{basic,sysinit,shutdown,network-online,multi-user,system-systemd*,-}.{target,slice} "$units/lib/systemd/system/" 2>/dev/null || true
for program in "$units/usr/bin/haul" "$units/bin/kill" "$units/usr/bin/kill"; do printf '#!/bin/sh\n' >"$program" && chmod +x "$program"; done
said=$(systemd-analyze verify --man=no --recursive-errors=no --root="$units" haul-worker@1.service haul-web.service 2>&1) || true
[ -z "$said" ] || { echo "$said" >&2; exit 1; }
for unit in haul-worker@.service haul-web.service; do
    # 20 is 2.0 of 10.
    systemd-analyze security --offline=true --threshold=20 --no-pager "deploy/systemd/$unit" | tail -n 1
done
systemd-sysusers --dry-run --root="$units" - <deploy/systemd/sysusers.conf >/dev/null 2>&1

echo "-- hadolint: the Dockerfile"
checkers=$(python_tools)
"$checkers/hadolint" --failure-threshold style deploy/container/Dockerfile

echo "-- docker-compose: compose.yaml"
# The docker-compose of Debian 12 knows all of it but the project's name.
mkdir -p "$units/compose"
cp -r deploy/. "$units/compose/"
sed -i '/^name:/d' "$units/compose/compose.yaml"
docker-compose -f "$units/compose/compose.yaml" config --quiet

echo "-- Kubernetes: kustomize, the schemas of the API and of KEDA, and rules of our own"
for overlay in base autoscaling; do
    kubectl kustomize "deploy/kubernetes/$overlay" >"$units/$overlay.yaml"
    "$checkers/python" -B deploy/lib/check_kubernetes.py "$units/$overlay.yaml"
done
