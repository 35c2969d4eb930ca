package history

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Message returns lines as a message. removed reports whether a run is not there any more.
func Message(lines []*compare.Line, removed func(run string) bool) (out []*spatev1.HistoryLine) {
	for _, l := range lines {
		m := &spatev1.HistoryLine{Plan: l.Plan, Target: l.Target, Workload: l.Workload, Load: l.Load, Metric: l.Metric,
			Unit: l.Unit}
		for _, p := range l.Points {
			m.Points = append(m.Points, &spatev1.HistoryPoint{
				Run: p.Run, Time: timestamppb.New(p.Time), Version: p.Version, Labels: p.Labels, Value: p.Value,
				Verdict: string(p.Verdict), Against: p.Against, Change: p.Change, Outcome: string(p.Outcome),
				Removed: removed(p.Run),
			})
		}
		out = append(out, m)
	}
	return out
}

// Lines returns the lines of a message.
func Lines(message []*spatev1.HistoryLine) (out []*compare.Line) {
	for _, m := range message {
		l := &compare.Line{Plan: m.GetPlan(), Target: m.GetTarget(), Workload: m.GetWorkload(), Load: m.GetLoad(),
			Metric: m.GetMetric(), Unit: m.GetUnit()}
		for _, p := range m.GetPoints() {
			l.Points = append(l.Points, compare.HistoryPoint{
				Run: p.GetRun(), Time: p.GetTime().AsTime(), Version: p.GetVersion(), Labels: p.GetLabels(),
				Value: p.GetValue(), Verdict: trust.Verdict(p.GetVerdict()), Against: p.GetAgainst(), Change: p.Change,
				Outcome: compare.Outcome(p.GetOutcome()), Removed: p.GetRemoved(),
			})
		}
		out = append(out, l)
	}
	return out
}
