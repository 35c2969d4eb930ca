#!/usr/bin/env bash
# Runs each shipped plan against the simulator and writes its tables into this directory, a page for each plan. It takes about half an
# hour and both cores of a small machine; stages are timed, so nothing else should run meanwhile. With arguments: those plans only.
#
#     make build && docs/examples/make.sh [PLAN...]
set -euo pipefail
cd "$(dirname "$0")/../.."

# Time is compressed as far as two cores still keep up: at most about 50,000 tokens a second.
declare -A speed=([dynamo-vllm-h20]=10 [deepseek-r1-h20]=20 [mooncake-a10]=10 [gpustack-h100]=10)

runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
plans=("$@")
[ $# -gt 0 ] || mapfile -t plans < <(bin/spate plans | awk '{print $1}')
for plan in "${plans[@]}"; do
  command="spate run $plan${speed[$plan]:+ --simulate=${speed[$plan]}}"
  echo "$command" >&2
  bin/$command --out "$runs/$plan" >&2
  {
    printf '# %s\n\n' "$plan"
    printf 'Made by `%s` (docs/examples/make.sh), on %s cores with 2 embedded agents. The plan is plans/%s.yaml.\n' "$command" "$(nproc)" "$plan"
    # The report's tables of results, without its head and without what is told stage by stage.
    awk '/^> \*\*/ { print "\n" $0 } /^## Requests/ { exit } /^## / && !on { print ""; on = 1 } on { sub(/^## /, "### "); print }' "$runs/$plan/report.md"
  } >"docs/examples/$plan.md"
done
