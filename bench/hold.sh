#!/usr/bin/env bash
# Holds many streams for a long time: an agent process on core 0 holds STREAMS streams for SECONDS, with one token per
# second each. Simulator and coordinator run on core 1. Prints the agent's resident memory and CPU time every 10 s, then
# memory per stream, tokens and errors. It fails if a request failed, or if memory grew by more than a tenth from the
# first third of the time to the last.
#   bench/hold.sh [SECONDS [STREAMS]]      (after make build; loopback only; a process needs STREAMS and some 50 descriptors)
set -euo pipefail
source "$(dirname "$0")/simulator.sh"
seconds=${1:-600} streams=${2:-19000} every=10
serve --decode-step 1s
start_agent
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$agent/status"; }
cpu_ms() { agent_cpu | awk '{ print ($1 + $2) / 1000 }'; }

idle=$(resident)
echo "idle: $idle KiB resident"
run_plan out <<PLAN & run=$!
name: hold
drain_timeout: 120s
targets: [{name: simulator, endpoints: ["$endpoint"], model: m, connect_timeout: 30s, request_timeout: $((seconds + 300))s}]
workloads: [{random: {isl: 10, osl: $seconds}}]
loads: [{concurrency: [$streams], requests_per_concurrency: 1}]
PLAN
begun=$SECONDS before=$(cpu_ms)
while sleep "$every" && kill -0 "$run" 2>/dev/null; do
    now=$(cpu_ms)
    sockets=$({ find "/proc/$agent/fd" -lname 'socket:*' 2>/dev/null || true; } | wc -l) # some close during the search
    awk -v t=$((SECONDS - begun)) -v kib="$(resident)" -v idle="$idle" -v sockets="$sockets" -v cpu="$now" -v before="$before" -v every=$every 'BEGIN {
        printf "%4d s  %6d sockets  %8d KiB  %5.1f KiB a socket  %5.1f %% of a core\n", t, sockets, kib, sockets ? (kib - idle) / sockets : 0,
            (cpu - before) / every / 10 }' | tee -a "$dir/lines"
    before=$now
done
wait "$run"
grep -m1 -A14 '"requests": {' "$dir/out/results.json"
grep -E 'coalesced|unstamped' "$dir/out/results.json" | head -4 || true
grep -q "\"completed\": $streams" "$dir/out/results.json" || { echo "not all $streams requests were completed" >&2; exit 1; }
# Counts only samples with all streams open, not those while streams open and close.
awk -v n="$streams" '$3 >= n { kib[++k] = $5 }
    END { if (k < 3) { print "too short to judge whether memory is flat"; exit }
        t = int(k / 3); for (i = 1; i <= t; i++) { first += kib[i]; last += kib[k - t + i] }
        printf "memory from the first third to the last: %+.1f %%\n", 100 * (last / first - 1); exit last > 1.1 * first }' "$dir/lines"
