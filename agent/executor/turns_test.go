package executor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sessionStage returns a stage of chats whose sessions have 1, 2 or 3 turns.
func sessionStage(load *spatev1.LoadPoint, play *spatev1.SessionPlay, engines ...*enginetest.Engine) *spatev1.Stage {
	stage := enginetest.StageOf(load, engines...)
	stage.Target.Api = "chat"
	stage.Workload = &spatev1.Workload{Name: "chats",
		Content: &spatev1.Workload_Sessions{Sessions: &spatev1.SessionContent{
			TurnCounts: &spatev1.Lengths{Distribution: &spatev1.Lengths_Empirical{
				Empirical: &spatev1.EmpiricalLengths{Values: []uint32{1, 2, 3}},
			}},
			Isl: 4, Osl: 2, System: 3, Play: play,
		}}}
	return stage
}

// thinking returns a play with a pause before each later turn.
func thinking(pause time.Duration) *spatev1.SessionPlay {
	return &spatev1.SessionPlay{ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(pause)}}
}

// turnsOf returns how many turns the first n sessions of a stage have.
func turnsOf(t *testing.T, stage *spatev1.Stage, n int) (turns []int) {
	t.Helper()
	s := prepare(t, enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
	defer outside(s.Close)
	for i := range n {
		ask, err := s.Content.Spec(uint64(i), 0)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, ask.Turns)
	}
	return turns
}

func sumOf(all []int) (sum uint64) {
	for _, n := range all {
		sum += uint64(n)
	}
	return sum
}

// message is a message of a chat on the wire.
type message struct{ Role, Content string }

// messagesOf returns the messages of each request, by ID.
func messagesOf(t *testing.T, engines ...*enginetest.Engine) map[string][]message {
	t.Helper()
	all := map[string][]message{}
	for _, e := range engines {
		ids := e.Requests()
		for i, body := range e.Bodies() {
			var m struct{ Messages []message }
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				t.Fatal(err)
			}
			all[ids[i]] = m.Messages
		}
	}
	return all
}

func TestSessionsPlayTheirTurns(t *testing.T) {
	const sessions, pause = 12, 5 * time.Millisecond
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 4, Requests: sessions},
		"open loop":   {Rate: 400, Arrival: "constant", Requests: sessions},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			a, b := newEngine(t, 0, 0), newEngine(t, 0, 0)
			a.KeepBodies, b.KeepBodies = true, true
			stage := sessionStage(load, thinking(pause), a, b)
			turns := turnsOf(t, stage, sessions)
			var rows []*spatev1.RequestRecord
			for rank := range uint32(2) {
				o := begin(t, enginetest.AssignOf(stage, rank, 2, 1), ready.Limits{}).Wait(t)
				rows = append(rows, o.rows...)
				if o.Totals.GetNeverSent() != 0 || o.Totals.GetCounters().GetCompleted() != uint64(len(o.rows)) {
					t.Errorf("totals %v", o.Totals)
				}
			}
			if n := sumOf(turns); uint64(len(rows)) != n {
				t.Fatalf("%d requests of %d", len(rows), n)
			}
			checkTurns(t, rows, turns, pause)
			checkHistory(t, messagesOf(t, a, b), turns)
			for i, e := range []*enginetest.Engine{a, b} {
				for _, id := range e.Requests() {
					if enginetest.IndexOf(t, id)%2 != uint64(i) {
						t.Errorf("%q came to endpoint %d", id, i)
					}
				}
			}
		}))
	}
}

// checkTurns checks that turns follow one another on one endpoint, each after the pause that follows the previous
// answer.
func checkTurns(t *testing.T, rows []*spatev1.RequestRecord, turns []int, pause time.Duration) {
	t.Helper()
	seen := map[[2]uint64]*spatev1.RequestRecord{}
	for _, row := range rows {
		seen[[2]uint64{row.GetIndex(), uint64(row.GetTurn())}] = row
	}
	for index, n := range turns {
		for turn := range n {
			row, before := seen[[2]uint64{uint64(index), uint64(turn)}],
				seen[[2]uint64{uint64(index), uint64(turn - 1)}]
			if row == nil || row.GetEndpoint() != uint32(index%2) {
				t.Fatalf("turn %d of session %d: %v", turn, index, row)
			}
			if turn > 0 && (row.GetScheduledNs() != before.GetEndNs()+pause.Nanoseconds() ||
				row.GetStartNs() < row.GetScheduledNs()) {
				t.Errorf("turn %d of session %d: scheduled %d, started %d, the one before ended %d",
					turn, index, row.GetScheduledNs(), row.GetStartNs(), before.GetEndNs())
			}
		}
	}
}

// checkHistory checks that each turn is sent with the conversation so far, including the server's own answers.
func checkHistory(t *testing.T, messages map[string][]message, turns []int) {
	t.Helper()
	for index, n := range turns {
		history := []message{}
		for turn := range n {
			id := id(uint64(index), turn)
			got := messages[id]
			if len(got) != 2+2*turn || got[len(got)-1].Role != "user" {
				t.Fatalf("%s: %v", id, got)
			}
			if diff := gocmp.Diff(history, got[:len(history)]); diff != "" {
				t.Errorf("%s: history (-so far +sent):\n%s", id, diff)
			}
			history = append(slices.Clone(got), message{"assistant", "<" + id + ">"})
		}
	}
}

func TestPlannedHistoryDoesNotDependOnAnswers(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	e.KeepBodies = true
	o := begin(t, enginetest.AssignOf(sessionStage(&spatev1.LoadPoint{Concurrency: 1, Requests: 8},
		&spatev1.SessionPlay{History: "planned"}, e), 0), ready.Limits{}).Wait(t)
	bodies := e.Bodies()
	if uint64(len(bodies)) != o.Totals.GetCounters().GetCompleted() || len(bodies) <= 8 {
		t.Fatalf("%d bodies, totals %v", len(bodies), o.Totals)
	}
	for _, body := range bodies {
		if strings.Contains(body, "<run") {
			t.Errorf("an answer is in %s", body)
		}
	}
}

func TestTurnThatFailsEndsItsSession(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	stage := sessionStage(&spatev1.LoadPoint{Concurrency: 2, Requests: 10, WarmupRequests: 5}, nil, e)
	turns := turnsOf(t, stage, 15)
	warm, measured := slices.Index(turns[:5], 3), 5+slices.Index(turns[5:], 3)
	if warm < 0 || measured < 5 {
		t.Fatalf("no session of three turns among %v", turns)
	}
	e.Fails = map[string]int{id(uint64(warm), 0): 500, id(uint64(measured), 1): 500}
	o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t)
	c := o.Totals.GetCounters()
	if c.GetFailed() != 1 || c.GetCompleted() != sumOf(turns[5:])-2 || o.Totals.GetNeverSent() != 1 {
		t.Errorf("totals %v", o.Totals)
	}
	if want := sumOf(turns[:5]) - 2; c.GetUnmeasuredEnded() != want {
		t.Errorf("%d unmeasured, not %d", c.GetUnmeasuredEnded(), want)
	}
	if slices.Contains(e.Requests(), id(uint64(measured), 2)) ||
		slices.Contains(e.Requests(), id(uint64(warm), 1)) {
		t.Error("a turn came behind one that failed")
	}
}

// A session continues beyond the schedule's end, however short the drain timeout is compared to its pauses.
func TestDrainTimeoutCountsFromTheLastTurn(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 0, 0)
		stage := sessionStage(&spatev1.LoadPoint{Concurrency: 12, Requests: 12}, thinking(500*time.Millisecond), e)
		stage.DrainTimeout = durationpb.New(400 * time.Millisecond)
		o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t)
		all := sumOf(turnsOf(t, stage, 12))
		if o.Totals.GetCounters().GetCompleted() != all || o.Totals.GetNeverSent() != 0 {
			t.Errorf("totals %v", o.Totals)
		}
	})(t)
}

func TestUnstartedSessionsCountAllTurnsAsNeverSent(t *testing.T) {
	const sessions = 20
	for name, c := range map[string]struct {
		load   *spatev1.LoadPoint
		warmup int
	}{
		"closed loop": {load: &spatev1.LoadPoint{Concurrency: 3, Requests: sessions}},
		"closed loop, cool-down": {load: &spatev1.LoadPoint{Concurrency: 3, Requests: sessions,
			Cooldown: durationpb.New(time.Minute)}},
		"closed loop, still warm": {&spatev1.LoadPoint{Concurrency: 3, Requests: sessions,
			WarmupUntilSteady: durationpb.New(time.Minute)}, 3},
		"open loop": {load: &spatev1.LoadPoint{Rate: 10, Arrival: "poisson", Requests: sessions}},
		"open loop with warm-up": {&spatev1.LoadPoint{Rate: 10, Arrival: "poisson", Requests: sessions,
			WarmupRequests: 7}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			stage := sessionStage(c.load, nil, enginetest.New(t, 0, 0))
			s := prepare(t, enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
			defer s.Close()
			var last *spatev1.Snapshot
			l := New(s, Config{Start: clock.Now().Add(time.Hour), Emit: func(s *spatev1.Snapshot) { last = s }})
			l.Stop(false, false)
			l.Run()
			if got, want := last.GetTotals().GetNeverSent(),
				sumOf(turnsOf(t, stage, c.warmup+sessions)[c.warmup:]); got != want {
				t.Errorf("%d requests never sent, the sessions have %d", got, want)
			}
		})
	}
}

// Requests that were sent and those that were not add up to all turns, whenever a stop comes.
func TestStopCutsSessionsOff(t *testing.T) {
	const sessions = 200
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 3, Requests: sessions},
		"open loop":   {Rate: 100, Arrival: "constant", Requests: sessions},
	} {
		for _, immediately := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, immediately %t", name, immediately), virtual(func(t *testing.T) {
				e := newEngine(t, 2*time.Millisecond, 0)
				stage := sessionStage(load, thinking(5*time.Millisecond), e)
				u := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{})
				enginetest.Eventually(t, "some requests", func() bool { return len(e.Requests()) > 10 })
				u.Stop(immediately, false)
				o := u.Wait(t)
				if got, want := o.Totals.GetCounters().GetStarted()+o.Totals.GetNeverSent(),
					sumOf(turnsOf(t, stage, sessions)); got != want || !o.Totals.GetStopped() {
					t.Errorf("%d requests started or never sent, the sessions have %d; totals %v", got, want, o.Totals)
				}
			}))
		}
	}
}
