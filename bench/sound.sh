#!/usr/bin/env bash
# Makes twenty sound runs, none of which may be doubted: ten on a real engine that nobody else uses, ten on the
# simulator. Fails unless all 20 are VALID.
#   bench/sound.sh http://127.0.0.1:8000 MODEL      (after make build; loopback only, some 4 minutes)
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/plan.yaml" <<PLAN
name: sound
seed: $RANDOM
targets:
  - {name: engine-chat, endpoints: ["$1"], model: "$2"}
  - {name: engine-completions, endpoints: ["$1"], model: "$2", api: completions}
  - {name: simulator-chat, simulator: {decode_step: 10ms}, model: m}
  - {name: simulator-completions, simulator: {decode_step: 10ms}, model: m, api: completions}
workloads: [{random: {isl: 100, osl: 50}}]
loads:
  - {concurrency: [1, 4, 8], requests: 40}
  - {rate: [3], requests: 40}
  - {rate: [3], requests: 40, arrival: constant}
PLAN
bin/spate run "$dir/plan.yaml" --out "$dir/run" --agents 1 --no-progress
bin/spate report "$dir/run" | tee "$dir/report"
grep -q '^Trust: 20 VALID$' "$dir/report"
