package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/e2e/programs"
)

// tasksPlan sends sessions that fan out and join, to an engine with a prefix cache.
const tasksPlan = `
name: tasks
seed: 4
targets:
  - name: chat
    simulator: {decode_step: 1ms, prefill_tokens_per_second: 200000, cache_block_tokens: 4, cache_blocks: 100000}
workloads:
  - name: tasks
    mooncake: {path: %q, sessions: {history: planned}}
loads:
  - replay: {}
  - {concurrency: [5], sessions: 40}
`

// taskRow is a row of the trace that the test writes.
type taskRow struct {
	Session string   `json:"session_id,omitempty"`
	Request string   `json:"request_id"`
	Waits   []string `json:"wait_for,omitempty"`
	Time    *int     `json:"timestamp,omitempty"`
	Delay   int      `json:"delay,omitempty"`
	Input   int      `json:"input_length"`
	Output  int      `json:"output_length"`
}

// taskWaits says what the requests of each task wait for: a plan, three branches of which one has two requests and
// another a sub-agent of its own conversation, and a join.
var (
	taskWaits  = [][]int{nil, {0}, {0}, {0}, {3}, {0, 1, 2, 4}}
	taskDelays = []int64{0, 30, 0, 5, 10, 20}
)

// writeTasks writes a trace of n tasks, 25 ms apart.
func writeTasks(t *testing.T, n int) (path string) {
	t.Helper()
	var lines []string
	for i := range n {
		for turn, waits := range taskWaits {
			row := taskRow{Request: fmt.Sprintf("%d-%d", i, turn), Delay: int(taskDelays[turn]), Input: 20 + 3*turn,
				Output: 4 + (i+turn)%5}
			for _, w := range waits {
				row.Waits = append(row.Waits, fmt.Sprintf("%d-%d", i, w))
			}
			switch turn {
			case 0:
				row.Time = new(25 * i)
				fallthrough
			case len(taskWaits) - 1:
				row.Session = fmt.Sprint("main", i)
			case 2:
				row.Session = fmt.Sprint("sub", i)
			}
			line, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
	}
	path = filepath.Join(t.TempDir(), "tasks.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTasksAreThoseOfTheRequests: each request comes when those that it waits for have ended, plus its delay. The times
// of tasks, their critical paths and what is told by turn are those of the rows. One agent and three send the same.
func TestTasksAreThoseOfTheRequests(t *testing.T) {
	t.Parallel()
	plan := fmt.Sprintf(tasksPlan, writeTasks(t, 40))
	one, three := programs.RunPlan(t, plan, "--agents", "1"), programs.RunPlan(t, plan, "--agents", "3")
	one.MustExit(0)
	three.MustExit(0)
	if diff := cmp.Diff(sentBy(t, one), sentBy(t, three), cmp.AllowUnexported(sent{})); diff != "" {
		t.Errorf("three agents sent other requests than one:\n%s", diff)
	}
	for _, r := range []programs.Running{one, three} {
		for _, stage := range r.Results().Stages {
			tasks := bySession(r.Rows()[stage.Index])
			if len(tasks) != 40 || !stage.Complete || stage.Sessions.Completed != 40 || stage.Sessions.Broken != 0 ||
				stage.OSL.Missed > 0 {
				t.Fatalf("stage %d: %d tasks, %+v, missing %v", stage.Index, len(tasks), stage.Sessions, stage.Missing)
			}
			var task, requests []float64
			for index, rows := range tasks {
				whole, critical := taskOf(t, index, rows)
				task, requests = append(task, whole), append(requests, critical)
			}
			x := stage.Sessions
			programs.Near(t, "mean task", x.Task.Mean, mean(task), 1e-6)
			programs.Near(t, "longest task", x.Task.Max, slices.Max(task), 1e-6)
			programs.Near(t, "requests on the critical path", x.TaskRequests.Mean, mean(requests), 1e-6)
			programs.Near(t, "delays on the critical path", x.TaskDelays.Mean, mean(task)-mean(requests), 1e-4)
			for turn, got := range x.Turns {
				var ttft []float64
				var input, cached, shared uint64
				for _, rows := range tasks {
					q := rows[turn]
					ttft = append(ttft, float64(*q.FirstTokenNs-q.StartNs)/1e6)
					input, cached, shared = input+*q.InputTokens, cached+*q.CachedTokens, shared+q.SharedTokens
				}
				if got.From != uint32(turn) || got.To != uint32(turn) || got.Completed != 40 ||
					*got.InputTokens != input {
					t.Errorf("turn %d: %+v, %d prompt tokens in the rows", turn, got, input)
				}
				programs.Near(t, "TTFT", got.TTFT.Mean, mean(ttft), 1e-6)
				programs.Near(t, "cached", *got.PrefixCache.CachedShare, float64(cached)/float64(input), 1e-9)
				programs.Near(t, "shared", *got.PrefixCache.SharedShare, float64(shared)/float64(input), 1e-9)
			}
			if n := len(x.Turns); n != len(taskWaits) || *x.Turns[4].PrefixCache.CachedShare < 0.3 ||
				*x.Turns[2].PrefixCache.CachedShare > 0 {
				t.Errorf("%d turns; a branch that continues one must find it in the cache, and no other: %+v", n, x.Turns)
			}
		}
	}
	for _, text := range []string{"## Sessions", "## Turns of sessions", "| 40 | 0 |"} {
		if !strings.Contains(one.Text("report.md"), text) {
			t.Errorf("report.md lacks %q", text)
		}
	}
}

// taskOf checks when the requests of a task were due, and returns its time and that of the requests on its critical
// path, in ms.
func taskOf(t *testing.T, index uint64, rows []programs.Row) (whole, critical float64) {
	t.Helper()
	if len(rows) != len(taskWaits) {
		t.Fatalf("task %d has %d requests", index, len(rows))
	}
	last := 0
	for turn, q := range rows {
		if q.Turn != uint32(turn) || q.Agent != rows[0].Agent {
			t.Fatalf("task %d: request %d is %+v", index, turn, q)
		}
		if q.EndNs > rows[last].EndNs {
			last = turn
		}
		if before := latest(rows, taskWaits[turn]); before >= 0 &&
			q.ScheduledNs != rows[before].EndNs+taskDelays[turn]*1e6 {
			t.Errorf("task %d: request %d was due at %d, but what it waits for ended at %d", index, turn, q.ScheduledNs,
				rows[before].EndNs)
		}
	}
	whole = float64(rows[last].EndNs-rows[0].StartNs) / 1e6
	for turn := last; turn >= 0; turn = latest(rows, taskWaits[turn]) {
		critical += float64(rows[turn].EndNs-rows[turn].StartNs) / 1e6
	}
	return whole, critical
}

// latest returns which of some requests ended last, -1 if there are none.
func latest(rows []programs.Row, of []int) int {
	last := -1
	for _, turn := range of {
		if last < 0 || rows[turn].EndNs > rows[last].EndNs {
			last = turn
		}
	}
	return last
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}
