package lifecycle

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The loss of an assignment names each second with requests that were due and never sent: the seconds from the first
// such request on, and then the seconds that are missing entirely. It names no second before the first such request.
func TestALossNamesTheSecondsOfWhatWasNeverSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := &spatev1.Stage{
			Target: &spatev1.Target{Name: "east"}, Load: &spatev1.LoadPoint{Rate: 10, Arrival: "poisson"},
			OnAgentLoss: degrade,
		}
		r := New(Config{}, "r", []*spatev1.Stage{plan}, 1, time.Unix(0, 0))
		for _, name := range []string{"a", "b"} {
			r.Connected(1, &spatev1.AgentInfo{Name: name}, 1, nil, false)
		}
		r.Tick(1)
		for _, name := range []string{"a", "b"} {
			r.Applied(1, name, &spatev1.Applied{Ref: r.stage.ref})
		}
		delivered := rapid.Uint32Range(1, 40).Draw(t, "windows delivered")
		totals := &spatev1.Totals{
			Snapshots: uint64(delivered), Failure: "its lease has ended",
			FailureKind: spatev1.FailureKind_FAILURE_KIND_AGENT,
			NeverSent:   rapid.Uint64Range(0, 3).Draw(t, "never sent"),
		}
		if rapid.Bool().Draw(t, "known") {
			totals.UnsentFromNs = proto.Int64(rapid.Int64Range(-1, 50e9).Draw(t, "unsent from"))
		}
		for window := range delivered {
			key := &spatev1.SnapshotKey{RunId: "r", Agent: "b", Incarnation: 1, Sequence: uint64(window) + 1}
			s := &spatev1.Snapshot{Key: key, Window: window, Revision: 1}
			if window == delivered-1 {
				s.Totals = totals
			}
			r.Merged(clock.Instant(window)*1e9, s)
		}
		loss := r.stage.snapshot().GetAgents()[1].GetLoss()
		if loss == nil || loss.GetFromWindow() != delivered {
			t.Fatalf("lost %v, want all from window %d on", loss, delivered)
		}
		first := delivered // first second that the loss names
		if loss.UnsentFromWindow != nil {
			first = loss.GetUnsentFromWindow()
		}
		want := delivered
		if due := totals.GetUnsentFromNs(); totals.NeverSent > 0 && totals.UnsentFromNs != nil && due >= 0 {
			want = min(uint32(due/1e9), delivered)
		}
		if first != want {
			t.Fatalf("something is missing from second %d on, by the loss from %d on", want, first)
		}
	})
}
