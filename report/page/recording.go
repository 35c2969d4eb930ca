package page

import (
	"slices"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Recording is what a page needs of a stage besides its result: how its values are distributed, and what happened when.
type Recording struct {
	// stageStart is when the stage began, in seconds since the start of the run.
	stageStart float64
	seconds    []results.Second
	curves     [][]quantile                 // of the metrics in latencies
	times      *histogram.Histogram         // of a window and a metric; reused
	waits      map[uint32][len(waited)]wait // by window
}

// waited are the metrics of which there is a line over time.
var waited = [...]spatev1.Metric{spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_ITL}

// wait is what a metric had in a window, in nanoseconds.
type wait struct{ count, sum, longest uint64 }

// quantile is a point of a distribution: a share of the values is at most ms.
type quantile struct{ ms, share float64 }

// NewRecording returns an empty recording of a stage.
func NewRecording() *Recording {
	return &Recording{waits: make(map[uint32][len(waited)]wait), times: histogram.New(histogram.Times)}
}

// Watch implements merge.Watch.
func (r *Recording) Watch(window uint32, m spatev1.Metric, values histogram.Encoded) {
	at, h := slices.Index(waited[:], m), r.times
	if at < 0 {
		return
	}
	if h.Reset(); h.Add(values) != nil { // the layout is that of the metric, and one window cannot fill it
		return
	}
	all := r.waits[window]
	w := &all[at]
	w.count, w.sum, w.longest = w.count+h.Count(), w.sum+h.Sum().Low, max(w.longest, uint64(h.Max()))
	r.waits[window] = all
}

// End takes what it needs of the merged stage, which began start seconds after the run.
func (r *Recording) End(s *merge.Stage, rec *spatev1.StageRecord, start float64) {
	r.stageStart, r.seconds = start, results.SecondsOf(s, rec)
	r.times = nil
	r.curves = lists.Each(latencies, func(l latency) []quantile {
		return curveOf(s.Values(l.metric), measure.Of(l.metric).Unit.Scale())
	})
}

// percentiles are the points of distributions: dense where the tail begins.
var percentiles = []float64{
	0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 93, 95, 97, 98, 99, 99.5, 99.9, 100,
}

// curveOf returns the distribution of values, or nil if there are none.
func curveOf(h *histogram.Histogram, scale float64) (curve []quantile) {
	if h == nil || h.Count() == 0 {
		return nil
	}
	values := make([]int64, len(percentiles))
	h.Percentiles(percentiles, values)
	for i, v := range values {
		curve = append(curve, quantile{float64(v) / scale, percentiles[i]})
	}
	return curve
}
