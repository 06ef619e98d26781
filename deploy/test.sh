#!/usr/bin/env bash
# Installs what the tests need and runs all of them. Arguments go to `swift test`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" nginx-light nghttp2-proxy prometheus btrfs-progs exfat-fuse exfatprogs procps mandoc
# For the programs of docs/start/, in each of their languages, and for JSON Schemas. A Node that the machine
# already has is kept.
need_packages jq python3-redis python3-jsonschema golang-go golang-github-gomodule-redigo-dev node-redis
# Shells for the completion of words, and aria2, whose unfinished files are continued.
need_packages zsh fish aria2
need_object_servers
need_redis_versions
swift build --build-tests

work=$(mktemp -d)
finish() {
    # When the test runner is ended, its tests go on. End them, too: all that they have started ends with them.
    { pgrep -f -- "$work/events" || :; } | xargs -r kill || :
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# tests_that EVENT: prints the tests for which the runner has reported the event.
tests_that() {
    { grep "\"kind\":\"$1\"" "$work/events" 2>/dev/null || :; } |
        sed -nE 's/.*"testID":"([^"]*\.swift:[0-9:]*)".*/\1/p' | sed 's,\\/,/,g' | sort
}

# Prints the failures again: they are hard to find among the lines of all tests, and lost if a log is cut.
print_failures() {
    printf '\n== the tests failed (exit status %s)\n' "$1"
    # Print each line of a failure and the lines that continue it, up to the next line with a sign of the runner.
    awk '/^(◇|✔|➜|━|⚠)/ { said = 0 } /^✘/ { said = 1 } /Fatal error:|^error:/ { print; said = 0 } said' "$work/output"
    comm -23 <(tests_that testStarted) <(tests_that testEnded) | sed 's/^/started and not ended: /'
}

# The timeout turns a test that hangs into a failure. Many tests start servers and workers, and wait for them: a few
# tests for each core keep the machine busy, and all tests at once would only wait for each other.
status=0
timeout 1500 swift test --skip-build --parallel --experimental-maximum-parallelization-width $((4 * $(nproc))) \
    --event-stream-output-path "$work/events" "$@" 2>&1 | tee "$work/output" || status=$?
[ "$status" -eq 0 ] || print_failures "$status"
exit "$status"
