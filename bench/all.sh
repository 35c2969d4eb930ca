#!/usr/bin/env bash
# Runs every script of bench/ that needs no server of its own, each to its end or to what it could not do, and prints one
# table: each figure beside the floor that this machine sets, so that figures of different machines compare. What could
# not be measured has its reason there. A script that needs something else is named with what it needs.
#   bench/all.sh [ROUNDS]      (make bench-all; loopback only; some 4 minutes, and 3 more each round)
set -uo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-1}
dir=$(mktemp -d)
trap 'kill "$!" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# measure ROWS SCRIPT ARGUMENTS...: runs a script, whose output the awk program ROWS makes rows of the table of, by
# row(WHAT, FIGURE, FLOOR). A script that fails has a row with the reason.
measure() {
    local rows=$1 script=$2 reason
    shift 2
    echo "== bench/$script $*" >&2
    timeout 600 "bench/$script" "$@" >"$dir/out" 2> >(tee "$dir/err" >&2) </dev/null & wait "$!"
    local rc=$?
    cat "$dir/out" >&2
    awk -v command="bench/$script $*" "$rows"'
        function row(what, figure, floor) { sub(/^n\/a.*/, "n/a", figure); printf "| %s | %s | %s | `%s` |\n", what, figure, floor, command }' "$dir/out" >"$dir/rows"
    cat "$dir/rows" >>"$dir/table"
    ((rc == 0)) && [[ -s $dir/rows ]] && return
    reason=$(cat "$dir/out" "$dir/err" | grep -v -e '^\s*$' -e '^time=' | tail -n 1) # not the log of a program
    ((rc == 124)) && reason="it did not end in 10 minutes"
    echo "| bench/$script | failed: ${reason:-exit code $rc} | n/a | \`bench/$script $*\` |" >>"$dir/table"
}

# sync: prints how long a durable write of 8 KiB takes here, in ms: the floor of an acknowledged snapshot.
sync_ms() {
    dd if=/dev/zero of="$dir/file" bs=8k count=200 oflag=dsync 2>&1 | awk '/copied/ { for (i = 1; i <= NF; i++) if ($i == "s,") print $(i - 1) * 1000 / 200 " ms" }'
}

measure '/of the floor$/ && $2 != "floor" { row("frame, " $1 ", " $2, $3 " us", sprintf("%.2f us", $3 / $9)) }' frame-cost.sh "$rounds"
measure '/^median of floor/ { split($4, p, "=") } /^median of .*agent/ { split($6, a, "="); row("start p99 at 10,000/s", a[2] " us", p[2] " us (starting costs nothing)") }
    ' starts.sh "$rounds"
measure '/^(spread|at-once|stolen|starved)[a-z0-9-]* / { row("stamp p99, " $1 ", " $2, $5 " us", "n/a") }' stamps.sh "$rounds"
measure '/^median of/ { split($4, b, "="); row("first token of 1,000 opened at once, mean beyond 50 ms", b[2] " ms", "0 ms") }' opened.sh "$rounds"
measure '$2 == "streams" { row("frame at " $1 " streams, whole agent", $5 " us", "n/a") }' agent-cpu.sh 100 1000
measure '$2 == "s" && $3 >= 1000 { kib = $7 } END { if (kib) row("stream held for a minute", kib " KiB", "n/a") }' hold.sh 60 1000
measure "/coordinator's CPU/"' { split($0, c, "|"); row("coordinator, 1,000 agents", c[3], "n/a") }
    /merged result/ { split($0, c, "|"); row("window to merged result: p50, p99, most", c[3], "'"$(sync_ms)"' for a durable write") }' coordinator-1000.sh --windows 30
measure '/pairs differ/ { row("equal engines that seem different", $1 " of " $3, "0") }' compare.sh 1 0

{
    echo "| what | figure | floor of this machine | command |"
    echo "|---|---:|---:|---|"
    cat "$dir/table"
    for other in 'soak.sh: six hours' 'shift.sh: five minutes, and has no figures' 'sound.sh: a server and a model' \
        'running-usage.sh: a server, a model and its process' 'make bench-peers: other load generators (make peers-env)'; do
        echo "| ${other%%:*} | not run: needs ${other#*: } | n/a | |"
    done
    echo
    echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), load $(cut -d' ' -f1 /proc/loadavg), $(bin/spate --version)"
}
