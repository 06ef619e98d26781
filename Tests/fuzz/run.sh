#!/usr/bin/env bash
# Fuzzes the parsers of foreign text: run.sh [SECONDS for each target] [TARGET…]. Exits 1 if a property breaks, and
# keeps the input.
#
# The parsers are compiled from their sources into one module with libFuzzer and the address sanitizer. So the package
# itself needs no other build.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(job disposition range digest date url head reply)
work=${FUZZ_DIRECTORY:-.build/fuzz}
rm -rf "$work/sources"
mkdir -p "$work/sources"

for file in Sources/Contract/*.swift Sources/Storage/FileName.swift \
    Sources/HTTP/URL/{Authority,HostName,IPAddress,PercentEncoding,WebURL}.swift \
    Sources/HTTP/Headers/{ByteDictionary,ContentDisposition,ContentRange,DigestFields,EncodedWords,HTTPDate,HeaderFields,HeadParser,ResponseHead}.swift \
    Sources/HTTP/Auth/{CookieJar,StoredCookie}.swift \
    Sources/Activities/RetryPolicy.swift Sources/Activities/Download/{Entity+Head,ResponseDecision}.swift \
    Sources/Redis/{RedisError,RedisValue,ReplyReader}.swift Tests/fuzz/targets/*.swift; do
    # In one module there are no modules to import, so these imports are removed.
    sed -E '/^(package |public )?import Haul(Contract|HTTP|Storage)$/d' "$file" >"$work/sources/$(basename "$file")"
done
swiftc -j2 -sanitize=fuzzer,address -parse-as-library -O -swift-version 6 -package-name haul -module-name HaulFuzz \
    -I Sources/CHiredis -I Sources/CCurl "$work"/sources/*.swift -o "$work/fuzz" 2>"$work/build.log" || {
    grep -E 'error' "$work/build.log" >&2 || tail "$work/build.log" >&2
    exit 1
}

# A crash is enough. Do not wait for a backtrace.
export SWIFT_BACKTRACE=enable=no
status=0
for target in "${targets[@]}"; do
    mkdir -p "$work/corpus/$target" "$work/found"
    seeds=(Tests/fuzz/seeds/"$target")
    if FUZZ_TARGET=$target timeout $((seconds + 60)) "$work/fuzz" "$work/corpus/$target" "${seeds[@]}" \
        -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=4096 -artifact_prefix="$work/found/$target-" \
        </dev/null >"$work/$target.log" 2>&1; then
        echo "$target: $(grep -oE 'Done [0-9]+ runs' "$work/$target.log"), $(grep -oE 'cov: [0-9]+' "$work/$target.log" | tail -1)"
    else
        status=1
        echo "$target: a property broke; the input: $(grep -oE "$work/found/[^ ]+" "$work/$target.log" | tail -1)" >&2
        grep -E 'Fatal error|ERROR|Precondition' "$work/$target.log" | head -3 >&2
    fi
done
exit $status
