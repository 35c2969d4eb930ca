package points

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// places returns the measurements of points' rows, with their regions, agents and endpoints.
func places[P interface{ Rows() []sink.Row }](points []P) string {
	var out []string
	for _, p := range points {
		for _, row := range p.Rows() {
			name := strings.TrimPrefix(row.Measurement, "spate_")
			for _, tag := range row.Tags {
				if tag.Key == "region" || tag.Key == "agent" || tag.Key == "endpoint" {
					name += " " + tag.Value
				}
			}
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// The points of the whole, regions, agents and endpoints have different tags, so that nothing counts twice.
func TestPointsByRegion(t *testing.T) {
	rec := &spatev1.StageRecord{StartTime: timestamppb.Now(),
		Stage: &spatev1.Stage{Target: &spatev1.Target{Endpoints: []string{"http://e"}}}}
	for i, region := range []string{"eu", "us"} {
		rec.Agents = append(rec.Agents, &spatev1.AssignedAgent{
			Agent: &spatev1.AgentInfo{Name: fmt.Sprintf("a%d", i), Region: region}, Incarnation: 1,
		})
	}
	merged := merge.NewStage(rec)
	add := func(agent int, s *spatev1.Snapshot) {
		s.Key = &spatev1.SnapshotKey{Agent: fmt.Sprintf("a%d", agent), Incarnation: 1, Sequence: uint64(s.GetWindow() + 1)}
		if err := merged.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rec.GetAgents() {
		add(i, &spatev1.Snapshot{Series: []*spatev1.Series{{Counters: &spatev1.Counters{Started: 1}}}})
	}
	view, _ := merged.Window(0)
	toDate, result := merged.ToDate(), results.OfStage(merged, rec)
	want := "to_date, to_date a0 eu, to_date a1 us, to_date eu, to_date http://e, to_date us, " +
		"window, window a0 eu, window a1 us, window eu, window http://e, window us"
	if got := places(windows(sink.Scope{}, rec, view, &toDate)); got != want {
		t.Errorf("windows: %s", got)
	}
	if got := places(stage(sink.Scope{}, rec, result,
		merged.ToDateWithoutAgents())); got != "stage, stage eu, stage http://e, stage us" {
		t.Errorf("stages: %s", got)
	}

	add(0, &spatev1.Snapshot{Window: 1, Series: []*spatev1.Series{{Counters: &spatev1.Counters{Completed: 1}}}})
	add(1, &spatev1.Snapshot{Window: 1}) // in which it measured nothing
	view, _ = merged.Window(1)
	toDate = merged.ToDate()
	want = "to_date, to_date a0 eu, to_date a1 us, to_date eu, to_date http://e, to_date us, " +
		"window, window a0 eu, window eu, window http://e"
	if got := places(windows(sink.Scope{}, rec, view, &toDate)); got != want {
		t.Errorf("second windows: %s", got)
	}
}

// Each check that a result did not pass is an event, the worst first, at the stage's end.
func TestDoubts(t *testing.T) {
	start := time.Unix(1700000000, 0)
	rec := &spatev1.StageRecord{StartTime: timestamppb.New(start), Stage: &spatev1.Stage{Index: 2}}
	r := results.StageResult{DurationS: new(1.5), Trust: trust.Trust{Verdict: trust.Invalid, Checks: []trust.Check{
		{Name: "rate", Verdict: trust.Valid, Words: "as asked"},
		{Name: "errors", Verdict: trust.Suspect, Words: "2 % failed.", Remedy: new("Look at the server.")},
		{Name: "send_delay", Verdict: trust.Invalid, Words: "p99 of 40 ms"},
	}}}
	scope := sink.Scope{RunID: "r", StageIndex: 2}
	want := []sink.Point{
		sink.EventPoint{RunID: "r", Time: start.Add(1500 * time.Millisecond).UTC(), Kind: sink.Doubt, Stage: &scope,
			Check: "send_delay", Text: "INVALID: p99 of 40 ms."},
		sink.EventPoint{RunID: "r", Time: start.Add(1500 * time.Millisecond).UTC(), Kind: sink.Doubt, Stage: &scope,
			Check: "errors", Text: "SUSPECT: 2 % failed. What to do: Look at the server."},
	}
	if got := doubts(scope, rec, r); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
