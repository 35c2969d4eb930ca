#!/usr/bin/env bash
# Measures what 1,000 agents cost a coordinator. spate-coordinator runs on core 0. On core 1 a program simulates the
# agents, each with its own connection and a snapshot of 10 histograms per second. Prints a table. Loopback only; takes
# a minute and a half, and 1 GB of disk for the ledger.
#   bench/coordinator-1000.sh [FLAGS of bench/coordinator-agents]        (after make build)
#   bench/coordinator-1000.sh --agents 9700 --slow 4 --join 90s --windows 12      (10,000 agents in slow motion)
# COORDINATOR_FLAGS are further flags of the coordinator: with --sink, the difference is the
# cost of the sink.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'kill "$coordinator" 2>/dev/null && wait "$coordinator" 2>/dev/null; rm -rf "$dir"' EXIT
go build -C "$root" -o "$dir/agents" ./bench/coordinator-agents

ulimit -n "$(ulimit -Hn)"
taskset -c 0 "$root/bin/spate-coordinator" --listen 127.0.0.1:17720 --http-listen 127.0.0.1:17721 --pprof --no-gossip \
    --data-dir "$dir/runs" ${COORDINATOR_FLAGS:-} 2>"$dir/coordinator.log" & coordinator=$!
until grep -q 'coordinator serves' "$dir/coordinator.log"; do
    kill -0 "$coordinator" || { cat "$dir/coordinator.log" >&2; exit 1; }
    sleep 0.1
done
GOGC=400 taskset -c 1 "$dir/agents" --coordinator 127.0.0.1:17720 --status 127.0.0.1:17721 --pid "$coordinator" --data-dir "$dir/runs" "$@" ||
    { tail -5 "$dir/coordinator.log" >&2; exit 1; }
