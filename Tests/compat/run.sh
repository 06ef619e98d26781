#!/usr/bin/env bash
# Runs a worker of another commit beside one of this tree on one queue, and fails if either disturbs the other.
#
#     Tests/compat/run.sh              # the last tag, or without one the commit before this one
#     Tests/compat/run.sh COMMIT
#
# The other commit is built in a worktree beneath .build/compat. Its binary is kept there by commit, so only the first
# run with a commit builds it. HAUL names another binary than .build/debug/haul as that of this tree.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/lib/packages.sh
. deploy/lib/packages.sh

need_swift
need_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
name=${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1)}
if [ $# -eq 0 ] && ! git rev-parse --quiet --verify "$name^{commit}" >/dev/null 2>&1; then
    echo "this copy of the sources has no earlier commit: nothing runs beside it" >&2
    exit 0
fi
commit=$(git rev-parse --short=12 "$name^{commit}")
old=$PWD/.build/compat/bin/$commit
if [ ! -x "$old" ]; then
    source=.build/compat/source
    mkdir -p .build/compat/bin
    # One worktree for all commits: what does not differ between two of them is not compiled again.
    if [ -d "$source" ]; then
        git -C "$source" checkout -q --detach "$commit"
    else
        git worktree prune
        git worktree add -q --detach "$source" "$commit"
    fi
    swift build --package-path "$source" --product haul 2>&1 | tail -3
    cp "$source/.build/debug/haul" "$old.new"
    mv "$old.new" "$old"
fi
if [ -z "${HAUL:-}" ]; then
    swift build --product haul 2>&1 | tail -3
    HAUL=$PWD/.build/debug/haul
fi
echo "$name ($commit) beside this tree"
exec timeout 300 python3 Tests/compat/compat.py "$old" "$HAUL"
