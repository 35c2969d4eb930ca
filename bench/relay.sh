#!/usr/bin/env bash
# Measures what a coordinator receives from agents with relays and without, and what it costs. The coordinator runs on
# core 0, the agents and relays on core 1: agents are simulated as in coordinator-1000.sh. Prints a table for each of
# the two. Loopback only; takes two minutes, and 2 GB of disk.
#   bench/relay.sh [RELAYS] [FLAGS of bench/coordinator-agents]        (after make build)
# COORDINATOR, RELAY and AGENTS are lists of cores for other machines than of 2. DIRECT=no leaves the agents without
# relays out, which a coordinator of one core cannot serve beyond some 2,000. 10,000 agents on 16 cores:
#   DIRECT=no COORDINATOR=0 RELAY=1-5 AGENTS=6-15 bench/relay.sh 10 --agents 10000 --join 30s
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
relays=1
if [[ ${1:-} =~ ^[0-9]+$ ]]; then relays=$1; shift; fi
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -C "$root" -o "$dir/agents" ./bench/coordinator-agents
ulimit -n "$(ulimit -Hn)"

serve() { # CORE LOG FLAGS: starts a coordinator or a relay and waits until it serves
    taskset -c "$1" "$root/bin/spate-coordinator" --no-gossip --pprof "${@:3}" 2>"$dir/$2.log" & pids+=($!)
    until grep -q 'serves' "$dir/$2.log"; do
        kill -0 "${pids[-1]}" || { cat "$dir/$2.log" >&2; exit 1; }
        sleep 0.1
    done
}

serve "${COORDINATOR:-0}" coordinator --listen 127.0.0.1:17720 --http-listen 127.0.0.1:17721 --data-dir "$dir/runs"
coordinator=${pids[0]}
addresses=
for ((i = 0; i < relays; i++)); do
    serve 1 "relay-$i" --relay 127.0.0.1:17720 --name "relay-$i" --listen "127.0.0.1:$((17730 + i))" --dataset-dir "$dir/datasets"
    addresses+=${addresses:+,}127.0.0.1:$((17730 + i))
    until grep -q 'connected' "$dir/relay-$i.log"; do sleep 0.1; done
done
play() {
    taskset -c 1 "$dir/agents" --coordinator 127.0.0.1:17720 --status 127.0.0.1:17721 --pid "$coordinator" \
        --data-dir "$dir/runs" "$@" || { tail -5 "$dir"/*.log >&2; exit 1; }
}
echo "Without relays:"
play "$@"
echo "With $relays:"
[ "$relays" -gt 1 ] || measured=(--relay-pid "${pids[1]}")
play --relays "$addresses" "${measured[@]}" "$@"
