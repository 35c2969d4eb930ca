package lifecycle_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Wherever in a script the coordinator and all agents die, others can run the rest. Ended stages are kept, the stage in
// progress is measured again under its own number, and all later stages are run.
func TestARewoundRunIsRunToItsEnd(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= strings.Count("\n"+string(text), "\n> "); n++ {
				play(t, string(text), func(c int) bool { return c == n }, (*scenario).rewind)
			}
		})
	}
}

// rewind lets the coordinator and all agents die, lets others run the rest, and checks the result.
func (s *scenario) rewind() {
	if s.run == nil || s.run.Ended() || s.checkpoint == nil {
		return
	}
	m := lifecycle.Memory{Submission: &spatev1.Submission{Plan: s.plan}, Checkpoint: proto.CloneOf(s.checkpoint)}
	if begun := s.checkpoint.GetBegun(); begun > 0 {
		m.Stage = s.records[begun-1]
	}
	for _, p := range s.checkpoint.GetProbes() {
		m.Outcomes = append(m.Outcomes, s.outcomes[p.GetStageIndex()])
	}
	begun := s.checkpoint.GetBegun()
	if again := m.Rewind(); again != nil {
		if begun--; again.GetIndex() != begun {
			s.t.Fatalf("stage %d is measured again, and %d had begun", again.GetIndex(), begun+1)
		}
	}
	left, series := m.Left(), slices.ContainsFunc(m.Left(), isTemplate)
	run, err := lifecycle.Restore(lifecycle.Config{}, "r", m, s.at, epoch)
	if err != nil {
		s.t.Fatal(err)
	}
	ran := others{s: s, run: run}.runTheRest(begun)
	if ran < len(left) || ran > len(left) && !series {
		s.t.Errorf("%d stages were run, %d were left", ran, len(left))
	}
	s.run, s.checkpoint = nil, nil // the script is over
}

// isTemplate reports whether an entry of a plan becomes stages one after another.
func isTemplate(st *spatev1.Stage) bool {
	return loadpoint.IsTemplate(st.GetLoad())
}

// others are the agents of a run after it was rewound: two in each region.
type others struct {
	s   *scenario
	run *lifecycle.Run
}

// runTheRest plays coordinator and agents until the run's end, and returns how many stages were run. Their indices
// start at first.
func (o others) runTheRest(first uint32) (ran int) {
	var regions []string
	for region := range o.s.plan[0].GetRegions() {
		regions = append(regions, region)
	}
	for _, region := range append(regions, "") {
		for _, name := range []string{"x", "y"} {
			info := &spatev1.AgentInfo{Name: name + region, Region: region, Weight: 1,
				Labels: o.s.plan[0].GetAgents().GetLabels()}
			o.run.Connected(o.s.at, info, 99, nil, false)
		}
	}
	for range 2000 {
		for _, e := range o.run.Effects() {
			switch e := e.(type) {
			case lifecycle.Send:
				o.answer(e)
			case lifecycle.Emit:
				if w := e.Event.GetServerWanted(); w != nil {
					o.run.ServerReported(o.s.at, &spatev1.ReportServerRequest{StageIndex: w.GetStageIndex()})
				}
			case lifecycle.CloseStage:
				if index := e.Record.GetStage().GetIndex(); index != first+uint32(ran) {
					o.s.t.Errorf("stage %d is run, want %d", index, first+uint32(ran))
				}
				ran++
				out := o.outcome(e.Keep)
				out.Target = e.Record.GetStage().GetTarget().GetName()
				o.run.Closed(o.s.at, true, out)
			}
		}
		if o.run.Ended() {
			return ran
		}
		o.s.at = o.s.at.Add(100 * time.Millisecond)
		for _, region := range append(slices.Clone(regions), "") {
			o.run.Heard(o.s.at, "x"+region, &spatev1.Heartbeat{})
			o.run.Heard(o.s.at, "y"+region, &spatev1.Heartbeat{})
		}
		o.run.Tick(o.s.at)
	}
	o.s.t.Error("the run does not end")
	return ran
}

// answer plays an agent that is ready at once, and whose assignment is done when it is armed or told to stop.
func (o others) answer(e lifecycle.Send) {
	switch m := e.Message.GetMessage().(type) {
	case *spatev1.ConnectResponse_Assign:
		o.run.Applied(o.s.at, e.Agent, &spatev1.Applied{Ref: m.Assign.GetRef(), ClockUncertaintyNs: 1000})
	case *spatev1.ConnectResponse_Arm:
		o.merge(e.Agent, m.Arm.GetRef())
	}
}

// merge delivers an agent's only snapshot of a stage.
func (o others) merge(agent string, ref *spatev1.AssignmentRef) {
	o.run.Merged(o.s.at, &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{RunId: "r", Agent: agent, Incarnation: 99,
			Sequence: uint64(ref.GetStageIndex()) + 1},
		StageIndex: ref.GetStageIndex(), Revision: ref.GetRevision(), Totals: &spatev1.Totals{Snapshots: 1},
	})
}

// outcome returns the outcome of a stage that kept all objectives.
func (o others) outcome(keep *spatev1.Objectives) series.Outcome {
	throughput, fast := 10.0, time.Millisecond
	out := series.Outcome{Completed: 100, Good: 100, Throughput: &throughput, Verdict: "VALID"}
	for range keep.GetLatencies() {
		out.Latencies = append(out.Latencies, &fast)
	}
	return out
}
