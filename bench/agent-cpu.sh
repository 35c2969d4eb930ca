#!/usr/bin/env bash
# Measures the CPU time that a token frame costs an agent. The agent process runs on core 0, simulator and coordinator
# on core 1. Streams get a frame every 20 ms, all at once, as batching engines send them. The cost is that of the whole
# process: client, recorder, snapshots, runtime.
#   bench/agent-cpu.sh STREAMS...        (after make build; loopback only; 20 s for each number of streams)
set -euo pipefail
bin=$(cd "$(dirname "$0")/../bin" && pwd)
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$dir"' EXIT
cd "$dir"

taskset -c 1 "$bin/spate" simulate --listen 127.0.0.1:18100 --decode-step 20ms --set decode_step_per_request=0s --max-running 65536 \
    --set prefill_tokens_per_second=1e9 >simulator.log & pids+=($!)
taskset -c 1 "$bin/spate-coordinator" --listen 127.0.0.1:17711 --no-gossip --data-dir runs 2>coordinator.log & pids+=($!)
taskset -c 0 "$bin/spate-agent" --coordinator 127.0.0.1:17711 --name a 2>agent.log & agent=$!; pids+=("$agent")
until "$bin/spate" agents --coordinator 127.0.0.1:17711 2>/dev/null | grep -q ready; do sleep 0.1; done

osl=400
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$agent/stat"; }
for streams in "$@"; do
    cat >plan.yaml <<PLAN
name: agent-cpu
targets: [{name: simulator, endpoints: ["http://127.0.0.1:18100"], model: m}]
workloads: [{random: {isl: 10, osl: $osl}}]
loads: [{concurrency: [$streams], requests_per_concurrency: 2}]
PLAN
    before=$(cpu_ms)
    "$bin/spate" run --coordinator 127.0.0.1:17711 --records none --no-progress --out "out-$streams" plan.yaml >/dev/null
    after=$(cpu_ms)
    completed=$(grep -m1 '"completed"' "out-$streams/results.json" | tr -dc 0-9)
    seconds=$(grep -m1 '"duration_s": [0-9.]*,$' <(grep -A40 '"requests": {' "out-$streams/results.json") | tr -dc 0-9.)
    awk -v n="$streams" -v c="$completed" -v o=$osl -v ms="$((after - before))" -v s="$seconds" 'BEGIN {
        printf "%6d streams %8.0f frames/s %6.2f us CPU a frame\n", n, c * o / s, ms * 1000 / (c * o) }'
done
