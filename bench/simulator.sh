# Sourced by the scripts that measure clients. Provides a simulator on core 1, in a temporary directory that is removed
# with the script. What runs on core 0 is under test. Loopback only. On a machine with other work,
# PRIORITY="nice -n -10" gives simulator, coordinator and client precedence. (Never use a real-time class: two Go
# processes on one core would block each other.)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/bin
dir=$(mktemp -d)
port=${PORT:-18100} # of the simulator; the coordinator has the next
endpoint=http://127.0.0.1:$port control=127.0.0.1:$((port + 1))
PRIORITY=${PRIORITY:-}
pids=()
simulator= agent= coordinator=
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
ulimit -n "$(ulimit -Hn)"

# serve FLAGS...: starts or restarts the simulator, with a prefill that takes no time.
serve() { serve_by "$bin/spate" "$@"; }

# serve_by PROGRAM FLAGS...: the same with another spate program.
serve_by() {
    local program=$1
    shift
    [[ -z $simulator ]] || { kill "$simulator"; wait "$simulator" 2>/dev/null || true; }
    rm -f "$dir/simulator.log" # that of the one before says Serving, too
    $PRIORITY taskset -c 1 "$program" simulate --listen "${endpoint#http://}" --set decode_step_per_request=0s --max-running 65536 --set prefill_tokens_per_second=1e9 \
        "$@" >"$dir/simulator.log" 2>&1 & simulator=$!
    pids+=("$simulator")
    until grep -qs Serving "$dir/simulator.log"; do
        kill -0 "$simulator" || { cat "$dir/simulator.log" >&2; exit 1; }
        sleep 0.1
    done
}

# start_agent [PROGRAM]: starts a coordinator on core 1 and an agent, with process ID $agent, on core 0. Stops earlier
# ones.
start_agent() {
    [[ -z $agent ]] || { kill "$agent" "$coordinator"; wait "$agent" "$coordinator" 2>/dev/null || true; }
    $PRIORITY taskset -c 1 "$bin/spate-coordinator" --listen "$control" --no-gossip --data-dir "$dir/runs" 2>"$dir/coordinator.log" & coordinator=$!
    $PRIORITY taskset -c 0 "${1:-$bin/spate-agent}" --coordinator "$control" --name a 2>"$dir/agent.log" & agent=$!
    pids+=("$coordinator" "$agent")
    until "$bin/spate" agents --coordinator "$control" 2>/dev/null | grep -q ready; do
        { kill -0 "$agent" && kill -0 "$coordinator"; } || { cat "$dir/agent.log" "$dir/coordinator.log" >&2; exit 1; }
        sleep 0.1
    done
}

# agent_cpu: prints the CPU time that the agent has used so far, user and system, in us.
agent_cpu() { awk -v hz="$(getconf CLK_TCK)" '{ print $14 * 1e6 / hz, $15 * 1e6 / hz }' "/proc/$agent/stat"; }

# run_plan OUT [FLAGS...]: runs the plan on standard input with the agent. Keeps no rows, unless flags say so. A run that
# is complete and INVALID, as on a machine with other work, is named, and its figures count.
run_plan() {
    taskset -c 1 "$bin/spate" run --coordinator "$control" --records none --no-progress --out "$dir/$1" "${@:2}" /dev/stdin >"$dir/$1.log" 2>&1 && return
    local rc=$?
    ((rc == 3)) && grep -q '"complete": true' "$dir/$1/results.json" || { cat "$dir/$1.log" >&2; exit 1; }
    echo "INVALID: $(grep -m1 -A1 INVALID "$dir/$1.log" | xargs -0)" >&2
}

# median: prints the median of the numbers on standard input, one per line.
median() { sort -g | awk '{ v[NR] = $1 } END { print NR ? (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 : "n/a" }'; }
