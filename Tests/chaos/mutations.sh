#!/usr/bin/env bash
# Removes the rules of Tests/chaos/mutations.py from the functions, one after the other. The oracle of the histories
# must notice each.
#   Tests/chaos/mutations.sh                  all of them
#   Tests/chaos/mutations.sh kept repeat      some of them
# HAUL=…/haul names another build. Exits 1 if the oracle misses one.
set -euo pipefail
cd "$(dirname "$0")"
if [ $# -eq 0 ]; then
    mapfile -t names < <(python3 -B -c 'from mutations import MUTATIONS; print("\n".join(MUTATIONS))')
    set -- "${names[@]}"
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT
unnoticed=0
for name in "$@"; do
    status=0
    ./histories.sh --histories 300 --bulk 200 --seed 1 --patience 15 --without "$name" >"$output" 2>&1 || status=$?
    # A failure for another reason does not count.
    if [ "$status" -eq 1 ] && grep -q '^histories: .* wrong$' "$output"; then
        echo "$name: noticed: $(grep -m 1 '^histories: .* wrong$' "$output" | sed 's/.*: //'); $(grep -m 1 '^  [^ ]' "$output" | cut -c 3-160)"
    else
        echo "$name: NOT NOTICED (exit status $status)"
        tail -5 "$output"
        unnoticed=1
    fi
done
exit "$unnoticed"
