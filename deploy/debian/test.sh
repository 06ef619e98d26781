#!/usr/bin/env bash
# Installs the package in a fresh Debian that boots systemd, upgrades it while its workers download, and purges it.
#   deploy/debian/test.sh [--binary FILE] [--keep]
# --binary is a release build with static Swift libraries. Without it the script makes one. Run it as root.
# The Debian has a network of its own without any connection.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
# shellcheck source=deploy/lib/debian.sh
. deploy/lib/debian.sh

arguments=() keep=''
while [ $# -gt 0 ]; do
    case $1 in
    --binary) arguments=(--binary "$2") && shift ;;
    --keep) keep=1 ;;
    *) echo "test.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
[ "$(id -u)" -eq 0 ] || { echo "test.sh: run this as root: it boots a Debian" >&2; exit 2; }
need_packages "${DEBIAN_PACKAGES[@]}"

work=$(mktemp -d)
guest=''
finish() {
    if [ -n "$guest" ]; then kill "$guest" 2>/dev/null; wait "$guest" || true; fi
    if [ -n "$keep" ]; then echo "kept: $work"; else rm -rf --one-file-system "$work"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "== two versions of the package"
# xz would take most of the time of a build.
arguments+=(--compression gzip)
first=$(deploy/debian/build.sh "${arguments[@]}" --output "$work" | tail -n 1)
version=$(dpkg-deb --field "$first" Version)
second=$(deploy/debian/build.sh "${arguments[@]}" --output "$work" --version "$version+next" | tail -n 1)
dpkg-deb --field "$first" Package Version Architecture Installed-Size Depends
ls -lh "$first"
cmp <(deploy/debian/build.sh "${arguments[@]}" --output "$work/again" | tail -n 1 | xargs cat) "$first"
echo "the same build makes the same package"

echo "== lintian"
lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$first"

base=$(debian_base)
root=$work/root
mkdir "$root"
tar -C "$root" -xf "$base"
mkdir "$root/root/first" "$root/root/second"
cp "$first" "$root/root/first/"
cp "$second" "$root/root/second/"
cp docs/operate/install.md docs/operate/redis.md docs/operate/upgrade.md docs/operate/web.md deploy/debian/guest.sh deploy/redis/redis.conf deploy/redis/users.acl "$root/root/"
cp deploy/debian/guest.service "$root/etc/systemd/system/"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../guest.service "$root/etc/systemd/system/multi-user.target.wants/guest.service"
# Do not start the services that the base would start by itself.
ln -sf /dev/null "$root/etc/systemd/system/nginx.service"
ln -sf /dev/null "$root/etc/systemd/system/redis-server.service"

echo "== in the Debian"
: >"$root/root/output"
timeout 300 systemd-nspawn --quiet --directory "$root" --boot --register=no --keep-unit --private-network \
    --console=pipe </dev/null >"$work/console" 2>&1 &
guest=$!
tail -n +1 --pid="$guest" -f "$root/root/output" || true
wait "$guest" || true
guest=''
if [ "$(cat "$root/root/status" 2>/dev/null)" != 0 ]; then
    tail -n 40 "$work/console" >&2
    [ ! -e "$root/root/journal" ] || tail -n 80 "$root/root/journal" >&2
    echo "test.sh: failed in the Debian" >&2
    exit 1
fi
