#!/usr/bin/env bash
# Measures what a coordinator receives from agents with relays and without, and what it costs. The coordinator runs on
# core 0, the agents and relays on core 1: agents are simulated as in coordinator-1000.sh. Prints a table for each of
# the two. Loopback only; takes two minutes, and 2 GB of disk.
#   bench/relay.sh [RELAYS] [FLAGS of bench/coordinator-agents]        (after make build)
# COORDINATOR, RELAY and AGENTS are other lists of cores. DIRECT=no leaves out the agents without relays. With 16 cores:
#   DIRECT=no RELAY=1-5 AGENTS=6-15 bench/relay.sh 10 --agents 10000 --join 30s
# SIMULATED=yes simulates the relays too, each in a region of its own: one core has room for those of 10,000 agents.
#   SIMULATED=yes DIRECT=no bench/relay.sh 10 --agents 10000 --join 10s --windows 24
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
relays=1
if [[ ${1:-} =~ ^[0-9]+$ ]]; then relays=$1; shift; fi
dir=$(mktemp -d)
pids=() behind=()
trap 'kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -C "$root" -o "$dir/agents" ./bench/coordinator-agents
ulimit -n "$(ulimit -Hn)"

serve() { # CORES LOG FLAGS: starts a coordinator or a relay and waits until it serves
    taskset -c "$1" "$root/bin/spate-coordinator" --no-gossip "${@:3}" 2>"$dir/$2.log" & pids+=($!)
    until grep -q 'serves' "$dir/$2.log"; do
        kill -0 "${pids[-1]}" || { cat "$dir/$2.log" >&2; exit 1; }
        sleep 0.1
    done
}

serve "${COORDINATOR:-0}" coordinator --listen 127.0.0.1:17720 --http-listen 127.0.0.1:17721 --pprof --data-dir "$dir/runs"
coordinator=${pids[0]}
if [ "${SIMULATED:-}" = yes ]; then
    behind=(--simulate-relays --regions "$relays")
else
    addresses=
    for ((i = 0; i < relays; i++)); do
        serve "${RELAY:-1}" "relay-$i" --relay 127.0.0.1:17720 --name "relay-$i" --listen "127.0.0.1:$((17730 + i))" --dataset-dir "$dir/datasets"
        addresses+=${addresses:+,}127.0.0.1:$((17730 + i))
        until grep -q 'connected' "$dir/relay-$i.log"; do sleep 0.1; done
    done
    behind=(--relays "$addresses")
    [ "$relays" -gt 1 ] || behind+=(--relay-pid "${pids[1]}")
fi
play() {
    taskset -c "${AGENTS:-1}" "$dir/agents" --coordinator 127.0.0.1:17720 --status 127.0.0.1:17721 --pid "$coordinator" \
        --data-dir "$dir/runs" "$@" || { tail -5 "$dir"/*.log >&2; exit 1; }
}
if [ "${DIRECT:-}" != no ]; then
    echo "Without relays:"
    play "$@"
fi
echo "With $relays:"
play "${behind[@]}" "$@"
