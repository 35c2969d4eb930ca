package live

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// mostAgents is the largest number of agents of which a window's event has one by one.
const mostAgents = 32

// shown are the metrics of a window's event.
var shown = []spatev1.Metric{
	spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_E2E, spatev1.Metric_METRIC_TPOT, spatev1.Metric_METRIC_ITL,
}

// windowEvent returns the event of one window. toDate is what the stage measured so far, by which it is judged.
func windowEvent(
	rec *spatev1.StageRecord, view merge.View, toDate merge.Measured, arrivals merge.Arrivals,
) *spatev1.RunEvent {
	w := &spatev1.StageWindow{
		StageIndex: rec.GetStage().GetIndex(), Number: view.Window, PeakInFlight: view.PeakInFlight,
		Whole: partOf(merge.Part{Measured: view.Total}), Errors: view.Total.Errors,
	}
	w.Whole.OutputTokensPerSecond, w.Whole.FramesPerSecond = arrivals.Tokens, arrivals.Frames
	for _, p := range view.Regions {
		if p.Name != "" {
			w.Regions = append(w.Regions, partOf(p))
		}
	}
	for _, p := range view.Agents {
		w.Agents = append(w.Agents, partOf(p))
	}
	judged := results.JudgeToDate(toDate, rec)
	w.Verdict = string(judged.Verdict)
	for _, c := range judged.Checks {
		if c.Verdict != trust.Valid {
			w.Doubts = append(w.Doubts, doubtOf(c))
		}
	}
	end := rec.GetStartTime().AsTime().Add(time.Duration(view.Window+1) * time.Second)
	return &spatev1.RunEvent{Time: timestamppb.New(end), Event: &spatev1.RunEvent_StageWindow{StageWindow: w}}
}

// doubtOf returns a check that did not pass.
func doubtOf(c trust.Check) *spatev1.Doubt {
	d := &spatev1.Doubt{Check: c.Name, Words: c.Words}
	if c.Remedy != nil {
		d.Remedy = *c.Remedy
	}
	return d
}

// partOf returns what a part of a stage measured in a window.
func partOf(p merge.Part) *spatev1.WindowPart {
	c := p.Measured.Counters
	seconds := max(p.Measured.Windows, 1)
	part := &spatev1.WindowPart{
		Name: p.Name, Region: p.Region, Seconds: seconds,
		Started: c.GetStarted(), Completed: c.GetCompleted(), Failed: c.GetFailed(),
		FramesPerSecond: float64(c.GetFrames()) / float64(seconds),
	}
	if c.GetUncountedFrames() == 0 {
		part.OutputTokensPerSecond = new(float64(c.GetTokensArrived()) / float64(seconds))
	}
	for _, s := range p.Measured.Summaries {
		if slices.Contains(shown, s.Metric) {
			part.Distributions = append(part.Distributions, &spatev1.WindowDistribution{
				Metric: measure.Of(s.Metric).Name, Count: s.Count, Mean: s.Mean, P50: s.P50, P90: s.P90, P99: s.P99,
				Max: s.Max,
			})
		}
	}
	return part
}
