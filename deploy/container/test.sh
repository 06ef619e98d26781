#!/usr/bin/env bash
# Tests the image without a container engine: carries out its last two stages in a Debian of its own, and runs the
# result as process 1 of its namespaces, as the image's user, on a read-only root.
#   deploy/container/test.sh [--binary FILE]
# --binary is a release build with static Swift libraries. Without it the script makes one. Run it as root.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh
# shellcheck source=deploy/lib/debian.sh
. deploy/lib/debian.sh

binary=''
while [ $# -gt 0 ]; do
    case $1 in
    --binary) binary=$2 && shift ;;
    *) echo "test.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
[ "$(id -u)" -eq 0 ] || { echo "test.sh: run this as root: it uses chroot" >&2; exit 2; }
need_packages "${RUN_PACKAGES[@]}" "${DEBIAN_PACKAGES[@]}" bubblewrap nginx-light
if [ -z "$binary" ]; then
    need_swift
    need_packages "${BUILD_PACKAGES[@]}"
    swift build -c release --static-swift-stdlib --product haul
    binary="$(swift build -c release --static-swift-stdlib --show-bin-path)/haul"
fi

work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
fail() { echo "failed: $*" >&2 && exit 1; }
eventually() {
    local what=$1 end=$((SECONDS + 20))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { cat "$work"/*.log >&2; fail "waited 20 s for $what"; }
        sleep 0.1
    done
}

echo "-- the stages"
base=$(debian_base)
mkdir "$work/system"
tar -C "$work/system" -xf "$base"
install -D -s "$binary" "$work/system/usr/bin/haul"
cp deploy/container/collect.sh "$work/system/collect.sh"
chroot "$work/system" /bin/bash /collect.sh /image
image=$work/system/image
echo "$(du -s --apparent-size -B 1000000 "$image" | cut -f 1) MB, $(tar -C "$image" -c . | gzip -6 | wc -c | awk '{ printf "%.0f", $1 / 1e6 }') MB compressed, $(find "$image" -type f | wc -l) files"
[ "$(find "$image" -type l ! -xtype f ! -xtype d -printf '%p -> %l\n' | grep -cv ' -> /' || true)" = 0 ] || fail "links that lead nowhere"

# setting NAME: prints an instruction of the Dockerfile.
setting() { sed -n "s/^$1 //p" deploy/container/Dockerfile | tail -n 1; }
user=$(setting USER)
[ "$user" = 64640:64640 ] || fail "the user is $user"
health=$(setting HEALTHCHECK | grep -o 'CMD .*')
[ "$health" = 'CMD ["haul", "health"]' ] || fail "the health check is $health"

echo "-- a Redis and a web server on loopback"
port=$((20000 + RANDOM % 10000))
redis-server --port $port --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log" & pids+=($!)
mkdir -p "$work/www" "$work/downloads" && chmod 755 "$work" "$work/www"
head -c 20000000 /dev/urandom >"$work/www/big"
cat >"$work/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log; user root;
events { worker_connections 64; }
http {
    access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3;
    uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
    server { listen 127.0.0.1:$((port + 1)); root $work/www; limit_rate 2m; }
}
CONF
/usr/sbin/nginx -p "$work" -c "$work/nginx.conf" -e "$work/nginx.log" & pids+=($!)
eventually Redis redis-cli -p $port ping
chown "$user" "$work/downloads"

# container COMMAND…: runs it as process 1 in namespaces of its own, but with this machine's network.
container() {
    bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --as-pid-1 --die-with-parent --cap-drop ALL \
        --uid "${user%:*}" --gid "${user#*:}" --clearenv --setenv PATH /usr/bin --setenv HAUL_REDIS "redis://127.0.0.1:$port" \
        --setenv HAUL_HTTP "127.0.0.1:$((port + 2))" --setenv HAUL_ROOT /var/lib/haul/downloads --setenv HAUL_NAME boxed \
        --setenv HAUL_ALLOW_ADDRESS 127.0.0.0/8 --ro-bind "$image" / --proc /proc --dev /dev \
        --bind "$work/downloads" /var/lib/haul/downloads "$@"
}
echo "-- a worker in it"
setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups bash -c "$(declare -f container); user='$user' port=$port image='$image' work='$work'; container haul worker" 2>"$work/worker.log" & pids+=($!)
runner=$!
eventually "the worker to be well" container haul health
job() { redis-cli -p "$port" HGET 'haul:{default}:job:big' "$1"; }
is() { [ "$(job state)" = "$1" ]; }
redis-cli -p $port LPUSH 'haul:{default}:jobs' "{\"url\":\"http://127.0.0.1:$((port + 1))/big\",\"id\":\"big\",\"connections\":2}" >/dev/null
eventually "the job to run" is running
[ "$(redis-cli -p $port HGET 'haul:{default}:worker:boxed' pid)" = 1 ] || fail "it is not process 1"
process=$(pgrep -P "$runner" || true)
echo "-- SIGTERM to process 1"
start=$SECONDS
worker=$(pgrep -f '^haul worker$' -u "${user%:*}" | head -n 1)
kill -TERM "${worker:-$process}"
wait "$runner" || fail "it ended with status $?"
echo "ended with status 0 within $((SECONDS - start + 1)) s; the job is $(job state)"
is queued || is scheduled || fail "the job was not put back"
echo "-- another one continues"
setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups bash -c "$(declare -f container); user='$user' port=$port image='$image' work='$work'; container haul worker" 2>>"$work/worker.log" & pids+=($!)
eventually "the file" is completed
cmp "$work/www/big" "$work/downloads/big"
[ "$(stat -c %u "$work/downloads/big")" = "${user%:*}" ] || fail "the file belongs to another user"
echo "all well"
