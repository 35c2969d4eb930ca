package history

import (
	"cmp"

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
	lines := compare.Lines(s.Newest(plan, most), of)
	gone := map[string]bool{} // asked once for each run
	for _, l := range lines {
		for _, p := range l.GetPoints() {
			if _, known := gone[p.GetRun()]; !known {
				gone[p.GetRun()] = removed(p.GetRun())
			}
			p.Removed = gone[p.GetRun()]
		}
	}
	return &spatev1.ReadHistoryResponse{Lines: lines, Plans: s.Plans()}, nil
}
