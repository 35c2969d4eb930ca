#!/usr/bin/env bash
# Measures how late requests start. An agent process on core 0 starts requests by a schedule; server and coordinator run
# on core 1. Prints for each round start - scheduled in us, the CPU time of a request, for how many ms per second the
# agent's threads were ready but waited for their core (from /proc's schedstat; this includes waits for each other), and
# for how many the server ran: one that cannot keep up makes the agent open a connection for each request. Then prints
# medians. One token comes at once from a minimal server (bench/floor/server.c): a request costs the simulator more
# than the agent. TOKENS above 1 come from the simulator, 20 ms apart, to all streams at once: 500 requests per second of
# 100 tokens are 1,000 streams and 50,000 frames/s. With another agent program, the rounds of both alternate. Each round
# starts with the floor: how late starts would be if they cost nothing, on core 0 while core 1 is as busy, and for how
# much of a second the process does not have its core.
#   bench/starts.sh [ROUNDS [RATE [TOKENS [OTHER_AGENT]]]]      (after make build; loopback only; 15 s a round)
set -euo pipefail
source "$(dirname "$0")/simulator.sh"
rounds=${1:-3} rate=${2:-10000} tokens=${3:-1} other=${4:-}
seconds=5 stage=0 out=

gcc -O2 -Wall -Wextra -o "$dir/floor" "$root/bench/floor/starts.c"
gcc -O2 -Wall -Wextra -o "$dir/server" "$root/bench/floor/server.c"

# floor: runs the floor, with a second one on core 1, so that other work on the machine finds no idle core.
floor() {
    local other
    taskset -c 1 "$dir/floor" "$seconds" >/dev/null & other=$!
    taskset -c 0 "$dir/floor" "$seconds" | tee -a "$dir/lines"
    wait "$other"
}

# percentile NAME: prints a percentile of a stage's send delay, in us.
percentile() { grep -m1 -A12 '"send_delay_ms"' "$dir/$out/results.json" | sed -n "s/.*\"$1\": \([0-9.e-]*\),*/\1/p" | awk '{ print $1 * 1000 }'; }

# agent_waited: prints how long the agent's threads have waited for their core so far, in ns.
agent_waited() { cat /proc/"$agent"/task/*/schedstat | awk '{ all += $2 } END { printf "%.0f", all }'; }

# server_cpu: prints the CPU time that the server has used so far, in ms.
server_cpu() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$simulator/stat"; }

# round_of PROGRAM: runs one stage with a new agent.
round_of() {
    local before after waited served
    out=out$((++stage))
    start_agent "$1"
    before=$(agent_cpu) waited=$(agent_waited) served=$(server_cpu)
    run_plan "$out" <<PLAN
name: starts
targets: [{name: simulator, endpoints: ["$endpoint"], model: m}]
workloads: [{random: {isl: 10, osl: $tokens}}]
loads: [{rate: [$rate], arrival: poisson, duration: ${seconds}s}]
PLAN
    after=$(agent_cpu) waited=$(($(agent_waited) - waited)) served=$(($(server_cpu) - served))
    echo "program=$1 p50=$(percentile p50) p90=$(percentile p90) p99=$(percentile p99) p99.9=$(percentile p99_9) $(
        awk -v n="$((rate * seconds))" "BEGIN { split(\"$before $after\", t); printf \"cpu_us=%.1f\", (t[3] + t[4] - t[1] - t[2]) / n }") waited_ms=$((waited / seconds / 1000000)) served_ms=$((served / seconds))" |
        tee -a "$dir/lines"
}

if ((tokens == 1)); then
    $PRIORITY taskset -c 1 "$dir/server" "$port" & simulator=$!
    pids+=("$simulator")
    until (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$simulator"; done
else
    serve --decode-step 20ms
fi
programs=("$bin/spate-agent" ${other:+"$other"})
for ((round = 1; round <= rounds; round++)); do
    floor
    for program in "${programs[@]}"; do round_of "$program"; done
done
# medians WHO NAME...: prints the medians over the lines that start with WHO.
medians() {
    echo "median of ${1#*=}: $(for what in "${@:2}"; do
        echo "$what=$(sed -n "s|^$1 .*$what=\([0-9.]*\).*|\1|p" "$dir/lines" | median)"
    done | xargs)"
}
medians client=floor p99 p99.9 away_ms longest_ms
for program in "${programs[@]}"; do medians "program=$program" p50 p90 p99 p99.9 cpu_us waited_ms served_ms; done
