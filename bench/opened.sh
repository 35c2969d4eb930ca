#!/usr/bin/env bash
# Opens many streams at once, the load of published comparisons: STREAMS requests at one instant, each with a new
# connection, the first token after 50 ms, then 100 tokens 10 ms apart. The agent process runs on core 0, simulator and
# coordinator on core 1. Prints these means of each round, in ms: the time to the first token beyond the 50 ms, and its
# parts: opening the connection, from then until the request was sent, and the rest. Then prints medians. With another
# agent program, the rounds of both alternate.
#   bench/opened.sh [ROUNDS [STREAMS [OTHER_AGENT]]]      (after make build; loopback only; 5 s a round)
set -euo pipefail
source "$(dirname "$0")/simulator.sh"
rounds=${1:-5} streams=${2:-1000} other=${3:-}

# round_of PROGRAM: runs one stage with a new agent.
round_of() {
    start_agent "$1"
    rm -rf "$dir/out"
    run_plan out --records jsonl <<PLAN
name: opened
targets: [{name: simulator, endpoints: ["$endpoint"], model: m, connect_timeout: 30s, connection: {reuse: new}}]
workloads: [{random: {isl: 10, osl: 100}}]
loads: [{concurrency: [$streams], requests_per_concurrency: 1}]
PLAN
    means "$(find "$dir/out" -name '*.jsonl' | head -1)" | sed "s/^/program=$(basename "$1") /" | tee -a "$dir/lines"
}

# means FILE: prints the means over the rows of a stage.
means() {
    awk 'function ns(name) { return match($0, "\"" name "\": ?\"?-?[0-9]+") ? substr($0, RSTART + length(name) + 3) + 0 : none++ }
        { n++; first = ns("first_token_ns") - ns("start_ns"); opening += ns("connect_ns")
          ttft += first; sending += ns("sent_ns") - ns("start_ns") - ns("connect_ns") }
        END { if (!n || none) { print "rows without times" > "/dev/stderr"; exit 1 }
            error = ttft / n / 1e6 - 50; opening /= n * 1e6; sending /= n * 1e6
            printf "n=%d beyond=%.2f opening=%.2f sending=%.2f later=%.2f\n", n, error, opening, sending, error - opening - sending }' "$1"
}

serve --ttft 50ms --itl 10ms --ticks
programs=("$bin/spate-agent" ${other:+"$other"})
for ((round = 1; round <= rounds; round++)); do
    for program in "${programs[@]}"; do round_of "$program"; done
done
for program in "${programs[@]}"; do
    echo "median of $(basename "$program"): $(for what in beyond opening sending later; do
        echo "$what=$(sed -n "s/^program=$(basename "$program") .* $what=\(-\?[0-9.]*\).*/\1/p" "$dir/lines" | median)"
    done | xargs)"
done
