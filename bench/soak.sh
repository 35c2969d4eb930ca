#!/usr/bin/env bash
# Runs a coordinator and two agents at RATE requests per second for SECONDS against the simulator. Every 30 s it prints
# each process's memory (anonymous, and of files: the coordinator maps its ledger), descriptors and goroutines as CSV to
# standard output. At the end it prints the slope of each per hour to standard error, by least squares over the last
# half of the time. The script fails if the run is not complete, or if one of them (except memory of files) grew by more
# than a tenth from the third quarter to the last. An agent collects no garbage before there are 256 MiB of it
# (agent/host): at 200 requests per second that takes 18 minutes, so run for at least twice as long. An agent keeps as
# many connections, with one goroutine each, as it ever had requests in flight at once: on a busy machine both rise in
# steps.
#   bench/soak.sh [SECONDS [RATE]] >soak.csv      (after make build; loopback only; takes some 15 % of a core)
# PRIORITY="nice -n 5" makes it yield to other work.
set -euo pipefail
seconds=${1:-21600} rate=${2:-200} every=30
PRIORITY=${PRIORITY:-}
bin=$(cd "$(dirname "$0")/../bin" && pwd)
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
port=${PORT:-18300} # of the simulator; the others use the next ones
control=127.0.0.1:$((port + 1))
declare -A process status

# background NAME COMMAND...: starts a program whose output goes to a file.
background() {
    local name=$1
    shift
    $PRIORITY "$@" >"$dir/$name.log" 2>&1 & process[$name]=$!
    pids+=($!)
}
background simulator "$bin/spate" simulate --listen "127.0.0.1:$port" --set decode_step_per_request=0s --max-running 65536 --set prefill_tokens_per_second=1e9
background coordinator "$bin/spate-coordinator" --listen "$control" --no-gossip --data-dir "$dir/runs" --http-listen "127.0.0.1:$((port + 2))"
status[coordinator]=$((port + 2))
for n in 1 2; do
    background "agent-$n" "$bin/spate-agent" --coordinator "$control" --name "agent-$n" --http-listen "127.0.0.1:$((port + 2 + n))"
    status[agent-$n]=$((port + 2 + n))
done
until [[ $("$bin/spate" agents --coordinator "$control" 2>/dev/null | grep -c ready) == 2 ]]; do sleep 0.5; done

$PRIORITY "$bin/spate" run --coordinator "$control" --min-agents 2 --records none --no-progress --out "$dir/out" /dev/stdin >"$dir/run.log" 2>&1 <<PLAN & run=$!
name: soak
targets: [{name: simulator, endpoints: ["http://127.0.0.1:$port"], model: m}]
workloads: [{random: {isl: 20, osl: 10}}]
loads: [{rate: $rate, duration: ${seconds}s, arrival: poisson}]
PLAN
pids+=("$run")

# sample NAME: prints one line of CSV.
sample() {
    local pid=${process[$1]} memory fds goroutines
    memory=$(awk '/^RssAnon/ { a = $2 } /^RssFile/ { f = $2 } END { print a "," f }' "/proc/$pid/status")
    fds=$(find "/proc/$pid/fd" -mindepth 1 2>/dev/null | wc -l)
    goroutines=$(curl -sf --max-time 10 "http://127.0.0.1:${status[$1]}/metrics" | awk '/^go_goroutines / { print $2 }')
    echo "$((SECONDS - begun)),$1,$memory,$fds,$goroutines"
}
begun=$SECONDS
echo "second,process,anonymous_kib,file_kib,descriptors,goroutines" | tee "$dir/samples"
while sleep "$every" && kill -0 "$run" 2>/dev/null; do
    for name in coordinator agent-1 agent-2; do sample "$name" | tee -a "$dir/samples"; done
done
wait "$run" || { cat "$dir/run.log" >&2; exit 1; }
grep -m1 -A8 '"requests": {' "$dir/out/results.json" >&2
grep -q '"complete": true' "$dir/out/results.json" || { echo "the run is not complete" >&2; exit 1; }

awk -F, -v last="$((SECONDS - begun))" '
NR == 1 { for (i = 3; i <= NF; i++) name[i] = $i; columns = NF; next }
$1 < last / 2 { next }
{
    for (i = 3; i <= columns; i++) {
        k = $2 SUBSEP i
        n[k]++; x[k] += $1; y[k] += $i; xx[k] += $1 * $1; xy[k] += $1 * $i
        part = $1 < last * 3 / 4 ? "before" : "after"
        count[k, part]++; sum[k, part] += $i
    }
    seen[$2] = 1
}
END {
    for (p in seen) for (i = 3; i <= columns; i++) {
        k = p SUBSEP i
        if (!count[k, "before"] || !count[k, "after"]) { print "too short to tell a slope"; exit 1 }
        slope = 3600 * (n[k] * xy[k] - x[k] * y[k]) / (n[k] * xx[k] - x[k] * x[k])
        before = sum[k, "before"] / count[k, "before"]; after = sum[k, "after"] / count[k, "after"]
        printf "%-12s %-14s mean %10.1f  slope %+9.1f an hour  third quarter to last %+.1f %%\n", p, name[i], y[k] / n[k], slope, 100 * (after / before - 1)
        if (name[i] != "file_kib" && after > 1.1 * before) grown = 1
    }
    exit grown
}' "$dir/samples" | sort >&2
