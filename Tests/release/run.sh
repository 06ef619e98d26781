#!/usr/bin/env bash
# Tries a release as a new user would, in a Debian that has neither Swift nor a compiler nor the libraries of Haul:
#   Tests/release/run.sh [DIRECTORY]
# DIRECTORY is what deploy/release.sh has made (.build/release-VERSION without the argument). Run it as root. The Debian
# installs packages with apt-get over this machine's network. Then it has a network of its own without any connection.
# At the end the trial prints how long it took, and fails if that was more than three minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
# shellcheck source=deploy/lib/debian.sh
. deploy/lib/debian.sh

version=$(sed -n 's/.*static let text = "\(.*\)".*/\1/p' Sources/Contract/Version.swift)
release=${1:-.build/release-$version}
[ -r "$release/SHA256SUMS" ] || { echo "run.sh: $release has no SHA256SUMS: make a release with deploy/release.sh first" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "run.sh: run it as root: it starts a Debian" >&2; exit 2; }
need_packages mmdebstrap systemd-container python3 python3-venv

work=$(mktemp -d)
guest=''
finish() {
    if [ -n "$guest" ]; then kill "$guest" 2>/dev/null || true; wait "$guest" || true; fi
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

base=$(debian_base ca-certificates)
root=$work/root
mkdir "$root"
tar -C "$root" -xf "$base"
# apt-get in the Debian accepts what this machine's accepts, for example a mirror whose lists have expired.
apt-config dump Acquire >"$root/etc/apt/apt.conf.d/50host"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir "$root/root/release"
# What a user downloads: no image, and no source of the client.
cp "$release"/{SHA256SUMS,haul-*-linux-*.tar.gz,haul_client-*.whl} "$root/root/release/"
# What the client depends on. The Debian may not reach a registry of Python packages, and has the same Python as this one.
/usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/pip" download --quiet --disable-pip-version-check --dest "$root/root/wheels" 'redis>=5'
cp docs/operate/install.md Tests/release/guest.sh "$root/root/"

# in_debian OPTION… STEP: runs the step of guest.sh there.
in_debian() {
    timeout 200 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --as-pid2 --console=pipe \
        "${@:1:$#-1}" /bin/bash /root/guest.sh "${!#}" </dev/null & guest=$!
    local status=0
    wait "$guest" || status=$?
    guest=''
    return "$status"
}
start=$SECONDS
in_debian --resolv-conf=copy-host install
in_debian --private-network use
took=$((SECONDS - start))
echo "-- install and use took $took s"
[ "$took" -le 180 ] || { echo "run.sh: that is more than three minutes" >&2; exit 1; }
