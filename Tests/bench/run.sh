#!/usr/bin/env bash
# Measures a release build against nginx on loopback, everything through the bus, and prints what docs/contributing/measurements.md
# quotes. Arguments choose parts (default: all, the list at the end). Needs about 10 GB in $TMPDIR and a quarter of an
# hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light curl python3 python3-venv
haul="${HAUL:-}"
if [ -z "$haul" ]; then
    swift build -c release --product haul >/dev/null
    haul="$(swift build -c release --show-bin-path)/haul"
fi
work="$(mktemp -d)"
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir -p "$work/www" "$work/root"
chmod 755 "$work" "$work/www"
port=$((20000 + RANDOM % 10000))
cat >"$work/nginx.conf" <<CONF
daemon off; worker_processes 2; pid $work/nginx.pid; error_log $work/nginx.log;
worker_rlimit_nofile 20000;
events { worker_connections 16384; }
http {
    log_format sent '\$uri \$body_bytes_sent'; access_log $work/access.log sent; sendfile on; keepalive_requests 100000;
    client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3;
    uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
    server {
        listen 127.0.0.1:$port; root $work/www;
        location /s/ { access_log off; }
        location = /noop { access_log off; return 204; }
        location /paced/ { alias $work/www/; limit_rate 25m; }
        location /slow/ { alias $work/www/; limit_rate 200k; }
        location /crawl/ { alias $work/www/; limit_rate 1k; }
    }
}
CONF
[ "$(id -u)" -ne 0 ] || sed -i '1i user root;' "$work/nginx.conf"
"$(command -v nginx || echo /usr/sbin/nginx)" -p "$work" -c "$work/nginx.conf" -e "$work/nginx.log" & pids+=($!)
redis-server --port 0 --unixsocket "$work/redis.sock" --dir "$work" --save '' --appendonly yes --logfile "$work/redis.log" & pids+=($!)
for _ in $(seq 200); do [ -S "$work/redis.sock" ] || sleep 0.05; done
export HAUL_REDIS="unix://$work/redis.sock"
base="http://127.0.0.1:$port"
cli() { redis-cli -s "$work/redis.sock" "$@"; }

# worker NAME [OPTION…]: starts a worker. Its pid is in $last.
worker() {
    local name="$1"
    shift
    "$haul" worker --root "$work/root" --name "$name" --allow-address 127.0.0.0/8 "$@" 2>>"$work/$name.log" & last=$!
    pids+=("$last")
    within 60 grep -q working "$work/$name.log"
}
# stop PID: ends a worker, and waits until it has returned its jobs to the queue.
stop() { kill "$1" && { wait "$1" || true; }; }
# within SECONDS COMMAND…: waits until the command succeeds. A benchmark that hangs ends.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "gave up waiting: $*" >&2; exit 1; }
        sleep 0.02
    done
}
has_state() { [ "$(cli HGET "haul:{default}:job:$1" state)" = "$2" ]; }
state_is() { within 300 has_state "$@"; }
running_are() { [ "$(cli ZCARD 'haul:{default}:leases')" = "$1" ]; }
queue_is_done() { [ "$(cli LLEN 'haul:{default}:jobs')$(cli ZCARD 'haul:{default}:leases')" = 00 ]; }
now() { date +%s.%N; }
since() { echo "$(now) $1" | awk '{printf "%.3f", $1 - $2}'; }

handover() {
    head -c 1073741824 /dev/urandom >"$work/www/g.bin"
    : >"$work/access.log"
    "$haul" push "$base/paced/g.bin" --id g >/dev/null
    for n in 1 2 3; do
        worker "w$n"
        sleep 2
        "$haul" pause g >/dev/null
        state_is g paused
        stop "$last"
        "$haul" resume g >/dev/null
    done
    worker w4
    state_is g completed
    stop "$last"
    cmp "$work/www/g.bin" "$work/root/g.bin"
    sleep 0.2
    awk '{s += $2} END {printf "handover: 1 GiB paused 3 times, 4 workers: byte-exact, %.1f MiB sent beyond 1 GiB (allowed: 64)\n", (s - 1073741824) / 1048576}' "$work/access.log"
    rm -f "$work"/*/g.bin
}

# took NAME: the seconds from the first claim to the last settle of 2,000 jobs, by Redis' clock.
took() {
    cli --raw EVAL "local a, b = math.huge, 0 for n = 1, 2000 do local v = redis.call('HMGET', 'haul:{default}:job:$1-' .. n, 'started', 'finished')
        a, b = math.min(a, v[1]), math.max(b, v[2]) end return tostring((b - a) / 1000)" 0
}

# As many connections as curl and aria2 have. There are more slots, for files that wait for the disk or for Redis.
#
# Nothing is deleted before the end. For every new file ext4 checks each inode that was freed in the last minutes. That
# makes all programs several times slower. sync first writes what other programs have left in the page cache.
small() {
    need_packages aria2
    mkdir -p "$work/www/s"
    local n round durability start
    for n in $(seq 2000); do head -c 10240 /dev/urandom >"$work/www/s/$n"; done
    : >"$work/small"
    for round in 1 2 3; do
        for durability in disk process; do
            for n in $(seq 2000); do echo "LPUSH haul:{default}:jobs '{\"url\":\"$base/s/$n\",\"id\":\"$durability-$n\",\"path\":\"$durability-$round/$n\"}'"; done | cli >/dev/null
            sync
            cli CONFIG RESETSTAT >/dev/null
            worker "s-$durability-$round" --slots 96 --connections-per-host 16 --durability "$durability"
            # Redis' clock counts. A query takes about 10 ms of a core, and the worker can use all cores.
            sleep 1
            within 120 queue_is_done
            echo "$durability $(took "$durability")" >>"$work/small"
            cli INFO commandstats | tr -d '\r' | awk -F'[:=,]' -v d="$durability" \
                '/cmdstat_(fcall|blmove):/ {c += $3; u += $5} END {printf "small files, %s: %.3f commands and %.0f µs of Redis per job besides its LPUSH\n", d, c / 2000, u / 2000}'
            echo "small files, $durability: $(cat "/proc/$last/task"/*/status | awk '/ctxt/ {s += $2} END {printf "%.1f", s / 2000}') changes of thread and $(awk '{print ($14 + $15) * 5}' "/proc/$last/stat") µs of the worker's CPU per job"
            stop "$last"
            diff -r "$work/www/s" "$work/root/$durability-$round"
            cli FLUSHALL >/dev/null
        done
        mkdir "$work/root/curl-$round" "$work/root/aria2-$round"
        sync
        start="$(now)"
        ( cd "$work/root/curl-$round" && seq -f "url=\"$base/s/%.0f\"" 2000 | sed 'a remote-name' | timeout 120 curl -s -Z --parallel-max 16 -K - )
        echo "curl $(since "$start")" >>"$work/small"
        sync
        start="$(now)"
        ( cd "$work/root/aria2-$round" && seq -f "$base/s/%.0f" 2000 | timeout 120 aria2c -q -j16 --file-allocation=none -i - )
        echo "aria2 $(since "$start")" >>"$work/small"
    done
    sort -k1,1 -k2,2n "$work/small" | awk '{t[$1, ++c[$1]] = $2} END {
        for (k in c) { m[k] = t[k, 2]; printf "small files, all 3: %s %.3f %.3f %.3f s\n", k, t[k, 1], t[k, 2], t[k, 3] }
        printf "small files, medians of 3: process %.3f s, disk %.3f s, curl -Z --parallel-max 16 %.3f s, aria2 -j16 %.3f s\n", m["process"], m["disk"], m["curl"], m["aria2"]
        printf "small files a second, of curl: process %.2f (to reach: 0.8), disk %.2f (0.5); of aria2: process %.1f, disk %.1f (3)\n",
            m["curl"] / m["process"], m["curl"] / m["disk"], m["aria2"] / m["process"], m["aria2"] / m["disk"] }'
    rm -rf "$work/www/s" "$work/root"/*
}

memory() {
    head -c 4294967296 /dev/urandom >"$work/www/m.bin"
    worker m1
    "$haul" push "$base/m.bin" --id m >/dev/null
    state_is m completed
    echo "memory: $(awk '/VmHWM/ {print int($2 / 1024)}' "/proc/$last/status") MiB resident at most during a 4 GiB download"
    stop "$last"
    rm -f "$work"/*/m.bin
    head -c 2000000 /dev/urandom >"$work/www/t.bin"
    worker m2 --slots unlimited --connections 1 --connections-per-host 10000
    seq -f "$base/slow/t.bin?%.0f" 200 | sed 's/.*/{"url":"&","path":"t\/"}/' | "$haul" push - >/dev/null
    within 60 running_are 200
    local before after
    before="$(awk '{print $14 + $15}' "/proc/$last/stat")"
    sleep 4
    after="$(awk '{print $14 + $15}' "/proc/$last/stat")"
    echo "memory: $(awk '/VmHWM/ {print int($2 / 1024)}' "/proc/$last/status") MiB resident at most during 200 concurrent downloads of 200 KB/s, $(((after - before) / 4)) % of a core"
    "$haul" cancel --all --yes >/dev/null
    stop "$last"
    rm -rf "$work/root"/* "$work/www/t.bin"
}

# A thousand slow downloads in one worker, whose bytes arrive unevenly, with no waiting jobs and with 100,000.
many() {
    build_pacer
    local before after id start waiting
    pacer 20000000 100000 0 100
    for waiting in 0 100000; do
        worker "many-$waiting" --slots 1000 --connections 1 --connections-per-host 10000
        seq -f "$url?%.0f" 1000 | sed 's/.*/{"url":"&","path":"t\/","if_exists":"rename"}/' | "$haul" push - >/dev/null
        within 60 running_are 1000
        [ "$waiting" = 0 ] || seq -f "LPUSH haul:{default}:jobs '{\"url\":\"$url?w%.0f\"}'" "$waiting" | cli >/dev/null
        sleep 5
        before="$(awk '{print $14 + $15}' "/proc/$last/stat")"
        sleep 10
        after="$(awk '{print $14 + $15}' "/proc/$last/stat")"
        echo "many: 1,000 downloads of 100 KB/s each in one worker, $waiting jobs waiting: $(awk '/VmHWM/ {print int($2 * 1.024 / 1000)}' "/proc/$last/status") MB resident at most (200), $(((after - before) / 10)) % of a core (20)"
        id="$(cli ZRANGE 'haul:{default}:leases' 500 500)"
        start="$(now)"
        "$haul" pause "$id" >/dev/null
        state_is "$id" paused
        echo "many: one of them paused in $(since "$start") s (3)"
        kill -9 "$last"
        wait "$last" 2>/dev/null || true
        cli FLUSHALL >/dev/null
        rm -rf "$work/root"/*
    done
}

# What the low-water mark saves for slow bodies (Sources/HTTP/Connection/SlowBodyDetector.swift): the same thousand downloads
# alternately with the mark and with a worker that sets none.
mark() {
    build_pacer
    gcc -O2 -shared -fPIC -o "$work/nomark.so" Tests/bench/nomark.c -ldl
    local round state before of preload
    pacer 20000000 100000 0 100
    for round in 1 2 3; do
        for state in with without; do
            preload=
            [ "$state" = with ] || preload="$work/nomark.so"
            LD_PRELOAD="$preload" worker "mark-$state-$round" --slots 1000 --connections 1 --connections-per-host 10000
            seq -f "$url?%.0f" 1000 | sed 's/.*/{"url":"&","path":"t\/","if_exists":"rename"}/' | "$haul" push - >/dev/null
            within 60 running_are 1000
            sleep 5
            before="$(ticks "$last") $(changes "$last")"
            sleep 10
            of="$(ticks "$last") $(changes "$last")"
            echo "$before $of" | awk -v s="$state" '{printf "mark: 1,000 downloads of 100 KB/s each, %s it: %.1f %% of a core, %.0f changes of thread a second\n", s, ($3 - $1) / 10, ($4 - $2) / 10}'
            kill -9 "$last"
            wait "$last" 2>/dev/null || true
            cli FLUSHALL >/dev/null
            rm -rf "$work/root"/*
        done
    done
}

# Opens two pages, as the browser's scripts watch them, and scrapes each exporter once a second.
watch_all() {
    local list='watch=queues%2Fdefault%2Fjobs%3Fstate%3Drunning%26limit%3D100' overview='watch=queues%2Fdefault' past='watch=queues%2Fdefault%2Fhistory%3Fminutes%3D60%26step%3D1'
    curl -sN -o /dev/null "http://127.0.0.1:$1/api/live?$overview&$past" & watchers=("$!")
    curl -sN -o /dev/null "http://127.0.0.1:$1/api/live?$overview&$list" & watchers+=("$!")
    { while :; do curl -s -o /dev/null "http://127.0.0.1:$1/metrics" -o /dev/null "http://127.0.0.1:$2/metrics" || true; sleep 1; done; } & watchers+=("$!")
}
unwatch() { kill "${watchers[@]}" && { wait "${watchers[@]}" 2>/dev/null || true; }; }
# ticks PID: its CPU time in hundredths of a second. changes PID: the context switches of its threads. resident PID: MB.
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
changes() { cat "/proc/$1/task"/*/status | awk '/ctxt/ {s += $2} END {print s}'; }
resident() { awk '/VmRSS/ {printf "%.1f", $2 * 1.024 / 1000}' "/proc/$1/status"; }

# The cost of being watched. 1,000 downloads run, and then 2,000 small files, alternately unwatched and with two open
# pages, scraped metrics and the history. The log level is info throughout.
watched() {
    build_pacer
    local redis web round state page=$((port + 1)) http=$((port + 2)) before of
    redis="$(cli INFO server | tr -d '\r' | awk -F: '/^process_id/ {print $2}')"
    "$haul" web --listen "127.0.0.1:$page" 2>>"$work/web.log" & web=$! && pids+=("$web")
    pacer 20000000 20000 0 100
    worker watched --slots 1000 --connections 1 --connections-per-host 10000 --http "127.0.0.1:$http" --export-queues
    seq -f "$url?%.0f" 1000 | sed 's/.*/{"url":"&","path":"t\/","if_exists":"rename"}/' | "$haul" push - >/dev/null
    within 60 running_are 1000
    sleep 5
    for round in 1 2 3; do
        for state in alone watched; do
            [ "$state" = alone ] || watch_all "$page" "$http"
            sleep 3
            before="$(ticks "$redis") $(ticks "$last") $(ticks "$web")"
            sleep 15
            of="$(ticks "$redis") $(ticks "$last") $(ticks "$web")"
            echo "$before $of" | awk -v s="$state" -v m="$(resident "$last")" -v w="$(resident "$web")" \
                '{printf "watched: 1,000 running, %s: Redis %.2f %% of a core, the worker %.2f %% and %s MB, haul web %.2f %% and %s MB\n", s, ($4 - $1) / 15, ($5 - $2) / 15, m, ($6 - $3) / 15, w}'
            [ "$state" = alone ] || unwatch
        done
    done
    kill -9 "$last"
    wait "$last" 2>/dev/null || true
    cli FLUSHALL >/dev/null
    mkdir -p "$work/www/s"
    for n in $(seq 2000); do head -c 10240 /dev/urandom >"$work/www/s/$n"; done
    for round in 1 2 3; do
        for state in alone watched; do
            [ "$state" = alone ] || watch_all "$page" "$http"
            for n in $(seq 2000); do echo "LPUSH haul:{default}:jobs '{\"url\":\"$base/s/$n\",\"id\":\"$state-$n\",\"path\":\"$state-$round/$n\"}'"; done | cli >/dev/null
            sync
            worker "small-$state-$round" --slots 96 --connections-per-host 16 --durability process --http "127.0.0.1:$http" --export-queues
            sleep 1
            within 120 queue_is_done
            echo "watched: 2,000 small files, $state: $(took "$state") s"
            [ "$state" = alone ] || unwatch
            stop "$last"
            cli FLUSHALL >/dev/null
        done
    done
    kill "$web"
    rm -rf "$work/www/s"
}

# The same for one file of 2 GiB at a time.
watched_large() {
    local web round state start page=$((port + 1)) http=$((port + 2))
    "$haul" web --listen "127.0.0.1:$page" 2>>"$work/web.log" & web=$! && pids+=("$web")
    head -c 2147483648 /dev/urandom >"$work/www/v.bin"
    worker large --durability process --http "127.0.0.1:$http" --export-queues
    for round in 1 2 3; do
        for state in alone watched; do
            [ "$state" = alone ] || watch_all "$page" "$http"
            sync
            start="$(now)"; "$haul" push "$base/v.bin" --id "$state-$round" -o large --if-exists overwrite --wait >/dev/null
            echo "watched: 2 GiB, $state: $(since "$start") s"
            [ "$state" = alone ] || unwatch
            rm -f "$work/root/large"
        done
    done
    stop "$last"
    kill "$web"
    rm -f "$work/www/v.bin"
}

speed() {
    head -c 2147483648 /dev/urandom >"$work/www/v.bin"
    local round start
    worker v-disk --queue vd
    worker v-process --queue vp --durability process
    for round in 1 2 3; do
        start="$(now)"; curl -s -o "$work/root/c" "$base/v.bin"; echo "speed $round: curl $(since "$start") s"
        rm -f "$work/root/c"; sync
        start="$(now)"; curl -s -o "$work/root/c" "$base/v.bin"; sync "$work/root/c"; echo "speed $round: curl and sync of the file $(since "$start") s"
        rm -f "$work/root/c"; sync
        start="$(now)"; "$haul" push "$base/v.bin" --queue vp --id "p$round" -o "p$round" --wait >/dev/null; echo "speed $round: haul, process $(since "$start") s"
        rm -f "$work/root/p$round"; sync
        start="$(now)"; "$haul" push "$base/v.bin" --queue vd --id "d$round" -o "d$round" --wait >/dev/null; echo "speed $round: haul, disk $(since "$start") s"
        rm -f "$work/root/d$round"; sync
    done
}

build_pacer() {
    need_packages gcc libc6-dev
    [ -x "$work/pacer" ] || gcc -O2 -D_GNU_SOURCE -o "$work/pacer" Tests/bench/pacer.c
}
# pacer SIZE PACE SLOW PAUSE: starts pacer.c. Its file is $url.
pacer() {
    : >"$work/pacer.port"
    "$work/pacer" "$@" >"$work/pacer.port" & pids+=($!)
    within 10 test -s "$work/pacer.port"
    url="http://127.0.0.1:$(cat "$work/pacer.port")/f"
}

# Several connections against an origin that gives each the same rate: five rounds, and then with one slow connection.
segments() {
    need_packages aria2
    build_pacer
    local size=2147483648 pace=20000000 part round start n
    part=$((size / 16))
    worker segments --queue segments --connections 16 --connections-per-host 16 --durability process
    ours() {
        start="$(now)"
        "$haul" push "$url" --queue segments --id "h$1" -o h --wait >/dev/null
        since "$start"
        rm -f "$work/root/h"
    }
    aria() {
        start="$(now)"
        timeout 120 aria2c -q -x16 -s16 -k1M --file-allocation=none -d "$work/root" -o a "$url"
        since "$start"
        rm -f "$work/root"/a*
    }
    pacer "$size" "$pace" 0 0
    : >"$work/ratios"
    for round in 1 2 3 4 5; do
        start="$(now)"
        local each=()
        for n in $(seq 0 15); do curl -s -o "$work/root/p$n" -r "$((n * part))-$((n * part + part - 1))" "$url" & each+=($!); done
        wait "${each[@]}"
        local curls haul_
        curls="$(since "$start")"
        rm -f "$work/root"/p*
        haul_="$(ours "$round")"
        echo "segments $round: 16 curls started together, each a sixteenth at 20 MB/s, $curls s; haul, through the bus, $haul_ s"
        awk "BEGIN {printf \"%.3f\\n\", $curls / $haul_}" >>"$work/ratios"
    done
    echo "segments: aria2 -x16 $(aria) s"
    echo "segments: $(sort -n "$work/ratios" | sed -n 3p) of what 16 curls reach, median of $(sort -n "$work/ratios" | tr '\n' ' ')(to reach: 0.97)"
    pacer "$size" "$pace" 5 0
    haul_="$(ours slow)"
    awk "BEGIN {ideal = $size / (15 * 20e6 + 1e6); printf \"segments, one connection 20 times slower: haul %.2f s, %.3f of the ideal %.2f s (at most 1.2)\\n\", $haul_, $haul_ / ideal, ideal}"
    pacer "$size" "$pace" 5 0
    echo "segments, one connection 20 times slower: aria2 -x16 $(aria) s"
}

# One file of 2 GiB through other downloaders.
downloaders() {
    need_packages aria2 wget2 axel openssl
    head -c 2147483648 /dev/urandom >"$work/www/v.bin"
    local sum round
    sum="$(sha256sum "$work/www/v.bin" | cut -d' ' -f1)"
    measure() {
        local name="$1"
        shift
        rm -rf "$work/root/x"
        mkdir "$work/root/x"
        sync
        ( cd "$work/root/x" && TIMEFORMAT="downloaders $round: $name %R s, %U + %S s of CPU"; time timeout 120 "$@" >/dev/null 2>&1 )
        rm -rf "$work/root/x"
    }
    for round in 1 2 3; do
        measure "curl" curl -s -o f "$base/v.bin"
        measure "curl and sync" sh -c "curl -s -o f $base/v.bin && sync f"
        measure "wget2" wget2 -q -O f "$base/v.bin"
        measure "aria2 -x1" aria2c -q --file-allocation=none -x1 -s1 -o f "$base/v.bin"
        measure "aria2 -x16" aria2c -q --file-allocation=none -x16 -s16 -k1M -o f "$base/v.bin"
        measure "axel" axel -q -n 8 -o f "$base/v.bin"
        measure "haul get, process" "$haul" get --durability process -o f "$base/v.bin"
        measure "haul get -x 16, process" "$haul" get -x 16 --durability process -o f "$base/v.bin"
        measure "haul get, disk" "$haul" get -o f "$base/v.bin"
        measure "haul get, process, sha256" "$haul" get --durability process --checksum "sha256:$sum" -o f "$base/v.bin"
        ( TIMEFORMAT="downloaders $round: openssl dgst -sha256 %R s"; time openssl dgst -sha256 "$work/www/v.bin" >/dev/null )
    done
    rm -f "$work/www/v.bin"
}

# What a process costs that downloads one small file: Tests/bench/start.py. HAUL should be the program of a release.
start() {
    need_packages aria2 strace wget2
    head -c 520 /dev/urandom >"$work/www/start"
    python3 -B Tests/bench/start.py "$haul" "$work" "$base/start" "${RUNS:-200}"
}

# Every row of the docs that compares haul get with curl, wget2 and aria2: what it can do, its start, large files, CPU, and
# networks. It needs root, and an hour.
get() {
    need_packages aria2 wget2 openssl strace
    python3 -B Tests/peers/downloaders.py "$haul"
    start
    downloaders
    cpu
    HAUL="$haul" Tests/bench/networks/run.sh
}

# The CPU time of small files and of a large one, beside other programs: Tests/bench/cost.py.
cpu() {
    need_packages gcc libc6-dev libcurl4-openssl-dev openssl wget2
    python3 -B Tests/bench/cost.py "$haul" "$(mktemp -d -p "$work")"
}

# The bus alone, with a Redis of its own: Tests/bench/bus.py. "cancel" is the cancel of 104,000 jobs.
bus() {
    head -c 200000 /dev/urandom >"$work/www/crawl.bin"
    head -c 1024 /dev/urandom >"$work/www/k"
    python3 -B Tests/bench/bus.py "$haul" "$(mktemp -d -p "$work")" "$base" "$@"
    rm -f "$work/www/crawl.bin" "$work/www/k"
}
cancel() { bus cancel; }
# Small jobs a second with one server and with partitions over several: Tests/bench/partitions.py.
partitions() {
    head -c 1024 /dev/urandom >"$work/www/k"
    python3 -B Tests/bench/partitions.py "$haul" "$(mktemp -d -p "$work")" "$base" "${JOBS:-20000}"
}
late() { bus late; }

# The cost of elements in Redis, for the largest and the most unusual ones: Tests/bench/elements.py.
elements() { python3 -B Tests/bench/elements.py "$haul" "$(mktemp -d -p "$work")"; }

# Our Redis client beside redis-benchmark with as many commands in flight, and its system calls per command.
client() {
    need_packages strace
    swift build -c release --product redis-bench >/dev/null
    local bench socket="$work/client.sock" command pair callers others rates ours theirs cpu
    bench="$(swift build -c release --show-bin-path)/redis-bench"
    redis-server --port 0 --unixsocket "$socket" --save '' --logfile "$work/client.log" & pids+=($!)
    until [ -S "$socket" ]; do sleep 0.05; done
    median() { sort -n | sed -n 2p; }
    for command in get set; do
        for pair in '1 -c 1 -P 1' '50 -c 50 -P 1' '1000 -c 50 -P 16'; do
            callers="${pair%% *}"
            others="${pair#* }"
            rates="$(for _ in 1 2 3; do "$bench" "unix://$socket" $command "$callers" $((callers == 1 ? 30000 : 500000)); done)"
            ours="$(cut -d' ' -f1 <<<"$rates" | median)"
            cpu="$(cut -d' ' -f2 <<<"$rates" | median)"
            # shellcheck disable=SC2086
            theirs="$(for _ in 1 2 3; do redis-benchmark -s "$socket" $others -n $((callers == 1 ? 30000 : 500000)) -t $command --csv; done | grep -i "\"$command\"" | cut -d'"' -f4 | median)"
            echo "$ours $theirs $cpu" | awk -v c=$command -v n="$callers" -v o="$others" \
                '{printf "client: %s, %d callers: %d a second, %.1f µs of CPU each; redis-benchmark %s: %d a second: ratio %.2f\n", c, n, $1, $3 / 1000, o, $2, $1 / $2}'
        done
    done
    for callers in 1 50 1000; do
        strace -f -c -o "$work/calls" "$bench" "unix://$socket" get "$callers" 20000 >/dev/null
        awk -v n="$callers" '$NF ~ /^(sendto|recvfrom|epoll_wait|epoll_ctl|read|write)$/ {c[$NF] = $4; s += $4}
            END {printf "client: %d callers: %.3f system calls of the loop for each command: %.3f send, %.3f recv, %.3f epoll_wait, %.3f epoll_ctl, %.3f to wake it\n",
                n, s / 20000, c["sendto"] / 20000, c["recvfrom"] / 20000, c["epoll_wait"] / 20000, c["epoll_ctl"] / 20000, (c["read"] + c["write"]) / 20000}' "$work/calls"
    done
}

# Other queues, each in a venv of its own from PyPI, and Sidekiq from Debian.
venvs() {
    local venvs=.build/bench-peers name
    need_packages ruby ruby-sidekiq
    for name in bullmq celery dramatiq rq arq saq huey; do
        [ ! -e "$venvs/$name/installed" ] || continue
        python3 -m venv "$venvs/$name"
        case $name in
        celery | dramatiq) "$venvs/$name/bin/pip" install -q "${name}[redis]" ;;
        saq) "$venvs/$name/bin/pip" install -q 'saq[redis]' typing_extensions ;;
        *) "$venvs/$name/bin/pip" install -q "$name" redis ;;
        esac
        touch "$venvs/$name/installed"
    done
}

# Beside these queues: Tests/bench/peers/peers.py.
peers() {
    venvs
    python3 -B Tests/bench/peers/peers.py "$haul" "$(mktemp -d -p "$work")" .build/bench-peers "$base/noop" --jobs "${JOBS:-2000}" ${HAUL_PEERS_JSON:+--json "$HAUL_PEERS_JSON"}
}

# The rows of the second table of docs/evaluate/performance.md, and the table: their figures go to the file that
# $HAUL_BENCH_RESULTS names. It needs root, and refuses to start beside other work.
publish() {
    HAUL_BENCH_RESULTS="$(realpath -m "${HAUL_BENCH_RESULTS:?names the file of the figures}")"
    haul="$(realpath "$haul")"
    export HAUL_BENCH_RESULTS HAUL="$haul"
    # What is installed must not be work beside the first row.
    need_packages aria2 wget2 openssl strace time iproute2 iputils-ping iperf3 nghttp2-proxy gcc libc6-dev util-linux rclone
    need_object_servers
    Tests/bench/bucket.sh --parts
    venvs
    # Only what it installs matters here.
    env -u HAUL_BENCH_RESULTS Tests/web/run.sh "$haul" --streams --jobs 1000 --seconds 1 || true
    echo "waiting until the machine is quiet"
    for _ in $(seq 60); do
        if python3 -B Tests/bench/results.py is-quiet; then break; fi
        sleep 10
    done
    PATH="$PWD/.build/bench-tools/bin:$PATH" python3 -B Tests/bench/results.py begin "$HAUL_BENCH_RESULTS" "$haul"
    Tests/bench/networks/run.sh --rows clean,clean-tls --tools curl,aria2,wget2,get
    # With one connection curl and wget2 need half a minute there.
    Tests/bench/networks/run.sh --rows wide,wide-8,tuned,tuned-8 --tools aria2,get
    python3 -B Tests/bench/cost.py "$haul" "$(mktemp -d -p "$work")" tiny calls memory small_jobs neighbour
    python3 -B Tests/bench/stalled.py "$haul" "$(mktemp -d -p "$work")"
    late
    Tests/chaos/recovery.sh --stalls 0
    local server
    for server in rgw weed; do Tests/bench/bucket.sh --server $server --parts speed small --size 1024 --count 500 --repeat 3; done
    JOBS=1000 peers
    Tests/web/run.sh "$haul" --streams
    python3 -B Tests/bench/render.py "$HAUL_BENCH_RESULTS"
}

uname -rm; nproc
all=(handover small memory many mark watched watched_large speed segments downloaders start cpu bus cancel partitions elements client peers)
[ $# -gt 0 ] || set -- "${all[@]}"
for part in "$@"; do "$part"; done
