#!/usr/bin/env bash
# Runs a fleet of real processes as people use one: five people submit RUNS runs to AGENTS agents in three regions for SECONDS.
# Each twelfth of the time an agent is killed and restarted, all are restarted by SIGTERM once, as in an upgrade, and the
# coordinator is stopped once and started on a copy of its directory. At the end every run must be complete or say
# what is missing, no agent may have been in two runs at once, no server loaded by two, and the audit log must have all
# submissions. The page and REST are asked each second: the script prints how long answers took.
#   bench/shift.sh [SECONDS [RUNS [AGENTS]]]      (after make build; loopback only; 300 s, 20 runs, 12 agents)
# TestAShift in coordinator plays twelve hours of this in virtual time.
set -euo pipefail
seconds=${1:-300} runs=${2:-20} agents=${3:-12}
bin=$(cd "$(dirname "$0")/../bin" && pwd)
dir=$(mktemp -d)
port=${PORT:-18400} # of the coordinator; the others use the next ones
control=127.0.0.1:$port web=127.0.0.1:$((port + 1))
declare -A pids
trap 'kill "${pids[@]}" 2>/dev/null || true; sleep 1; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# background NAME COMMAND...: starts a program whose output goes to a file.
background() {
    local name=$1
    shift
    "$@" >>"$dir/$name.log" 2>&1 &
    pids[$name]=$!
    disown # the shell does not report that it was killed
}
# coordinator DIRECTORY: starts the coordinator with its data there.
coordinator() {
    background coordinator "$bin/spate-coordinator" --listen "$control" --web-listen "$web" --no-gossip --data-dir "$1" \
        --max-runs 4 --lease 10s --reassign-lease 5s
}
# agent N: starts an agent.
agent() {
    local regions=(eu us asia)
    background "agent-$1" "$bin/spate-agent" --coordinator "$control" --name "agent-$1" --region "${regions[$1 % 3]}"
}
for n in 1 2 3 4; do
    background "simulator-$n" "$bin/spate" simulate --listen "127.0.0.1:$((port + 1 + n))" --decode-step 5ms
done
coordinator "$dir/first"
for ((n = 1; n <= agents; n++)); do agent "$n"; done
until [[ $("$bin/spate" agents --coordinator "$control" 2>/dev/null | grep -c ready) == "$agents" ]]; do sleep 0.5; done

# submit N: submits a run of one stage, as one of five people. Its server, agents, priority and length depend on N.
submit() {
    local people=(anna bob carl dora emil) n=$1
    "$bin/spate" run /dev/stdin --coordinator "$control" --detach --records none --priority $((n % 3)) >>"$dir/submitted" \
        2>>"$dir/submit.log" <<PLAN
name: ${people[n % 5]}
on_agent_loss: reassign
targets: [{name: t, endpoints: ["http://127.0.0.1:$((port + 2 + n % 4))"], model: m}]
workloads: [{random: {isl: 20, osl: 10}}]
loads: [{rate: [$((2 + n % 5))], duration: $((seconds / 20 + n * 7 % (seconds / 10 + 1)))s}]
agents: {count: $((1 + n % 4))}
PLAN
}
begun=$SECONDS submitted=0 killed=0 upgraded=0 leaving=0 copied=0
while ((SECONDS - begun < seconds || upgraded < agents)); do
    sleep 1
    now=$((SECONDS - begun))
    curl -s -o /dev/null -w 'page %{time_total}\n' --max-time 10 "http://$web/" >>"$dir/times" || true
    curl -s -o /dev/null -w 'rest %{time_total}\n' --max-time 10 "http://$web/api/v1/runs" >>"$dir/times" || true
    if ((submitted < runs && now * runs * 2 >= submitted * seconds)); then
        submit "$submitted" && submitted=$((submitted + 1))
    fi
    if ((killed < 12 && now * 12 >= (killed + 1) * seconds)); then
        victim=$((1 + (killed * 5) % agents)) killed=$((killed + 1))
        kill -9 "${pids[agent-$victim]}" 2>/dev/null || true
        agent "$victim"
        ((victim != leaving)) || leaving=0
    fi
    if ((leaving > 0)) && ! kill -0 "${pids[agent-$leaving]}" 2>/dev/null; then
        agent "$leaving"
        upgraded=$leaving leaving=0
    elif ((leaving == 0 && upgraded < agents && now * 2 >= seconds)); then
        leaving=$((upgraded + 1))
        kill -TERM "${pids[agent-$leaving]}" 2>/dev/null || true
    fi
    if ((copied == 0 && now * 3 >= seconds)); then
        copied=1
        kill -TERM "${pids[coordinator]}"
        while kill -0 "${pids[coordinator]}" 2>/dev/null; do sleep 0.1; done
        cp -a "$dir/first" "$dir/second"
        coordinator "$dir/second"
    fi
done
echo "after $((SECONDS - begun)) s: $submitted runs submitted, $killed agents killed, $upgraded upgraded, $copied copy"
while "$bin/spate" runs --coordinator "$control" --output json >"$dir/runs.json" && grep -Eq '"state": ?"RUN_STATE_(WAITING|RUNNING)"' "$dir/runs.json"; do
    sleep 1
done
for run in $(cat "$dir/submitted"); do
    "$bin/spate" runs fetch "$run" --coordinator "$control" --out "$dir/results/$run" >>"$dir/fetch.log" 2>&1 || true
done
python3 - "$dir" <<'CHECK'
import collections, datetime, json, sys
from pathlib import Path
dir = Path(sys.argv[1])
submitted = dir.joinpath("submitted").read_text().split()
audit = [json.loads(line) for line in dir.joinpath("second/audit.jsonl").read_text().splitlines()]
lacking = [run for run in submitted if not any(e["action"] == "submit" and e["run"] == run for e in audit)]
had, loaded, whole, mistakes = collections.defaultdict(list), collections.defaultdict(list), 0, []


def second(text):
    return datetime.datetime.fromisoformat(text[:19] + "+00:00").timestamp() + float("0" + text[19:-1])


for i, run in enumerate(submitted):
    file = dir / "results" / run / "results.json"
    if not file.exists():
        mistakes.append(f"{run} has no results")
        continue
    result = json.loads(file.read_text())
    whole += result["run"]["complete"]
    if not result["run"]["complete"] and not result["run"]["missing"]:
        mistakes.append(f"{run} is not complete and does not say why")
    if result["run"]["begin_time"]:
        loaded[f"server {i % 4}"].append((second(result["run"]["begin_time"]), second(result["run"]["end_time"]), run))
    for stage in result["stages"]:
        if not stage["start_time"]:
            continue
        start = second(stage["start_time"])
        for a in stage["agents"]:
            end = a["left_s"] or (a["loss"] or {}).get("from_s") or stage["duration_s"] or 0
            had[a["name"]].append((start + (a["joined_s"] or 0), start + end, run))
for what, all in [*had.items(), *loaded.items()]:
    all.sort()
    mistakes += [f"{what} was in {a[2]} until {a[1]} and in {b[2]} from {b[0]}"
                 for a, b in zip(all, all[1:]) if b[0] < a[1] and a[2] != b[2]]
if lacking:
    mistakes.append(f"the audit log lacks {lacking}")
times = collections.defaultdict(list)
for line in dir.joinpath("times").read_text().splitlines():
    kind, seconds = line.split()
    times[kind].append(float(seconds))
for kind, list in times.items():
    list.sort()
    print(f"{kind}: {len(list)} answers, p50 {1000 * list[len(list) // 2]:.0f} ms, p99 {1000 * list[len(list) * 99 // 100]:.0f} ms")
print(f"{len(submitted)} runs, {whole} complete, the others say what is missing; {len(audit)} entries in the audit log")
print("\n".join(mistakes) or "no agent and no server was in two runs at once")
sys.exit(bool(mistakes))
CHECK
