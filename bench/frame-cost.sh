#!/usr/bin/env bash
# Measures the CPU time that a frame costs, compared with the floor: a C program that receives and discards. The
# clients run one after the other on core 0, in several rounds: the floor, the floor with receive timestamps, Spate's
# stream client alone, without and with packet times (for which root or CAP_BPF is needed), a whole agent process, and a
# usual client (net/http, Scanner, encoding/json). The simulator runs on core 1. Prints each round, then medians and
# their ratios to the floor's.
#   bench/frame-cost.sh [ROUNDS [STREAMS]]      (after make build; loopback only; about a minute a round)
# At 50,000 frames/s: 1,000 streams with a frame every 20 ms, first evenly spread, then all at once. Saturated: a step
# of 10 ms, which is more than one core can handle.
set -euo pipefail
source "$(dirname "$0")/simulator.sh"
rounds=${1:-5} streams=${2:-1000} seconds=3
gcc -O2 -Wall -Wextra -o "$dir/floor" "$root/bench/floor/floor.c"
CGO_ENABLED=0 go build -C "$root" -o "$dir/frames" ./bench/frames
"$dir/frames" --print-request >"$dir/request"


# agent_line STEP_MS: prints the cost of a whole stage of the agent, including requests, connections and snapshots.
agent_line() {
    local osl=$(((seconds + 2) * 1000 / $1)) before after
    before=$(agent_cpu)
    run_plan "out$RANDOM" <<PLAN
name: frame-cost
targets: [{name: simulator, endpoints: ["$endpoint"], model: m}]
workloads: [{random: {isl: 10, osl: $osl}}]
loads: [{concurrency: [$streams], requests_per_concurrency: 1}]
PLAN
    after=$(agent_cpu)
    awk -v n="$((streams * osl))" -v s="$streams" "BEGIN { split(\"$before $after\", t)
        printf \"client=agent streams=%d frames=%d user_us=%.3f sys_us=%.3f\n\", s, n, (t[3] - t[1]) / n, (t[4] - t[2]) / n }"
}

# case_of NAME STEP_MS FLAGS...: runs all clients in turn against one simulator.
case_of() {
    local name=$1 step=$2 line
    shift 2
    serve --decode-step "${step}ms" "$@"
    for ((round = 1; round <= rounds; round++)); do
        for client in floor stamps stream packets agent json; do
            case $client in
            floor) line=$($PRIORITY taskset -c 0 "$dir/floor" "${endpoint##*:}" "$dir/request" "$streams" 1 "$seconds") ;;
            stamps) line=$($PRIORITY taskset -c 0 "$dir/floor" "${endpoint##*:}" "$dir/request" "$streams" 1 "$seconds" stamps) ;;
            agent) line=$(agent_line "$step") ;;
            *) line=$($PRIORITY taskset -c 0 "$dir/frames" --client "$client" --streams "$streams" --warmup 1s --length "${seconds}s") ;;
            esac
            echo "case=$name round=$round $line" | tee -a "$dir/lines"
        done
    done
}

# summary NAME: prints the medians of the rounds.
summary() {
    local cost floor=
    for client in floor stamps stream packets agent json; do
        cost=$(grep "^case=$1 .*client=$client " "$dir/lines" |
            sed -E 's/.*user_us=([0-9.]+) sys_us=([0-9.]+).*/\1 \2/' | awk '{ print $1 + $2 }' | median)
        floor=${floor:-$cost}
        awk -v name="$1" -v client="$client" -v cost="$cost" -v floor="$floor" 'BEGIN {
            printf "%-10s %-7s %6.2f us of CPU a frame, %.2f of the floor\n", name, client, cost, cost / floor }'
    done
}

start_agent
case_of spread 20 --spread-step
case_of at-once 20
case_of saturated 10 --spread-step
for name in spread at-once saturated; do summary "$name"; done
