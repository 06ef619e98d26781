#!/usr/bin/env bash
# Makes the recording of README.md from a real terminal session: two workers, one of which is killed in the middle of a file.
#   Tests/docs/recording.sh HAUL [FILE.svg]     (docs/images/recording.svg without the name)
# The session fails, and no file is written, unless the other worker completes the file with the right checksum.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source=deploy/lib/packages.sh
. "$repository/deploy/lib/packages.sh"
# shellcheck source=deploy/lib/nginx.sh
. "$repository/deploy/lib/nginx.sh"
haul=$(realpath "${1:?the program haul}")
output=$(realpath "${2:-$repository/docs/images/recording.svg}")
need_packages "${RUN_PACKAGES[@]}" nginx-light tmux

# termtosvg draws what a terminal shows. It is no longer developed, but does this well.
venv=$repository/.build/recording
if [ ! -x "$venv/bin/termtosvg" ]; then
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check termtosvg==1.1.0
fi

work=$(mktemp -d)
pids=()
finish() {
    tmux -L "haul-$$" kill-server 2>/dev/null || true
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# wait_for SECONDS COMMAND…
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "recording.sh: did not come true: $*" >&2; exit 1; }
        sleep 0.05
    done
}

mkdir -p "$work"/{origin,files}
head -c 240000000 /dev/urandom >"$work/origin/film.mkv"
port=$((20000 + RANDOM % 10000)) redis_port=$((port + 1))
serve_files "$work/origin" "$port" 1200k "$work"; pids+=($!)
redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >"$work/redis.log" & pids+=($!)
redis() { redis-cli -p "$redis_port" "$@"; }
wait_for 10 redis PING >/dev/null
export HAUL_REDIS=redis://127.0.0.1:$redis_port
for name in one two; do
    "$haul" worker --root "$work/files" --name "$name" --allow-address 127.0.0.0/8 2>"$work/$name.log" & pids+=($!)
    echo $! >"$work/$name.pid"
done 2>/dev/null
workers() { [ "$(redis ZCARD 'haul:{default}:workers')" = "$1" ]; }
wait_for 10 workers 2

# The session: commands above, what they do below. The commands have no ports, because the shell's functions add them.
checksum=$(sha256sum <"$work/origin/film.mkv" | cut -d ' ' -f 1)
cat >"$work/shell" <<SHELL
PS1='\[\033[1;32m\]\$\[\033[0m\] ' PATH=$(dirname "$haul"):\$PATH HAUL_REDIS=$HAUL_REDIS
redis-cli() { command redis-cli -p $redis_port "\$@"; }
cd $work
clear
SHELL
tmux() { command tmux -L "haul-$$" -f /dev/null "$@"; }
tmux new-session -d -x 96 -y 24 "bash --rcfile $work/shell -i"
tmux set-option -g status off
# termtosvg's terminal knows none of these.
tmux set-option -ga terminal-overrides ',*:indn@:rep@'
tmux set-option -g pane-border-style fg=colour240
tmux set-option -g pane-active-border-style fg=colour240
tmux split-window -v -l 8 -d "sleep 0.5; $haul top --interval 0.5"
# It requires a terminal of its own, which script gives it.
TERM=xterm-256color script -qfec "stty cols 96 rows 24; $venv/bin/termtosvg $work/recording.svg -g 96x24 \
    -t window_frame_powershell -m 100 -M 1500 -D 4000 -c 'tmux -L haul-$$ attach'" /dev/null >"$work/termtosvg.log" 2>&1 & recorder=$!
# type TEXT: types it as a person would, and Return.
type() {
    local i
    for ((i = 0; i < ${#1}; i++)); do tmux send-keys -l -- "${1:i:1}"; sleep 0.02; done
    sleep 0.4
    tmux send-keys Enter
}
state() { [ "$(redis HGET 'haul:{default}:job:film' state)" = "$1" ]; }
received() { [ "$(redis HGET 'haul:{default}:job:film' received || echo 0)" -ge "$1" ] 2>/dev/null; }
sleep 1.5
type "redis-cli LPUSH haul:{default}:jobs '{\"url\":\"http://127.0.0.1:$port/film.mkv\",\"id\":\"film\",\"reply_to\":\"me\"}'"
wait_for 30 received 72000000
runner=$(redis HGET 'haul:{default}:job:film' worker)
type "kill -9 $(cat "$work/$runner.pid")     # worker $runner"
sleep 0.5
type "redis-cli --raw BRPOP haul:{default}:reply:me 60"
wait_for 60 state completed
sleep 2.5
type "sha256sum origin/film.mkv files/film.mkv"
sleep 3
tmux kill-server
wait "$recorder"
[ "$(sha256sum <"$work/files/film.mkv" | cut -d ' ' -f 1)" = "$checksum" ] || { echo "recording.sh: the files differ" >&2; exit 1; }
[ "$(redis HGET 'haul:{default}:job:film' worker)" != "$runner" ] || { echo "recording.sh: the killed worker has completed the job" >&2; exit 1; }
mkdir -p "$(dirname "$output")"
cp "$work/recording.svg" "$output"
ls -l "$output"
