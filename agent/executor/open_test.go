package executor

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// stuck is a workload that blocks on the prompt of its first request until it is released.
type stuck struct {
	workload.Workload
	until chan struct{}
}

func (s stuck) AppendPrompt(dst []byte, r workload.Request) ([]byte, error) {
	if r.Index == 0 {
		<-s.until
	}
	return s.Workload.AppendPrompt(dst, r)
}

// A request whose prompt is not ready when it is due delays no other: the loop waits only for workers that have nothing
// left to do but send.
func TestUnfinishedPromptDelaysNoOther(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 0, 0)
		stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 20}, e)
		s := prepare(t, enginetest.AssignOf(stage, 0, 1), resourcesOf(ready.Limits{}))
		until := make(chan struct{})
		s.Content = stuck{s.Content, until}
		letGo := sync.OnceFunc(func() { close(until) })
		u := start(t, s)
		t.Cleanup(letGo)
		enginetest.Eventually(t, "all but the first are sent", func() bool { return len(e.Requests()) >= 19 })
		letGo()
		o := u.Wait(t)
		if n := o.Totals.GetCounters().GetCompleted(); n != 20 {
			t.Errorf("%d requests completed, want 20", n)
		}
	})(t)
}

func TestReplayKeepsTheTimesOfTheTrace(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 0, 0)
		stage, dir := enginetest.TraceStage(t, 30, 2, e)
		seen := map[uint64]int{}
		for rank := range uint32(2) {
			o := beginWith(t, enginetest.AssignOf(stage, rank, 1, 2), resourcesIn(dir)).Wait(t)
			for _, row := range o.rows {
				seen[row.GetIndex()]++
				want := 5 * time.Millisecond * time.Duration(row.GetIndex())
				if row.GetScheduledNs() != want.Nanoseconds() || row.GetStartNs() < row.GetScheduledNs() {
					t.Errorf("row %d scheduled at %d and started at %d, it came at %v", row.GetIndex(),
						row.GetScheduledNs(), row.GetStartNs(), want)
				}
				if row.GetIslAsked() != 6 || row.GetOslAsked() != 2 {
					t.Errorf("row %v", row)
				}
			}
			if o.Totals.GetNeverSent() != 0 || o.Totals.GetCounters().GetCompleted() != uint64(len(o.rows)) ||
				o.Totals.GetFailure() != "" {
				t.Errorf("totals %v", o.Totals)
			}
		}
		if len(seen) != 30 || len(e.Requests()) != 30 {
			t.Errorf("%d rows sent in %d requests", len(seen), len(e.Requests()))
		}
	})(t)
}

// A row's tools are sent with its messages, and with no other row's.
func TestRowsAreSentWithTheirFields(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	e.KeepBodies = true
	stage, dir := enginetest.StageOfTrace(t, `{"timestamp": 0, "messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]}
{"timestamp": 5, "messages": [{"role": "user", "content": "b"}]}
`, 2, 1, e)
	stage.Target.Api = "chat"
	o := beginWith(t, enginetest.AssignOf(stage, 0), resourcesIn(dir)).Wait(t)
	if o.Totals.GetCounters().GetStarted() != 2 {
		t.Errorf("totals %v", o.Totals)
	}
	with, without := 0, 0
	for _, text := range e.Bodies() {
		var body struct {
			Messages []struct{ Content string }
			Tools    []struct{ Type string }
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		switch {
		case len(body.Messages) != 1:
		case body.Messages[0].Content == "a" && len(body.Tools) == 1 && body.Tools[0].Type == "function":
			with++
		case body.Messages[0].Content == "b" && body.Tools == nil:
			without++
		}
	}
	if with != 1 || without != 1 {
		t.Errorf("%d and %d requests are right: %q", with, without, e.Bodies())
	}
}

// A file is cut off after its index of rows, as if the disk failed during the stage.
func TestRowThatCannotBeReadFailsTheLoad(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 3, Requests: 30},
		"open loop":   {Rate: 1000, Arrival: "constant", Requests: 30},
		"replay":      {Arrival: "trace", ReplaySpeed: 10, Requests: 30},
	} {
		t.Run(name, func(t *testing.T) {
			stage, dir := enginetest.TraceStage(t, 30, 1, enginetest.New(t, 0, 0))
			stage.Load = load
			s := prepare(t, enginetest.AssignOf(stage, 0), resourcesIn(dir))
			if err := os.Truncate(enginetest.RowsFile(t, dir, stage.GetDataset()), 16); err != nil {
				t.Fatal(err)
			}
			o := start(t, s).Wait(t)
			if o.Totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT ||
				!strings.Contains(o.Totals.GetFailure(), "row") {
				t.Errorf("failure %q of kind %v", o.Totals.GetFailure(), o.Totals.GetFailureKind())
			}
			if c := o.Totals.GetCounters(); c.GetStarted()+o.Totals.GetNeverSent() != 30 {
				t.Errorf("totals %v", o.Totals)
			}
		})
	}
}
