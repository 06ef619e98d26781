#!/usr/bin/env bash
# Builds Haul and shows its main job. With URLs: downloads them into ./downloads. Without: serves a file of 256 MB on
# loopback, runs `haul up` and a second worker, pauses the download on one worker and continues it on the other.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
# shellcheck source=deploy/lib/nginx.sh
. deploy/lib/nginx.sh

# Bold on a terminal only.
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
# show COMMAND…: prints the command as one would type it, and runs it.
show() {
    local word
    printf '  $'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:@%+=,-]* | '') printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light
say "Building (the first time takes a minute or two)"
swift build -c release --product haul
haul="$(swift build -c release --show-bin-path)/haul"

if [ $# -gt 0 ]; then
    mkdir -p downloads
    say "Downloading into ./downloads"
    show "$haul" get -o downloads/ "$@"
    exit
fi

work="$(mktemp -d)"
pids=()
finish() {
    local status=$?
    [ "$status" -eq 0 ] || tail -n 20 "$work"/*.log >&2 || true
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir -p "$work/www" "$work/root"
head -c 256000000 /dev/urandom >"$work/www/demo.bin"
port=$((20000 + RANDOM % 10000))

say "1. A web server with a file of 256 MB; haul up: a Redis, a worker and the page; and a second worker"
serve_files "$work/www" "$port" 3m "$work"; pids+=($!)
"$haul" up --root "$work/root" --listen "$((port + 1))" --allow-address 127.0.0.0/8 >"$work/up" 2>"$work/up.log" & pids+=($!)
for _ in $(seq 600); do [ -s "$work/up" ] && break; sleep 0.05; done
cat "$work/up"
socket="$work/root/.haul/redis.sock"
export HAUL_REDIS="unix://$socket"
"$haul" worker --root "$work/root" --name two --allow-address 127.0.0.0/8 2>"$work/two.log" & pids+=($!)
for _ in $(seq 100); do [ "$(redis-cli -s "$socket" ZCARD 'haul:{default}:workers')" = 2 ] && break; sleep 0.05; done
show "$haul" workers

say "2. Any service enqueues with one LPUSH"
show redis-cli -s "$socket" LPUSH 'haul:{default}:jobs' "{\"url\":\"http://127.0.0.1:$port/demo.bin\",\"id\":\"demo\"}"
"$haul" watch demo & watcher=$!
for _ in $(seq 600); do
    received="$(redis-cli -s "$socket" HGET 'haul:{default}:job:demo' received)"
    [ "${received:-0}" -lt 64000000 ] || break
    sleep 0.05
done

say "3. Pause it; its bytes are on disk and its offsets in Redis"
first="$(redis-cli -s "$socket" HGET 'haul:{default}:job:demo' worker)"
show "$haul" pause demo
for _ in $(seq 60); do [ "$(redis-cli -s "$socket" HGET 'haul:{default}:job:demo' state)" = paused ] && break; sleep 0.05; done
[ "$(redis-cli -s "$socket" HGET 'haul:{default}:job:demo' state)" = paused ] || { echo "quickstart.sh: the job is not paused" >&2; exit 1; }
show redis-cli -s "$socket" HGETALL 'haul:{default}:offsets:demo'

say "4. Worker $first takes no more jobs; the other one continues"
show "$haul" worker quiet "$first"
show "$haul" resume demo
wait "$watcher"

say "5. The checksums agree"
(cd "$work/www" && sha256sum demo.bin)
(cd "$work/root" && sha256sum demo.bin)
cmp "$work/www/demo.bin" "$work/root/demo.bin"
say "That was Haul. README.md goes on from here."
