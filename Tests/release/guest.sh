#!/usr/bin/env bash
# Runs as root in the Debian of run.sh: `install` as the page says, then `use`.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
umask 022

say() { printf -- '-- %s\n' "$*"; }
fail() { echo "failed: $*" >&2 && exit 1; }
# eventually WHAT COMMAND…: runs the command until it succeeds, for at most 30 seconds.
eventually() {
    local what=$1 end=$((SECONDS + 30))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "waited 30 s for $what"
        sleep 0.1
    done
}
# page NAME: runs the block with this name of docs/operate/install.md, as a reader would.
page() {
    local block
    block=$(awk -v fence="\`\`\`sh $1" -v end='```' '$0 == fence { on = 1; next } $0 == end { on = 0 } on' /root/install.md)
    [ -n "$block" ] || fail "the page has no block $1"
    bash -euo pipefail -c "$block"
}

install() {
    cd /root/release
    for tool in swift swiftc clang gcc cc; do
        ! command -v "$tool" || fail "$tool is here"
    done
    apt-get -qq update
    page archive | grep -E 'OK$|^(Setting up|[0-9])'
    # None of these is in the Debian, so the program has found those of the archive.
    for library in libcurl.so libhiredis.so libexpat.so; do
        [ -z "$(ldconfig -p | grep "$library" || true)" ] || fail "$library is here"
    done
    say "for the trial: a Python, and curl"
    apt-get -qq install --yes --no-install-recommends python3-venv curl >/dev/null
    python3 -m venv /root/client
    /root/client/bin/pip install --quiet --no-index --find-links /root/wheels haul_client-*.whl
}

use() {
    mkdir /root/origin
    for name in redis page python; do head -c 20000000 /dev/urandom >"/root/origin/$name.bin"; done
    (cd /root/origin && sha256sum -- *.bin >/root/checksums)
    python3 -m http.server --bind 127.0.0.1 --directory /root/origin 8000 >/root/origin.log 2>&1 &
    origin=http://127.0.0.1:8000
    eventually "the origin" curl -fsI "$origin/redis.bin"

    say "haul up"
    haul up --root /srv/files --allow-address 127.0.0.0/8 >/root/up 2>/root/up.log &
    up=$!
    eventually "haul up" grep 'redis-cli' /root/up
    cat /root/up
    password=$(sed -n 's/.* user admin, password //p' /root/up)

    say "a push with the line that it has printed"
    push=$(sed -n 's/^  push *//p' /root/up)
    bash -euc "${push/https:\/\/example.org\/file.bin/$origin/redis.bin}"
    eventually "the file" test -e /srv/files/redis.bin

    say "a push to the page, with the password that it has printed"
    api=http://127.0.0.1:8484/api/queues/default
    curl -fsS -u "admin:$password" -H 'Content-Type: application/json' "$api/jobs" -d "{\"url\":\"$origin/page.bin\",\"id\":\"page\"}"
    echo
    curl -fsS -u "admin:$password" "$api/jobs/page/wait?timeout=30" | grep -o '"state":"completed"'

    say "a push with the Python client"
    /root/client/bin/python - "$origin/python.bin" <<'PYTHON'
import sys
import haul_client as haul

with haul.Queue("unix:///srv/files/.haul/redis.sock") as queue:
    result = queue.push(haul.Download(sys.argv[1], id="python")).result(timeout=30)
    print(result.state, result.what_to_do, result.file)
PYTHON

    (cd /srv/files && sha256sum --check /root/checksums)
    say "SIGTERM"
    kill "$up"
    wait "$up" || { cat /root/up.log >&2; fail "haul up ended with status $?"; }
}

"$1"
