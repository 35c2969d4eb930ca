package compare

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// History returns a metric of all stages of runs as lines, in the order in which stages first come. Each stage is
// compared with that of the last run before it that has the same plan, target, workload and load, and can be believed;
// several repeats are several stages. Runs without a time of their start are left out. The error is that of reading
// requests.
func History(runs []*Run, metric *Metric, o Options) ([]*spatev1.HistoryLine, error) {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *Run) int { return begun(a).Compare(begun(b)) })
	var records []*Record
	last := map[StageKey]*Run{}
	for _, r := range runs {
		record, err := RecordOf(r, func(k StageKey) *Run { return last[k] }, o)
		if err != nil {
			return nil, err
		}
		if record == nil {
			continue
		}
		records = append(records, record)
		for i := range record.Stages {
			if s := &record.Stages[i]; s.Usable {
				last[record.Key(s)] = r
			}
		}
	}
	return Lines(records, metric), nil
}

// Lines returns a metric of all stages of records, the oldest first, as lines, in the order in which stages first come.
func Lines(records []*Record, metric *Metric) (order []*spatev1.HistoryLine) {
	lines := map[StageKey]*spatev1.HistoryLine{}
	for _, r := range records {
		for i := range r.Stages {
			s := &r.Stages[i]
			n, has := s.Numbers[metric.Name]
			if !has {
				continue
			}
			l := lines[r.Key(s)]
			if l == nil {
				l = &spatev1.HistoryLine{Plan: r.Plan, Target: s.Target, Workload: s.Workload, Load: s.Load,
					Metric: metric.Name, Unit: metric.Unit}
				lines[r.Key(s)], order = l, append(order, l)
			}
			p := &spatev1.HistoryPoint{Run: r.Run, Time: timestamppb.New(r.Time), Version: r.Version, Labels: s.Labels,
				Value: n.Value, Verdict: string(s.Verdict), Change: n.Change, Outcome: string(n.Outcome)}
			if n.Outcome != "" {
				p.Against = s.Against
			}
			l.Points = append(l.Points, p)
		}
	}
	return order
}
