package history

import (
	"cmp"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Read returns a number over the newest runs of a plan, at most so many: an empty plan asks for all plans, an empty
// metric for the default. removed reports whether a run is not there any more. It fails if there is no such metric.
func (s *Store) Read(
	plan, metric string, most int, removed func(run string) bool,
) (*spatev1.ReadHistoryResponse, error) {
	of, err := compare.MetricNamed(cmp.Or(metric, compare.DefaultMetric))
	if err != nil {
		return nil, err
	}
	records, gone := s.Newest(plan, most), map[string]bool{}
	for _, r := range records {
		gone[r.Run] = removed(r.Run)
	}
	return &spatev1.ReadHistoryResponse{Lines: message(compare.Lines(records, of), gone), Plans: s.Plans()}, nil
}

// message returns lines as a message. Runs in removed are not there any more.
func message(lines []*compare.Line, removed map[string]bool) (out []*spatev1.HistoryLine) {
	for _, l := range lines {
		m := &spatev1.HistoryLine{Plan: l.Plan, Target: l.Target, Workload: l.Workload, Load: l.Load, Metric: l.Metric,
			Unit: l.Unit}
		for _, p := range l.Points {
			m.Points = append(m.Points, &spatev1.HistoryPoint{
				Run: p.Run, Time: timestamppb.New(p.Time), Version: p.Version, Labels: p.Labels, Value: p.Value,
				Verdict: string(p.Verdict), Against: p.Against, Change: p.Change, Outcome: string(p.Outcome),
				Removed: removed[p.Run],
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
