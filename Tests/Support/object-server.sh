#!/usr/bin/env bash
# object-server.sh rgw|weed|mini DIRECTORY: a real S3 server on loopback with the bucket "test", in the foreground. All its
# data is in DIRECTORY. The script prints "ready ENDPOINT" (key: testkey, secret: testsecret), and runs until a signal
# ends it. Then it kills what it has started. DIRECTORY/gateway has the gateway's process id. If the gateway is killed,
# the script starts a new one with the same data, once DIRECTORY/hold is absent.
#   rgw    Ceph's radosgw with a monitor and a store of its own: ceph-mon, ceph-osd and radosgw of Debian
#   weed   SeaweedFS: the program weed ($HAUL_WEED, or in PATH)
#   mini   MiniStack: the program ministack ($HAUL_MINISTACK, or in PATH). It keeps all objects in memory
set -euo pipefail
kind=$1 D=$(mkdir -p "$2" && cd "$2" && pwd -P)
script=$(realpath "${BASH_SOURCE[0]}")
key=testkey secret=testsecret bucket=test
mkdir -p "$D/log" "$D/sock"

die() { echo "object-server: $*" >&2; exit 1; }

# free_ports N: prints N free ports of loopback.
free_ports() {
    python3 - "$1" <<'PY'
import random, socket, sys
found, held = [], []
for _ in range(2000):
    port = random.randint(20000, 31000)  # below those that the kernel gives to connections
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
    except OSError:
        continue
    held.append(s)
    found.append(port)
    if len(found) == int(sys.argv[1]):
        break
else:
    sys.exit("no free ports")
print(*found)
PY
}

answers() { [ "$(curl -s -o /dev/null --max-time 2 -w '%{http_code}' "http://127.0.0.1:$1$2" || true)" != 000 ]; }

s3() { # METHOD PATH [OPTION…]: prints the status of the response
    curl -s -o /dev/null --max-time 10 -w '%{http_code}' --aws-sigv4 aws:amz:us-east-1:s3 -u "$key:$secret" \
        -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -X "$1" "http://127.0.0.1:$port$2" "${@:3}" || true
}

# wait_for COMMAND…: waits up to 80 s for the command to succeed. Starts over if the gateway ends.
wait_for() {
    local end=$((SECONDS + 80))
    while [ $SECONDS -lt $end ]; do
        "$@" && return
        kill -0 "$gateway" 2>/dev/null || begin_again
        sleep 0.05
    done
    tail -n 20 "$D/log/gateway" >&2
    die "$kind: $* did not come true, see $D/log"
}

# Restarts the whole script with other ports, because another process took one of the ports before it was used.
begin_again() {
    local tries=${HAUL_OBJECT_SERVER_TRIES:-1}
    tail -n 20 "$D/log/gateway" >&2
    [ "$tries" -lt 4 ] || die "$kind ends by itself, see $D/log"
    # shellcheck disable=SC2046
    kill -9 $(jobs -p) 2>/dev/null || true
    wait  # until no child has a file of the directory open
    find "$D" -mindepth 1 -delete
    HAUL_OBJECT_SERVER_TRIES=$((tries + 1)) exec bash "$script" "$kind" "$D"
}

setup_rgw() {
    local monitor fsid osd
    read -r monitor port <<<"$(free_ports 2)"
    fsid=$(cat /proc/sys/kernel/random/uuid) osd=$(cat /proc/sys/kernel/random/uuid)
    mkdir -p "$D"/{mon,osd,rgw}
    cat >"$D/ceph.conf" <<CONF
[global]
fsid = $fsid
mon_host = v2:127.0.0.1:$monitor
ms_bind_msgr1 = false
ms_bind_ipv6 = false
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_client_mode = crc
run_dir = $D/sock
admin_socket = $D/sock/\$name.asok
log_file = $D/log/\$name.log
crash_dir = $D/log
heartbeat_file = $D/sock/\$name.hb
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 2
osd_pool_default_pgp_num = 2
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
[mon]
mon_data = $D/mon
paxos_propose_interval = 0.01
paxos_min_wait = 0.01
mon_data_avail_crit = 0
mon_data_avail_warn = 0
[osd]
osd_data = $D/osd
osd_objectstore = bluestore
bluestore_block_size = $((40 << 30))
bluestore_block_create = true
bluestore_fsck_on_mkfs = false
bdev_aio_poll_ms = 5
osd_memory_target = 939524096
osd_max_object_name_len = 256
osd_max_object_namespace_len = 64
[client.rgw.a]
rgw_data = $D/rgw
rgw_frontends = beast endpoint=127.0.0.1:$port
rgw_thread_pool_size = 32
rgw_enable_usage_log = false
# Deleted data is removed after seconds, not after two hours.
rgw_gc_obj_min_wait = 5
rgw_gc_processor_period = 10
rgw_gc_processor_max_time = 10
# If a gateway is killed while it completes an upload, the upload stays locked for seconds, not for ten minutes.
rgw_mp_lock_max_time = 15
# The seconds that count as a day of a lifecycle rule. -1: a real day.
rgw_lc_debug_interval = ${HAUL_LIFECYCLE_DAY:--1}
CONF
    export CEPH_ARGS='' CEPH_CONF=$D/ceph.conf
    {
        monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$monitor]" "$D/monmap"
        ceph-mon -i a --mkfs --monmap "$D/monmap"
    } >"$D/log/setup" 2>&1 || die "the monitor cannot be made, see $D/log/setup"
    ceph-mon -f -i a </dev/null >"$D/log/mon" 2>&1 &
    {
        timeout 30 ceph osd new "$osd"
        ceph-osd -i 0 --mkfs --osd-uuid "$osd"
    } >>"$D/log/setup" 2>&1 || die "the store of radosgw cannot be made, see $D/log/setup"
    ceph-osd -f -i 0 </dev/null >"$D/log/osd" 2>&1 &
}

gateway_rgw() { exec radosgw -f -n client.rgw.a </dev/null >>"$D/log/gateway" 2>&1; }

user_rgw() {
    timeout 60 radosgw-admin user create --uid=test --display-name=test --access-key="$key" --secret-key="$secret" \
        >"$D/log/user" 2>&1 || die "radosgw has made no user, see $D/log/user"
}

setup_weed() {
    # By default weed uses each port + 10000 for gRPC. The kernel may have given that port to a connection.
    read -r port master volume filer s3_grpc master_grpc volume_grpc filer_grpc <<<"$(free_ports 8)"
    mkdir -p "$D/data"
    printf '{"identities":[{"name":"test","credentials":[{"accessKey":"%s","secretKey":"%s"}],"actions":["Admin","Read","Write","List","Tagging"]}]}\n' \
        "$key" "$secret" >"$D/s3.json"
}

gateway_weed() {
    cd "$D"
    GOMEMLIMIT=1500MiB exec "${HAUL_WEED:-weed}" -logtostderr=true server -dir="$D/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 \
        -master.telemetry=false -master.peers=none -master.port="$master" -master.port.grpc="$master_grpc" \
        -volume.port="$volume" -volume.port.grpc="$volume_grpc" \
        -filer -filer.port="$filer" -filer.port.grpc="$filer_grpc" -filer.localSocket="$D/sock/filer" \
        -s3 -s3.port="$port" -s3.port.grpc="$s3_grpc" -s3.localSocket="$D/sock/s3" \
        -s3.config="$D/s3.json" -s3.iam=false -s3.port.iceberg=0 -s3.port.lance=0 -s3.autoCreateBucket=false \
        -master.volumeSizeLimitMB=1024 -volume.max=64 -volume.minFreeSpace=500MiB -volume.preStopSeconds=0 </dev/null >>"$D/log/gateway" 2>&1
}

user_weed() { :; }

setup_mini() {
    port=$(free_ports 1)
    mkdir -p "$D/state"
}

gateway_mini() {
    cd "$D"
    AWS_ACCESS_KEY_ID=$key AWS_SECRET_ACCESS_KEY=$secret SERVICES=s3 GATEWAY_PORT=$port BIND_HOST=127.0.0.1 \
        TMPDIR=$D STATE_DIR=$D/state LOG_LEVEL=WARNING exec "${HAUL_MINISTACK:-ministack}" </dev/null >>"$D/log/gateway" 2>&1
}

user_mini() { :; }

has_bucket() { case $(s3 PUT "/$bucket") in 200 | 409) true ;; *) false ;; esac }
# The first object creates what later ones use, such as pools and volumes.
takes_objects() { [ "$(s3 PUT "/$bucket/.first" --data-binary x)" = 200 ]; }

case $kind in rgw | weed | mini) ;; *) die "rgw, weed or mini, not $kind" ;; esac
trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT
trap 'exit 0' TERM INT
"setup_$kind"
is_ready=no
while :; do
    ("gateway_$kind") &
    gateway=$!
    echo "$gateway" >"$D/gateway"
    if [ $is_ready = no ]; then
        wait_for answers "$port" /
        "user_$kind"
        wait_for has_bucket
        wait_for takes_objects
        s3 DELETE "/$bucket/.first" >"$D/log/first"
        is_ready=yes
        echo "ready http://127.0.0.1:$port"
    fi
    wait "$gateway" || true
    while [ -e "$D/hold" ]; do sleep 0.05; done
done
