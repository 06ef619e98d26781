#!/usr/bin/env bash
# Makes haul_VERSION_ARCH.deb.
#   deploy/debian/build.sh [--binary FILE] [--version VERSION] [--output DIRECTORY] [--compression xz|gzip]
# Without --binary it builds a release with static Swift libraries, so that the package needs no Swift.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

binary='' version='' output=.build/debian compression=xz
while [ $# -gt 0 ]; do
    case $1 in
    --binary) binary=$2 ;;
    --version) version=$2 ;;
    --output) output=$2 ;;
    --compression) compression=$2 ;;
    *) echo "build.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done

if [ -z "$binary" ]; then
    need_swift
    need_packages "${BUILD_PACKAGES[@]}" "${DEBIAN_PACKAGES[@]}"
    swift build -c release --static-swift-stdlib --product haul
    binary="$(swift build -c release --static-swift-stdlib --show-bin-path)/haul"
else
    need_packages "${DEBIAN_PACKAGES[@]}"
fi
# A build with dynamic Swift libraries finds them only on this machine: elsewhere it would not start.
if readelf -d "$binary" | grep -q 'NEEDED.*libswiftCore'; then
    echo "build.sh: $binary needs Swift's libraries: build it with --static-swift-stdlib" >&2
    exit 2
fi
[ -n "$version" ] || version=$("$binary" --version)
architecture=$(dpkg --print-architecture)
mkdir -p "$output"
# The same sources make the same package, byte for byte.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
documents=$tree/usr/share/doc/haul

# put MODE FILE PLACE: adds a file to the package, with its directories.
put() { install -D -m "$1" "$2" "$tree/$3"; }

put 755 "$binary" usr/bin/haul
# Remove the library path of the build: the package has no libraries of its own.
chrpath --delete "$tree/usr/bin/haul" >/dev/null
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/usr/bin/haul"
for unit in haul-worker@.service haul-web.service; do
    put 644 "deploy/systemd/$unit" "lib/systemd/system/$unit"
done
put 644 deploy/systemd/sysusers.conf usr/lib/sysusers.d/haul.conf
put 644 deploy/systemd/tmpfiles.conf usr/lib/tmpfiles.d/haul.conf
put 644 deploy/systemd/worker.conf etc/haul/worker.conf
put 644 deploy/systemd/web.conf etc/haul/web.conf
put 644 deploy/debian/copyright usr/share/doc/haul/copyright
# All of docs/, so that the links between its pages work.
git ls-files -z docs | while IFS= read -r -d '' page; do put 644 "$page" "usr/share/doc/haul/${page#docs/}"; done
for example in deploy/redis/redis.conf deploy/redis/users.acl deploy/prometheus/{prometheus,alerts}.yml deploy/grafana/haul.json; do
    put 644 "$example" "usr/share/doc/haul/examples/${example##*/}"
done
git ls-files -z deploy/kubernetes | while IFS= read -r -d '' example; do
    put 644 "$example" "usr/share/doc/haul/examples/${example#deploy/}"
done

# The changelog only names the version. The history of the sources has the changes.
cat >"$work/changelog" <<TEXT
haul ($version) stable; urgency=medium

  * Version $version.

 -- Haul <haul@packages.invalid>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
TEXT
gzip -9n <"$work/changelog" >"$work/changelog.gz"
put 644 "$work/changelog.gz" usr/share/doc/haul/changelog.gz

# Manual pages and completions come from the program's own declarations.
mkdir -p "$work/man"
"$binary" manual --directory "$work/man"
for page in "$work"/man/*.1; do
    gzip -9n "$page"
    put 644 "$page.gz" "usr/share/man/man1/${page##*/}.gz"
done
"$binary" completions bash | sed '1{/^#!/d}' >"$work/bash" && put 644 "$work/bash" usr/share/bash-completion/completions/haul
"$binary" completions zsh >"$work/zsh" && put 644 "$work/zsh" usr/share/zsh/vendor-completions/_haul
"$binary" completions fish >"$work/fish" && put 644 "$work/fish" usr/share/fish/vendor_completions.d/haul.fish

# The packages of the linked libraries, each with the oldest version that has the functions it is used for.
mkdir -p "$work/debian"
cp deploy/debian/control "$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -S"$tree" -O "$tree/usr/bin/haul" 2>"$work/shlibdeps" | sed -n 's/^shlibs:Depends=//p')
[ -n "$libraries" ] || { cat "$work/shlibdeps" >&2; exit 1; }

mkdir -p "$tree/DEBIAN"
{
    sed -n '/^Package:/,$p' deploy/debian/control | sed -e '/^Description:/,$d' -e "s/^Architecture: .*/Architecture: $architecture/" \
        -e "s/\${shlibs:Depends}/$libraries/"
    sed -n -e '/^Section:/p' -e '/^Priority:/p' -e '/^Maintainer:/p' deploy/debian/control
    echo "Version: $version"
    echo "Installed-Size: $(du -k -s --apparent-size "$tree" | cut -f 1)"
    sed -n '/^Description:/,$p' deploy/debian/control
} >"$tree/DEBIAN/control"
cp deploy/debian/conffiles "$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "deploy/debian/$script" "$tree/DEBIAN/$script"; done
(cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
chmod 644 "$tree/DEBIAN/md5sums" "$tree/DEBIAN/control" "$tree/DEBIAN/conffiles"
find "$tree" -type d -exec chmod 755 {} +
[ -d "$documents" ]

package=$output/haul_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z$compression" --build "$tree" "$package" >/dev/null
echo "$package"
