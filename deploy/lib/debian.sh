# shellcheck shell=bash
# Sourced: makes a Debian of the same release as this one, with its security updates. It is kept as an archive for a day.

# debian_base [PACKAGES]: prints the archive's path. PACKAGES is what it has beyond the smallest Debian, with commas
# between; without it the Debian has all that the package and the image need.
debian_base() (
    set -euo pipefail
    # shellcheck source=/dev/null
    . /etc/os-release
    included=${1:-systemd,systemd-sysv,dbus,procps,ca-certificates,redis-server,nginx-light,libcurl4,libexpat1,libhiredis0.14,libssl3,libstdc++6}
    base=.build/debian/$VERSION_CODENAME-$(echo "$included" | sha256sum | head -c 12).tar
    if [ -z "$(find "$base" -mmin -1440 2>/dev/null)" ]; then
        echo "making a base of Debian $VERSION_CODENAME, which takes a minute or two" >&2
        made=$(mktemp -d)
        trap 'rm -rf --one-file-system "$made"' EXIT
        mkdir -p .build/debian
        # Each suite that this machine updates itself from.
        # shellcheck disable=SC2016 # apt replaces it
        apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Origin: Debian' 'Created-By: Packages' |
            sort -u >"$made/sources.list"
        mmdebstrap --quiet --variant=minbase --include="$included" "$VERSION_CODENAME" "$made/base.tar" "$made/sources.list" \
            >"$made/log" 2>&1 || { tail -n 20 "$made/log" >&2; exit 1; }
        mv "$made/base.tar" "$base.new"
        mv "$base.new" "$base"
    fi
    echo "$base"
)
