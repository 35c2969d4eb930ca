#!/usr/bin/env bash
# Measures what running usage costs a server's frontend: CPU time of its process per frame, alternately with and
# without.
#   bench/running-usage.sh http://127.0.0.1:8000 MODEL PID [ROUNDS]      (after make build; loopback only, 20 s a round)
set -euo pipefail
cd "$(dirname "$0")/.."
url=$1 model=$2 pid=$3 rounds=${4:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

ticks() { awk '{print $14 + $15}' "/proc/$pid/stat"; }

# cost RUNNING: runs 40 requests of 200 tokens each and prints microseconds of CPU time per token.
cost() {
	cat > "$dir/plan.yaml" <<-PLAN
		name: running-usage
		seed: $RANDOM
		targets: [{name: t, endpoints: ["$url"], model: "$model", running_usage: $1}]
		workloads: [{random: {isl: 20, osl: 200}}]
		loads: [{concurrency: [8], requests: 40}]
	PLAN
	rm -rf "$dir/run"
	local before
	before=$(ticks)
	bin/spate run "$dir/plan.yaml" --out "$dir/run" --agents 1 --no-progress > "$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
	awk -v t="$(($(ticks) - before))" -v hz="$(getconf CLK_TCK)" 'BEGIN {printf "%.1f\n", 1e6 * t / hz / (40 * 200)}'
}

cost never > /dev/null # warm-up
for _ in $(seq "$rounds"); do
	never=$(cost never)
	echo "without $never us, with $(cost always) us of CPU time per token"
done
