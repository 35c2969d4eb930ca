package coordinator

import (
	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// regionPoints are the results of a stage by region, and of its observers. v is the stage to date.
func regionPoints(scope sink.Scope, rec *spatev1.StageRecord, r aggregate.StageResult, v aggregate.View) (out []sink.StagePoint) {
	for _, region := range r.Regions {
		m := find(v.Regions, region.Name)
		if region.Name == "" || m == nil {
			continue // no region: the whole has it
		}
		s := scope
		s.Region = region.Name
		out = append(out, regionPoint(s, rec, *m, region.Contribution, r.DurationS, r.Complete))
	}
	for _, o := range r.Observers {
		m := find(v.Observers, o.Region)
		if m == nil {
			continue
		}
		s := scope
		s.Region, s.Observer = o.Region, true
		out = append(out, regionPoint(s, rec, *m, o.Contribution, o.DurationS, len(o.Missing) == 0))
	}
	return out
}

// regionPoint is the result of a region, or of its observer, over some time.
func regionPoint(
	scope sink.Scope, rec *spatev1.StageRecord, m aggregate.Measured, c aggregate.Contribution, seconds *float64, complete bool,
) sink.StagePoint {
	return sink.StagePoint{
		Scope: scope, StageStart: rec.GetStartTime().AsTime(), Complete: complete, Failure: rec.GetFailure(),
		Measures: measures(m, rec.GetStage().GetSlo() != nil),
		Whole: sink.Throughput{
			Seconds: seconds, Requests: c.RequestThroughput, OutputTokens: c.OutputTokenThroughput, TotalTokens: c.TotalTokenThroughput,
		},
	}
}
