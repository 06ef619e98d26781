#!/usr/bin/env bash
# Installs what the tests need and runs all of them. Arguments go to `swift test`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light nghttp2-proxy prometheus btrfs-progs exfat-fuse exfatprogs procps mandoc
# The programs of docs/producers.md, in each of their languages, and what validates JSON Schemas. A machine that has a Node of its
# own keeps it.
need_packages jq python3-redis python3-jsonschema golang-go golang-github-gomodule-redigo-dev node-redis
# Shells that complete words, and a downloader whose unfinished files are continued.
need_packages zsh fish aria2
need_object_servers
swift build --build-tests

work=$(mktemp -d)
finish() {
    # The runner leaves its tests behind when it is ended; what they have started ends with them.
    { pgrep -f -- "$work/events" || :; } | xargs -r kill || :
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# tests_that EVENT: the tests of which the runner has told it.
tests_that() {
    { grep "\"kind\":\"$1\"" "$work/events" 2>/dev/null || :; } |
        sed -nE 's/.*"testID":"([^"]*\.swift:[0-9:]*)".*/\1/p' | sed 's,\\/,/,g' | sort
}

# What went wrong, again: it is hard to find among the lines of all tests, and lost where a log is cut.
tell_failures() {
    printf '\n== the tests failed (exit status %s)\n' "$1"
    # A failure's line and those that continue it, up to the next that begins with a sign of the runner's.
    awk '/^(◇|✔|➜|━|⚠)/ { said = 0 } /^✘/ { said = 1 } /Fatal error:|^error:/ { print; said = 0 } said' "$work/output"
    comm -23 <(tests_that testStarted) <(tests_that testEnded) | sed 's/^/started and not ended: /'
}

# A test that hangs is a failure, not a wait. Many start servers and workers, and wait for them: a few for each core keep the
# machine busy, and all of them at once would only wait for each other.
status=0
timeout 1500 swift test --skip-build --parallel --experimental-maximum-parallelization-width $((4 * $(nproc))) \
    --event-stream-output-path "$work/events" "$@" 2>&1 | tee "$work/output" || status=$?
[ "$status" -eq 0 ] || tell_failures "$status"
exit "$status"
