package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// branched is a trace of sessions that fan out to three branches, one of them of two requests, and join.
func branched(sessions int) string {
	var out strings.Builder
	for i := range sessions {
		fmt.Fprintf(&out, `{"session_id": "m%[1]d", "request_id": "p%[1]d", "timestamp": %[2]d, "text_input": "p", "output_length": 2}
{"request_id": "a%[1]d", "wait_for": ["p%[1]d"], "text_input": "a", "output_length": 2}
{"request_id": "b%[1]d", "wait_for": ["p%[1]d"], "delay": 3, "text_input": "b", "output_length": 2}
{"request_id": "c%[1]d", "wait_for": ["p%[1]d"], "text_input": "c", "output_length": 2}
{"request_id": "d%[1]d", "wait_for": ["c%[1]d"], "text_input": "d", "output_length": 2}
{"session_id": "m%[1]d", "wait_for": ["a%[1]d", "b%[1]d", "d%[1]d"], "delay": 2, "text_input": "j", "output_length": 2}
`, i, 10*i)
	}
	return out.String()
}

// branchWaits is what the requests of such a session wait for, and branchDelays their delays in milliseconds.
var (
	branchWaits  = [][]int{nil, {0}, {0}, {0}, {3}, {0, 1, 2, 4}}
	branchDelays = []int64{0, 0, 3, 0, 0, 2}
)

// TestBranchesWaitForWhatTheyNeed: each request is due when the last of those that it waits for has ended, plus its
// delay, however many agents play the sessions, and those that wait for the same one are in flight together.
func TestBranchesWaitForWhatTheyNeed(t *testing.T) {
	const sessions = 8
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 3, Requests: sessions},
		"open loop":   {Rate: 200, Arrival: "constant", Requests: sessions},
		"replay":      {Arrival: "trace", ReplaySpeed: 1, Requests: sessions},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			e := newEngine(t, 30*time.Millisecond, 0)
			e.KeepBodies = true
			stage, dir := enginetest.StageOfSessions(t, branched(sessions), sessions, &spatev1.SessionPlay{}, e)
			stage.Load = load
			rows := map[[2]int]*spatev1.RequestRecord{}
			for rank := range uint32(2) {
				o := beginWith(t, enginetest.AssignOf(stage, rank, 2, 1), resourcesIn(dir)).Wait(t)
				for _, row := range o.rows {
					rows[[2]int{int(row.GetIndex()), int(row.GetTurn())}] = row
				}
				if o.Totals.GetNeverSent() != 0 || o.Totals.GetFailure() != "" {
					t.Errorf("totals %v", o.Totals)
				}
			}
			if len(rows) != sessions*len(branchWaits) {
				t.Fatalf("%d requests", len(rows))
			}
			together := 0
			for at, row := range rows {
				last := int64(0)
				for _, other := range branchWaits[at[1]] {
					last = max(last, rows[[2]int{at[0], other}].GetEndNs())
				}
				due, scheduled, start := last+branchDelays[at[1]]*1e6, row.GetScheduledNs(), row.GetStartNs()
				if at[1] > 0 && (scheduled != due || start < due) {
					t.Errorf("request %d of session %d: scheduled %d, started %d, due %d", at[1], at[0], scheduled,
						start, due)
				}
				other := rows[[2]int{at[0], 1}]
				if at[1] == 3 && start < other.GetEndNs() && other.GetStartNs() < row.GetEndNs() {
					together++
				}
			}
			if together == 0 {
				t.Error("no branches were in flight together")
			}
			messages := messagesOf(t, e)
			if got := messages[id(2, 4)]; len(got) != 5 || got[1].Content != "<"+id(2, 0)+">" ||
				got[2].Content != "c" || got[3].Content != "<"+id(2, 3)+">" {
				t.Errorf("the second request of a branch was sent %v", got)
			}
			if got := messages[id(2, 5)]; len(got) != 3 || got[1].Content != "<"+id(2, 0)+">" || got[2].Content != "j" {
				t.Errorf("the join was sent %v", got)
			}
		}))
	}
}

// TestBranchThatFails: what waits for the failed request is not sent, other branches continue.
func TestBranchThatFails(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	e.Fails = map[string]int{id(0, 3): 500}
	stage, dir := enginetest.StageOfSessions(t, branched(2), 2, &spatev1.SessionPlay{}, e)
	o := beginWith(t, enginetest.AssignOf(stage, 0), resourcesIn(dir)).Wait(t)
	c := o.Totals.GetCounters()
	if c.GetCompleted() != 6+3 || c.GetFailed() != 1 || o.Totals.GetNeverSent() != 2 ||
		o.Totals.GetUnsentAfterFailure() != 2 {
		t.Errorf("totals %v", o.Totals)
	}
	if sent := e.Requests(); slices.Contains(sent, id(0, 4)) || slices.Contains(sent, id(0, 5)) ||
		!slices.Contains(sent, id(0, 2)) {
		t.Errorf("sent %v", sent)
	}
}

// TestStopCutsBranchesOff: requests that were sent and those that were not add up to all, whenever a stop comes.
func TestStopCutsBranchesOff(t *testing.T) {
	const sessions = 60
	for _, immediately := range []bool{false, true} {
		t.Run(fmt.Sprint(immediately), virtual(func(t *testing.T) {
			e := newEngine(t, 2*time.Millisecond, 0)
			stage, dir := enginetest.StageOfSessions(t, branched(sessions), sessions, &spatev1.SessionPlay{}, e)
			stage.Load = &spatev1.LoadPoint{Concurrency: 3, Requests: sessions}
			u := beginWith(t, enginetest.AssignOf(stage, 0), resourcesIn(dir))
			enginetest.Eventually(t, "some requests", func() bool { return len(e.Requests()) > 20 })
			u.Stop(immediately, false)
			o := u.Wait(t)
			got := o.Totals.GetCounters().GetStarted() + o.Totals.GetNeverSent()
			if got != sessions*6 || !o.Totals.GetStopped() {
				t.Errorf("%d requests started or never sent, of %d; totals %v", got, sessions*6, o.Totals)
			}
		}))
	}
}

// TestTurnsOfTracesKeepTheirTimes: a turn follows its delay after the one before it, or comes at its own time.
func TestTurnsOfTracesKeepTheirTimes(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 0, 0)
		stage, dir := enginetest.StageOfSessions(t, `{"session_id": "a", "timestamp": 5000, "text_input": "x", "output_length": 2}
	{"session_id": "a", "delay": 20, "text_input": "y", "output_length": 2}
	{"session_id": "a", "timestamp": 5080, "text_input": "z", "output_length": 2}
	{"session_id": "b", "timestamp": 5010, "text_input": "x", "output_length": 2}`, 2, &spatev1.SessionPlay{}, e)
		scale := 0.5
		stage.Workload.GetMooncake().Sessions.DelayScale = &scale
		o := beginWith(t, enginetest.AssignOf(stage, 0), resourcesIn(dir)).Wait(t)
		rows := map[string]*spatev1.RequestRecord{}
		for _, row := range o.rows {
			rows[fmt.Sprintf("%d.%d", row.GetIndex(), row.GetTurn())] = row
		}
		if len(rows) != 4 {
			t.Fatalf("%d requests", len(rows))
		}
		for id, due := range map[string]int64{"0.0": 0, "0.1": rows["0.0"].GetEndNs() + 10e6, "0.2": 40e6, "1.0": 10e6} {
			if got := rows[id].GetScheduledNs(); got != due {
				t.Errorf("request %s was scheduled at %d, not %d", id, got, due)
			}
		}
	})(t)
}
