#!/usr/bin/env bash
# Builds a release from the last commit, twice, and compares the bytes:
#   deploy/release.sh [--output DIRECTORY] [--once] [--sign KEY]
# The directory (.build/release-VERSION without the option) gets the archive of the program, the Debian package, the root
# of the container image, the packages of the Python client, an SPDX document of all parts, and SHA256SUMS. --once builds
# only once, and does not compare. --sign signs SHA256SUMS with a key of ssh-keygen; the signature can be checked by:
#   ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n file -s SHA256SUMS.sig <SHA256SUMS
# The libraries in the archive are those of the machine that builds, except libcurl (deploy/lib/curl.sh). So the archive
# runs where glibc is not older than there: build it on the oldest Debian that it shall run on. On arm64 the same command
# makes the packages for arm64.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
# shellcheck source=deploy/lib/debian.sh
. deploy/lib/debian.sh
# shellcheck source=deploy/lib/curl.sh
. deploy/lib/curl.sh

output='' turns=2 key=''
while [ $# -gt 0 ]; do
    case $1 in
    --output) output=$2 && shift ;;
    --once) turns=1 ;;
    --sign) key=$2 && shift ;;
    *) echo "release.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
[ -z "$key" ] || [ -r "$key" ] || { echo "release.sh: --sign $key cannot be read" >&2; exit 2; }
[ -z "$(git status --porcelain)" ] || { echo "release.sh: there are changes that are not committed: commit or stash them" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "release.sh: run it as root: the root of the image is made in a chroot" >&2; exit 2; }
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" "${DEBIAN_PACKAGES[@]}" "${CURL_PACKAGES[@]}" python3 python3-venv

version=$(sed -n 's/.*static let text = "\(.*\)".*/\1/p' Sources/Contract/Version.swift)
grep -q "^## \[$version\] - 20" CHANGELOG.md || { echo "release.sh: CHANGELOG.md has no dated entry for $version" >&2; exit 2; }
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH HAUL_RELEASE=1 LC_ALL=C
default=$PWD/.build/release-$version
output=${output:-$default}
case $output in /*) ;; *) output=$PWD/$output ;; esac
# A directory of the user's may hold an earlier release: it is neither emptied nor mixed with this one.
[ "$output" = "$default" ] || [ -z "$(ls -A "$output" 2>/dev/null)" ] ||
    { echo "release.sh: --output $output is not empty" >&2; exit 2; }
base=$PWD/$(debian_base)
repository=$PWD

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# archive NAME DIRECTORY FILE: packs the directory's contents under NAME, with equal bytes for equal contents.
archive() {
    tar -C "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=posix \
        --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime ${1:+--transform="s,^\.,$1,SH"} -c . | gzip -9n >"$3"
}

# libraries BINARY: the libraries that the program loads, without those of glibc, which belong to the system.
libraries() {
    ldd "$1" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libnss_[a-z]*|ld-linux[^/]*)\.so' | sort -u
}

# build DIRECTORY: makes all files of the release there. The sources are always at the same path.
build() {
    local source=$work/source tree=$work/tree
    rm -rf "$source" "$tree" "$work/system" "$work/curl" "$work/static"
    git clone --quiet "$repository" "$source"
    # The loader would look up 4,300 names of libstdc++ at each start. A directory with only its archive comes first.
    mkdir "$work/static"
    ln -s "$(gcc -print-file-name=libstdc++.a)" "$work/static"
    # The program finds the libraries beside it before those of the system, and so do these libraries themselves. After
    # its start nothing can change which functions it calls (`now`). Its id would be made from what follows.
    (cd "$source" && swift build -c release --static-swift-stdlib --product haul -Xswiftc "-L$work/static" -Xlinker --build-id=none \
        -Xlinker -z -Xlinker now -Xlinker -rpath -Xlinker "\$ORIGIN/../lib/haul" -Xlinker --disable-new-dtags) \
        >"$work/build.log" 2>&1 ||
        { tail -n 40 "$work/build.log" >&2; exit 1; }
    local binary
    binary=$(cd "$source" && swift build -c release --static-swift-stdlib --show-bin-path)/haul
    mkdir -p "$1"
    # The hashes of the modules' code differ between builds whose code is the same, and nothing reads them at run time.
    # They become zeros: without their section objcopy would also drop the protection of what the linker has set (RELRO).
    objcopy --dump-section ".swift_modhash=$work/hashes" "$binary"
    head -c "$(stat -c %s "$work/hashes")" /dev/zero >"$work/zeros"
    objcopy --update-section ".swift_modhash=$work/zeros" "$binary"
    readelf -lW "$binary" >"$work/headers"
    grep -q GNU_RELRO "$work/headers" || { echo "release.sh: the program has no RELRO" >&2; exit 1; }

    local name=haul-$version-linux-$architecture
    install -D -m 755 "$binary" "$tree/bin/haul"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/bin/haul"
    # SwiftPM adds the directories of the build, in which another user could put libraries.
    chrpath --replace "\$ORIGIN/../lib/haul" "$tree/bin/haul" >/dev/null
    curl_library "$work/curl"
    install -D -m 644 "$work/curl/libcurl.so.4" "$tree/lib/haul/libcurl.so.4"
    # With libcurl in its place these are the others.
    libraries "$tree/bin/haul" | grep -v "^$tree/" >"$work/paths"
    while read -r library; do install -m 644 "$(realpath "$library")" "$tree/lib/haul/${library##*/}"; done <"$work/paths"
    # Their licenses ask that a copy of them comes with the licenses.
    # shellcheck disable=SC2016 # dpkg-query replaces it
    { cat "$work/paths"; ls "$work"/static/*; } | xargs -n 1 realpath | sed 's,.*/,*/,' | xargs dpkg-query -S | cut -d : -f 1 | sort -u |
        xargs dpkg-query -W -f '${Package} ${Version}\n' >"$work/libraries"
    while read -r package _; do
        install -D -m 644 "/usr/share/doc/$package/copyright" "$tree/share/doc/$package/copyright"
    done <"$work/libraries"
    install -D -m 644 "$work/curl/copyright" "$tree/share/doc/libcurl4/copyright"
    echo "libcurl4 $(cat "$work/curl/version")" >>"$work/libraries"
    (cd "$source" && install -m 644 LICENSE README.md CHANGELOG.md SECURITY.md "$tree")
    install -D -m 644 -t "$tree/examples" "$source"/deploy/redis/{redis.conf,users.acl} "$source"/deploy/systemd/*.{service,conf}
    (cd "$source" && git ls-files -z docs | while IFS= read -r -d '' page; do install -D -m 644 "$page" "$tree/$page"; done)
    mkdir -p "$tree/share/man/man1" "$tree/share/completions"
    "$binary" manual --directory "$tree/share/man/man1"
    for shell in bash zsh fish; do "$binary" completions $shell >"$tree/share/completions/haul.$shell"; done
    find "$tree" -type d -exec chmod 755 {} +
    archive "$name" "$tree" "$1/$name.tar.gz"

    (cd "$source" && deploy/debian/build.sh --binary "$binary" --version "$version" --output "$1" >/dev/null)
    (cd "$source" && deploy/python.sh "$1" >/dev/null)

    mkdir "$work/system"
    tar -C "$work/system" -xf "$base"
    install -D -s "$binary" "$work/system/usr/bin/haul"
    chrpath --delete "$work/system/usr/bin/haul" >/dev/null
    install "$source/deploy/container/collect.sh" "$work/system/collect.sh"
    chroot "$work/system" /bin/bash /collect.sh /image
    # The image has the libraries of its Debian, which may have other versions than those beside the program.
    # shellcheck disable=SC2016 # dpkg-query replaces it
    (cd "$work/system/image" && find . -name '*.so*' -printf '*/%f\n' | sort -u) |
        xargs chroot "$work/system" dpkg-query -S | cut -d : -f 1 | sort -u |
        xargs chroot "$work/system" dpkg-query -W -f '${Package} ${Version}\n' >>"$work/libraries"
    archive '' "$work/system/image" "$1/haul-$version-image-$architecture.tar.gz"

    (cd "$source" && swift package show-dependencies --format json 2>/dev/null) >"$work/dependencies.json"
    python3 -B "$source/deploy/lib/sbom.py" "$version" "$work/dependencies.json" "$work/libraries" "$1"/* >"$work/sbom"
    install -m 644 "$work/sbom" "$1/haul-$version.spdx.json"
    (cd "$1" && sha256sum -- * >SHA256SUMS)
}

for turn in $(seq "$turns"); do
    echo "-- build $turn of $turns"
    build "$work/$turn"
done
if [ "$turns" -eq 2 ]; then
    diff "$work/1/SHA256SUMS" "$work/2/SHA256SUMS" || { echo "release.sh: two builds of one commit differ" >&2; exit 1; }
    echo "-- both builds have equal bytes"
fi
venv=.build/sbom-tools
if [ ! -x "$venv/bin/pyspdxtools" ]; then
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check spdx-tools==0.8.3
fi
"$venv/bin/pyspdxtools" -i "$work/1/haul-$version.spdx.json"
echo "-- the SPDX document is valid"
[ "$output" != "$default" ] || rm -rf "$output"
mkdir -p "$output"
cp "$work"/1/* "$output"
if [ -n "$key" ]; then ssh-keygen -q -Y sign -f "$key" -n file "$output/SHA256SUMS"; fi
(cd "$output" && ls -l)
