# shellcheck shell=bash
# Sourced: makes a Debian of the same release as this one. It is kept as an archive, because it is the same each time.

# debian_base [PACKAGES]: prints the archive's path. PACKAGES is what it has beyond the smallest Debian, with commas
# between; without it the Debian has all that the package and the image need.
debian_base() (
    set -euo pipefail
    # shellcheck source=/dev/null
    . /etc/os-release
    included=${1:-systemd,systemd-sysv,dbus,procps,ca-certificates,redis-server,nginx-light,libcurl4,libexpat1,libhiredis0.14,libssl3,libstdc++6}
    base=.build/debian/$VERSION_CODENAME-$(echo "$included" | sha256sum | head -c 12).tar
    if [ ! -e "$base" ]; then
        echo "making a base of Debian $VERSION_CODENAME, which takes a minute or two" >&2
        # shellcheck disable=SC2016 # apt replaces it
        mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" 'Component: main' | head -n 1)
        made=$(mktemp -d)
        trap 'rm -rf --one-file-system "$made"' EXIT
        mkdir -p .build/debian
        debootstrap --variant=minbase --include="$included" "$VERSION_CODENAME" "$made/base" "$mirror" >"$made/log" ||
            { tail -n 20 "$made/log" >&2; exit 1; }
        tar -C "$made/base" --exclude './var/cache/apt/archives/*.deb' --exclude './var/lib/apt/lists/*' -cf "$base.new" .
        mv "$base.new" "$base"
    fi
    echo "$base"
)
