#!/usr/bin/env bash
# Compares pairs of real runs on this machine: 16 streams for 10 s on a simulated engine, and on one whose decode steps
# take longer by SLOWER percent. With 0 the engine is unchanged, and each pair that differs is a false alarm, or shows
# what else the machine was doing. At the end come all pairs as repeats.
#   bench/compare.sh [PAIRS [SLOWER]]        (after make build; loopback only; some 25 s a pair; 10 pairs, 3 %)
set -euo pipefail
bin=$(cd "$(dirname "$0")/../bin" && pwd)
pairs=${1:-10} slower=${2:-3}
dir=$(mktemp -d)
simulator=
trap 'kill $simulator 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
cat >plan.yaml <<PLAN
name: compare
targets: [{name: engine, endpoints: ["http://127.0.0.1:18101"], model: m}]
workloads: [{name: mixed, random: {isl: 300, osl: 100, range_ratio: 0.5}}]
loads: [{concurrency: 16, duration: 10s}]
PLAN

measure() { # NAME SEED PERCENT
    "$bin/spate" simulate --listen 127.0.0.1:18101 --seed "$2" --set prefill_tokens_per_second=60000 --max-running 32 --set step_jitter=0.1 \
        --set prefill_jitter=0.2 --decode-step "$(awk -v p="$3" 'BEGIN { print 5000 + 50 * p }')us" \
        --set "decode_step_per_request=$(awk -v p="$3" 'BEGIN { print 50000 + 500 * p }')ns" >simulator.log & simulator=$!
    until curl -s -o /dev/null http://127.0.0.1:18101/v1/models; do sleep 0.1; done
    "$bin/spate" run plan.yaml --out "$1" --no-progress --fail-on never >/dev/null
    kill "$simulator"
    wait "$simulator" 2>/dev/null || true
}

different=0 compared=0
for i in $(seq "$pairs"); do
    measure "a$i" "$((2 * i))" 0
    measure "b$i" "$((2 * i + 1))" "$slower"
    "$bin/spate" compare "a$i" "b$i" >text && compared=$((compared + 1))
    awk '/: TPOT|: TTFT|: ITL|: E2E/ && !/^!/' text
    "$bin/spate" compare "a$i" "b$i" --fail-on different >/dev/null 2>&1 || different=$((different + 1))
done
echo "$different of $pairs pairs differ or could not be compared ($compared could)"
"$bin/spate" compare "$(printf 'a%s,' $(seq "$pairs") | sed 's/,$//')" "$(printf 'b%s,' $(seq "$pairs") | sed 's/,$//')"
