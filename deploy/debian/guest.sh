#!/usr/bin/env bash
# Runs as root in the Debian that test.sh boots: installs, uses, upgrades and removes the package.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

say() { printf -- '-- %s\n' "$*"; }
fail() { echo "failed: $*" && exit 1; }
# eventually WHAT COMMAND…: runs the command until it succeeds, for at most 30 seconds.
eventually() {
    local what=$1 end=$((SECONDS + 30))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "waited 30 s for $what"
        sleep 0.1
    done
}
same() { [ "$1" = "$2" ] || fail "$3: \"$1\", not \"$2\""; }
operator() { redis-cli --no-auth-warning -u redis://operator:OPERATOR-PASSWORD@127.0.0.1 "$@"; }
# page NAME: runs the block with this name of the pages for operators, as a reader would.
page() {
    local block
    block=$(awk -v fence="\`\`\`sh $1" -v end='```' '$0 == fence { on = 1; next } $0 == end { on = 0 } on' /root/{install,redis,upgrade}.md)
    [ -n "$block" ] || fail "the pages have no block $1"
    bash -euo pipefail -c "$block"
}
job() { operator HGET "haul:{default}:job:$1" "$2"; }
is() { [ "$(job "$1" "$2")" = "$3" ]; }
count_workers() { [ "$(operator ZCARD 'haul:{default}:workers')" = "$1" ]; }
main_process() { systemctl show --property MainPID --value "haul-worker@$1"; }

say "a Redis with our configuration and roles, and a web server"
# The file has no passwords. Here the role `worker` gets WORKER-PASSWORD.
sed -E 's/^user ([a-z]+) on #0{64}/user \1 on >\U\1\E-PASSWORD/' /root/users.acl >/etc/redis/users.acl
printf 'include /root/redis.conf\naclfile /etc/redis/users.acl\nport 6379\nbind 127.0.0.1\ndir /var/tmp\n' >/var/tmp/redis.conf
systemd-run --quiet --unit=test-redis redis-server /var/tmp/redis.conf
eventually Redis operator PING
mkdir -p /var/www/files
head -c 40000000 /dev/urandom >/var/www/files/big
head -c 4000 /dev/urandom >/var/www/files/small
cat >/var/tmp/nginx.conf <<'CONF'
daemon off; pid /run/nginx-test.pid; error_log /var/tmp/nginx.log;
events { worker_connections 256; }
http {
    log_format sent '$uri $body_bytes_sent'; access_log /var/tmp/sent sent;
    server { listen 127.0.0.1:8080; root /var/www/files; location /big { limit_rate 500k; } }
}
CONF
systemd-run --quiet --unit=test-origin nginx -c /var/tmp/nginx.conf
eventually nginx test -s /run/nginx-test.pid

say "install"
cd /root/first && page install | grep -E '^(Unpacking|Setting up|[0-9])'
same "$(stat -c '%U %a' /var/lib/haul/downloads)" "haul 750" "the root of the workers"
same "$(stat -c '%U %a' /etc/haul/redis)" "root 600" "the file with the password"
same "$(systemctl list-units --no-legend 'haul-*' | wc -l)" 0 "units that start unasked"
for file in /usr/share/man/man1/haul.1.gz /usr/share/bash-completion/completions/haul /usr/share/doc/haul/{operate/install.md,reference/openapi.json,reference/schema/event.json} \
    /usr/share/doc/haul/examples/{users.acl,prometheus.yml,kubernetes/base/worker.yaml}; do
    [ -s "$file" ] || fail "$file is missing"
done

say "systemd has no complaints about the units"
same "$(systemd-analyze verify --man=no haul-worker@1.service haul-web.service 2>&1)" "" verify
for unit in haul-worker@1.service haul-web.service; do
    systemd-analyze security "$unit" | tail -n 1
    systemd-analyze security --threshold=20 "$unit" >/dev/null || fail "$unit is exposed to more than 2.0"
done

say "two workers under their units"
printf 'slots = 5\nallow-address = 127.0.0.0/8\n' >>/etc/haul/worker.conf
page first
systemctl start haul-worker@2
eventually "two workers" count_workers 2
same "$(ps -o user= -p "$(main_process 1)")" haul "the user of the worker"
grep -q '^NoNewPrivs:.1' "/proc/$(main_process 1)/status" || fail "the worker may gain privileges"
same "$(grep -c WORKER-PASSWORD "/proc/$(main_process 1)/environ" || true)" 0 "passwords in the environment"
producer() { redis-cli --no-auth-warning -u redis://producer:PRODUCER-PASSWORD@127.0.0.1 LPUSH 'haul:{default}:jobs' "$1"; }
producer '{"url":"http://127.0.0.1:8080/small","id":"small"}'
eventually "the small file" is small state completed
cmp /var/www/files/small /var/lib/haul/downloads/small

say "a reload takes new settings, and the page runs under its unit"
sed -i 's/^slots = 5/slots = 6/' /etc/haul/worker.conf
systemctl reload haul-worker@1
six() { [ "$(operator HGET "haul:{default}:worker:$(hostname)-1" slots)" = 6 ]; }
eventually "six slots" six
sed -i 's/^slots = 6/slots = 5/' /etc/haul/worker.conf
echo 'redis://web:WEB-PASSWORD@127.0.0.1' >/etc/haul/redis-web
# The page reads its users as a credential, as docs/operate/web.md says. The service's own user could not read the file.
install -m 600 /dev/null /etc/haul/web-auth
echo secret-of-alice | haul web hash-password alice --role operator >>/etc/haul/web-auth
page_users=$(awk '/^    \[Service\]$/ { on = 1 } on && /^$/ { exit } on { print substr($0, 5) }' /root/web.md)
mkdir -p /etc/systemd/system/haul-web.service.d
echo "$page_users" >/etc/systemd/system/haul-web.service.d/users.conf
systemctl daemon-reload
systemctl start haul-web
journalctl -u haul-web -o cat | grep -q 'can read the hashes' && fail "the page warns of a credential"
exec 3<>/dev/tcp/127.0.0.1/8484
printf 'GET /api/queues HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
grep -q ' 401 ' <&3 || fail "the page asks for no password"
exec 3>&-
exec 3<>/dev/tcp/127.0.0.1/8484
printf 'GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
grep -q ' 200 ' <&3 || fail "the page is not ready"
exec 3>&-

say "an upgrade while a file is on its way"
producer '{"url":"http://127.0.0.1:8080/big","id":"big","connections":4}'
has_checkpoint() { [ "$(operator HLEN 'haul:{default}:offsets:big')" -ge 1 ]; }
eventually "a checkpoint" has_checkpoint
before="$(main_process 1) $(main_process 2)"
cd /root/second && page upgrade | grep -E '^(Unpacking|Setting up|  haul)'
after="$(main_process 1) $(main_process 2)"
echo "processes before: $before, after: $after"
for process in $before; do
    case " $after " in *" $process "*) fail "process $process was not replaced" ;; esac
done
eventually "two workers again" count_workers 2
is big state completed && fail "the file was done before the upgrade was"
eventually "the big file" is big state completed
cmp /var/www/files/big /var/lib/haul/downloads/big
sent=$(awk '$1 == "/big" { sum += $2 } END { print sum }' /var/tmp/sent)
echo "a file of 40000000 bytes: the server sent $sent; attempts that failed: $(job big attempt)"
[ "$sent" -lt 60000000 ] || fail "too much was sent again"
grep -q '^slots = 5' /etc/haul/worker.conf || fail "the configuration was replaced"

say "a worker that hangs is ended by the watchdog, and started again"
mkdir -p /run/systemd/system/haul-worker@2.service.d
printf '[Service]\nWatchdogSec=3\n' >/run/systemd/system/haul-worker@2.service.d/short.conf
systemctl daemon-reload && systemctl restart haul-worker@2
hung=$(main_process 2)
kill -STOP "$hung"
replaced() { [ "$(main_process 2)" != "$hung" ] && systemctl is-active haul-worker@2; }
eventually "another process" replaced
same "$(systemctl show --property NRestarts --value haul-worker@2)" 1 "restarts"

say "a stop returns running jobs to the queue"
rm -f /var/www/files/big && head -c 40000000 /dev/urandom >/var/www/files/big
producer '{"url":"http://127.0.0.1:8080/big","id":"drained"}'
eventually "a run" is drained state running
start=$SECONDS
page stop
echo "stopped within $((SECONDS - start + 1)) s"
same "$(systemctl show --property Result --value haul-worker@1)" success "how it ended"
case "$(job drained state)" in queued | scheduled) ;; *) fail "the job is $(job drained state)" ;; esac

say "remove, and purge"
systemctl enable --quiet --now haul-worker@1
apt-get remove -y haul | grep -E '^Removing'
same "$(pgrep -c -x haul || true)" 0 "processes after the removal"
[ -e /etc/haul/worker.conf ] || fail "a removal took the configuration"
# The drop-in is the operator's own, and not the package's.
rm -r /etc/systemd/system/haul-web.service.d
apt-get purge -y haul | grep -E '^Purging'
left=$(find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /var/lib/haul -o -path /var/log -o -path /run \) -prune -o \
    -name '*haul*' -print)
same "$left" "" "files after the purge"
cmp /var/www/files/small /var/lib/haul/downloads/small
say "the downloads are still there: all well"
