#!/usr/bin/env bash
# Holds many streams for a long time: AGENTS agent processes on core 0 hold STREAMS streams each for SECONDS, with one token
# each 2 s. Simulators, one for each agent, and the coordinator run on core 1. A request takes a fifth of the time; in the
# first fifth, streams begin one after the other. Prints the agents' resident memory and CPU time every 10 s, then memory
# per stream, tokens and the verdict. It fails if a request failed, if the run is INVALID, or if memory grew by more than
# a tenth from the first third of the time to the last: of six minutes or more, since garbage is collected seldom.
#   bench/hold.sh [SECONDS [STREAMS [AGENTS]]]      (after make build; loopback only; a process needs STREAMS and some 50 descriptors)
set -euo pipefail
source "$(dirname "$0")/simulator.sh"
seconds=${1:-600} streams=${2:-19000} agents=${3:-1} every=10
endpoints=()
for ((n = 1; n <= agents; n++)); do
    simulator='' endpoint=http://127.0.0.1:$((port + 1 + n))
    serve --decode-step 2s
    endpoints+=("$endpoint")
done
start_agent
renice -n -15 -p "$coordinator" >/dev/null 2>&1 || true # in a fleet, no simulators would be beside it
of_agents=("$agent")
for ((n = 2; n <= agents; n++)); do
    $PRIORITY taskset -c 0 "$bin/spate-agent" --coordinator "$control" --name "a$n" 2>"$dir/agent.log" &
    of_agents+=($!) pids+=($!)
done
until [[ $("$bin/spate" agents --coordinator "$control" 2>/dev/null | grep -c ready) == "$agents" ]]; do sleep 0.1; done
files() { printf "/proc/%s/$1\n" "${of_agents[@]}"; }
resident() { awk '/^VmRSS/ { sum += $2 } END { print sum }' $(files status); }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sum += $14 + $15 } END { print sum * 1000 / hz }' $(files stat); }

idle=$(resident)
echo "idle: $idle KiB resident"
run_plan out <<PLAN & run=$!
name: hold
drain_timeout: 120s
targets: [{name: simulator, endpoints: [$(IFS=,; echo "${endpoints[*]}")], model: m, connect_timeout: 30s, request_timeout: $((seconds + 300))s}]
workloads: [{random: {isl: 10, osl: $((seconds / 10))}}]
loads: [{concurrency: [$((streams * agents))], duration: ${seconds}s, stagger: $((seconds / 5))s}]
PLAN
begun=$SECONDS before=$(cpu_ms)
while sleep "$every" && kill -0 "$run" 2>/dev/null; do
    now=$(cpu_ms)
    open=$(ls -U $(files fd) | wc -l) # without a look at each, which would take the agents' time
    awk -v t=$((SECONDS - begun)) -v kib="$(resident)" -v idle="$idle" -v open="$open" -v cpu="$now" -v before="$before" -v every=$every 'BEGIN {
        printf "%4d s  %6d descriptors  %8d KiB  %5.1f KiB each  %5.1f %% of a core\n", t, open, kib, open ? (kib - idle) / open : 0,
            (cpu - before) / every / 10 }' | tee -a "$dir/lines"
    before=$now
done
wait "$run"
cat "$dir/out.log"
python3 - "$dir/out/results.json" <<'CHECK'
import json, sys
stage = json.load(open(sys.argv[1]))["stages"][0]
requests = stage["requests"]
print(requests)
print(stage["trust"]["verdict"], *(c["words"] for c in stage["trust"]["checks"] if c["verdict"] != "VALID"), sep="; ")
sys.exit(requests["failed"] > 0 or requests["completed"] == 0 or stage["trust"]["verdict"] == "INVALID")
CHECK
# Counts only samples with all streams open, not those while streams open and close.
awk -v n=$((streams * agents)) '$3 >= n { kib[++k] = $5 }
    END { if (k < 30) { print "too short to judge whether memory is flat"; exit }
        t = int(k / 3); for (i = 1; i <= t; i++) { first += kib[i]; last += kib[k - t + i] }
        printf "memory from the first third to the last: %+.1f %%\n", 100 * (last / first - 1); exit last > 1.1 * first }' "$dir/lines"
