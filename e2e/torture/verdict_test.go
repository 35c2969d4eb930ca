package torture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sound is the evidence of a run of 40 requests in 4 seconds on two agents that share them evenly, of which nothing is missing.
func sound() *Evidence {
	start := clock.Now().Add(-10 * time.Second)
	e := &Evidence{
		Script: Script{Policy: "degrade", Lease: 6 * time.Second, Agents: make([]Agent, 2), OutputTokens: 4, Step: time.Millisecond},
		End:    clock.Now(), Frozen: map[string]bool{}, Ended: &spatev1.RunEnded{Complete: true},
		Live: map[uint32]*spatev1.StageProgress{0: {Completed: 40}},
		Records: []*spatev1.StageRecord{{
			Stage:     &spatev1.Stage{Load: &spatev1.LoadPoint{Rate: 10, Arrival: "constant", Duration: durationpb.New(4 * time.Second)}},
			StartTime: timestamppb.New(time.Now().Add(-10 * time.Second)), Ended: true,
			Agents: []*spatev1.AssignedAgent{{Agent: &spatev1.AgentInfo{Name: "a"}, Weight: 1}, {Agent: &spatev1.AgentInfo{Name: "b"}, Weight: 1}},
		}},
	}
	done := "done"
	stage := aggregate.StageResult{Complete: true, Missing: []string{}}
	stage.Requests.Completed, stage.OutputTokens, stage.E2E = 40, 160, &aggregate.Distribution{Count: 40}
	for i, name := range []string{"a", "b"} {
		a := aggregate.AgentResult{Name: name}
		a.Requests.Completed = 20
		stage.Agents = append(stage.Agents, a)
		for k := range 20 {
			index := uint64(2*k + i)
			due := time.Duration(index) * 100 * time.Millisecond
			e.Rows = append(e.Rows, Row{Index: index, Agent: name})
			e.Served = append(e.Served, Served{ID: ID{0, index}, Received: start.Add(due), Ended: start.Add(due + 5*time.Millisecond), Answered: true})
		}
	}
	e.Result = aggregate.Result{Run: aggregate.RunResult{Outcome: &done, Complete: true}, Stages: []aggregate.StageResult{stage}}
	return e
}

// lossy is the evidence of the same run whose agent b was killed in second 1 and whose part was taken over from second 3 on: what it had
// from second 1 on is missing.
func lossy() *Evidence {
	e := sound()
	taken, share := 3.0, 0.5
	e.Script.Faults = []Fault{{Kind: KillAgent, Agent: 1}}
	e.Records[0].Handovers = []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1}, FromNs: 3e9}}
	e.Records[0].Agents[1].Failure = "lost"
	stage := &e.Result.Stages[0]
	reason := "lost: no heartbeat for 3.5 s"
	stage.Agents[1].Failure, stage.Agents[1].Loss = &reason, &aggregate.Loss{Share: share, FromS: 1, ToS: &taken, TakenOver: true}
	stage.Complete, stage.Missing = false, []string{"agent b (50 % of the load) lost: seconds 1 to 3 are missing, then taken over"}
	e.Result.Run.Complete, e.Result.Run.Missing, e.Ended.Complete = false, stage.Missing, false
	e.Served = slices.DeleteFunc(e.Served, func(s Served) bool { return s.Index%2 == 1 && s.Index >= 12 && s.Index < 30 })
	e.Rows = slices.DeleteFunc(e.Rows, func(r Row) bool { return r.Index%2 == 1 && r.Index >= 10 && r.Index < 30 })
	for i := range e.Rows {
		if e.Rows[i].Index >= 30 {
			e.Rows[i].Agent = "a"
		}
	}
	recount(e)
	return e
}

// recount gives a result the counts of its rows.
func recount(e *Evidence) {
	stage := &e.Result.Stages[0]
	stage.Requests.Completed = 0
	for i := range stage.Agents {
		a := &stage.Agents[i]
		a.Requests.Completed = 0
		for _, r := range e.Rows {
			if r.Agent == a.Name {
				a.Requests.Completed++
			}
		}
		stage.Requests.Completed += a.Requests.Completed
	}
	e.Live[0].Completed = stage.Requests.Completed
	stage.OutputTokens, stage.E2E.Count = 4*stage.Requests.Completed, stage.Requests.Completed
}

func drop(e *Evidence, index uint64) {
	e.Rows = slices.DeleteFunc(e.Rows, func(r Row) bool { return r.Index == index })
	recount(e)
}

func TestSoundEvidenceIsNotWrong(t *testing.T) {
	v := Judge(sound())
	if len(v.Wrong) > 0 || v.Asked != 40 || v.Kept != 40 || v.Sent != 40 || v.Named+v.Lost+v.Twice != 0 || !v.Complete {
		t.Errorf("%+v", v)
	}
	if v = Judge(lossy()); len(v.Wrong) > 0 || v.Asked != 40 || v.Kept != 30 || v.Named != 10 || v.Lost+v.Twice != 0 || v.Complete {
		t.Errorf("%+v", v)
	}
}

// Each way in which a result can be wrong is seen.
func TestWrongEvidenceIsSeen(t *testing.T) {
	failed := "cut_stream"
	for name, c := range map[string]struct {
		of    func() *Evidence
		spoil func(e *Evidence)
		says  string
	}{
		"a row twice":                   {sound, func(e *Evidence) { e.Rows = append(e.Rows, e.Rows[3]); recount(e) }, "has 2 rows"},
		"completed, never answered":     {sound, func(e *Evidence) { e.Served[7].Answered = false }, "was not answered"},
		"lacks one that was sent":       {sound, func(e *Evidence) { drop(e, 7) }, "complete, and lacks request 7"},
		"lacks one that was not sent":   {sound, func(e *Evidence) { drop(e, 39); e.Served = e.Served[:39] }, "complete, and lacks request 39"},
		"cut off, though answered":      {sound, func(e *Evidence) { e.Rows[0].Cancelled = true }, "was answered and does not count as that"},
		"one that nobody asked for":     {sound, func(e *Evidence) { e.Rows[0].Index = 40 }, "request 40, which the plan does not"},
		"failed for no reason":          {sound, func(e *Evidence) { e.Rows[0].ErrorClass = &failed }, "no endpoint did"},
		"counts of other rows":          {sound, func(e *Evidence) { e.Result.Stages[0].Requests.Completed++ }, "its rows come to"},
		"an agent's counts":             {sound, func(e *Evidence) { e.Result.Stages[0].Agents[0].Requests.Completed-- }, "agent a completed 1 less"},
		"a histogram of more":           {sound, func(e *Evidence) { e.Result.Stages[0].E2E.Count++ }, "in its merged numbers"},
		"tokens of more":                {sound, func(e *Evidence) { e.Result.Stages[0].OutputTokens += 4 }, "in its merged numbers"},
		"sent twice":                    {sound, func(e *Evidence) { e.Served = append(e.Served, e.Served[5]) }, "was sent 2 times"},
		"followers were told more":      {sound, func(e *Evidence) { e.Live[0].Completed = 41 }, "followers were told that 41 ended"},
		"followers were told less":      {sound, func(e *Evidence) { e.Live[0].Completed = 39 }, "followers were told that 39 ended"},
		"followers were told otherwise": {sound, func(e *Evidence) { e.Ended.Complete = false }, "followers were told complete"},
		"no end, for no reason":         {sound, func(e *Evidence) { e.Result.Run.Outcome, e.Disk = nil, true }, "were not told why"},
		"load after the end":            {sound, func(e *Evidence) { e.Served[39].Received = e.End.Add(8 * time.Second) }, "after the run's end"},
		"load without a coordinator": {sound, func(e *Evidence) {
			e.Gone = []Span{{e.Served[39].Received.Add(-7 * time.Second), e.End}}
		}, "longer than the lease"},
		"promised":  {lossy, func(e *Evidence) { e.Script.Faults = nil }, "must be complete"},
		"no reason": {lossy, func(e *Evidence) { e.Result.Stages[0].Missing = nil }, "does not say why"},
		"no name":   {lossy, func(e *Evidence) { e.Result.Stages[0].Missing = []string{"something"} }, "does not name it"},
		"no second": {lossy, func(e *Evidence) {
			e.Result.Stages[0].Agents[1].Loss.ToS = nil
			e.Result.Stages[0].Agents[1].Loss.TakenOver = false
		}, "to which second"},
		"another agent's":    {lossy, func(e *Evidence) { drop(e, 20) }, "agent a's, of whom nothing is said to be missing"},
		"after it was taken": {lossy, func(e *Evidence) { drop(e, 33) }, "agent a's, of whom nothing"},
		"answered before that": {lossy, func(e *Evidence) {
			e.Result.Stages[0].Agents[1].Loss.FromS = 2.9
			e.Served[25].Ended -= 1e9
			drop(e, 1)
		}, "before what is said to be missing"},
		"due before that": {lossy, func(e *Evidence) {
			e.Result.Stages[0].Agents[1].Loss.FromS = 2.9
			e.Served = slices.DeleteFunc(e.Served, func(s Served) bool { return s.Index == 1 })
			drop(e, 1)
		}, "and was not sent"},
	} {
		e := c.of()
		c.spoil(e)
		v := Judge(e)
		if !strings.Contains(strings.Join(v.Wrong, "\n"), c.says) {
			t.Errorf("%s: %q says nothing of %q", name, v.Wrong, c.says)
		}
	}
}

// In a closed loop all that was not begun goes to others: a few that were about to be sent may be missing, not more.
func TestUnbegunRequestsOfAClosedLoopAreSeen(t *testing.T) {
	e := lossy()
	rec := e.Records[0]
	rec.Stage.Load, rec.Handovers = &spatev1.LoadPoint{Concurrency: 2, Requests: 40}, []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1}}}
	e.Result.Stages[0].Agents[1].Loss.TakenOver = true
	if v := Judge(e); !strings.Contains(strings.Join(v.Wrong, "\n"), "9 requests were begun by nobody") {
		t.Errorf("%q", v.Wrong)
	}
	for i := range uint64(40) {
		e.Served = append(e.Served, Served{ID: ID{0, i}, Received: e.End, Ended: e.End})
	}
	if v := Judge(e); len(v.Wrong) > 0 || v.Named != 10 {
		t.Errorf("%+v", v)
	}
}
