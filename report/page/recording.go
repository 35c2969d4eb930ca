package page

import (
	"math"

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
	curves     [][]quantile // of the metrics in latencies
	gaps       gapMap
	waits      map[uint32]wait // by window
}

// wait is the TTFT of the requests that ended in a window, in nanoseconds.
type wait struct{ count, sum, longest uint64 }

// quantile is a point of a distribution: a share of the values is at most ms.
type quantile struct{ ms, share float64 }

// NewRecording returns an empty recording of a stage.
func NewRecording() *Recording {
	return &Recording{waits: make(map[uint32]wait), gaps: gapMap{width: 1, counts: make(map[gapCell]uint64),
		values: histogram.New(histogram.LayoutOf(gapMetric))}}
}

// gapMetric is the metric of the heat maps.
const gapMetric = spatev1.Metric_METRIC_ITL

// Watch implements merge.Watch.
func (r *Recording) Watch(window uint32, m spatev1.Metric, values histogram.Encoded) {
	switch h := r.gaps.values; m {
	case gapMetric:
		r.gaps.add(window, values)
	case spatev1.Metric_METRIC_TTFT: // of the same layout
		if h.Reset(); h.Add(values) == nil {
			w := r.waits[window]
			r.waits[window] = wait{w.count + h.Count(), w.sum + h.Sum().Low, max(w.longest, uint64(h.Max()))}
		}
	}
}

// End takes what it needs of the merged stage, which began start seconds after the run.
func (r *Recording) End(s *merge.Stage, rec *spatev1.StageRecord, start float64) {
	r.stageStart, r.seconds = start, results.SecondsOf(s, rec)
	r.gaps.values = nil
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

// gapMap counts the gaps between tokens by time and length. It widens its columns as the stage gets longer, so that its
// size is bounded.
type gapMap struct {
	width  uint32 // of a column, in windows
	counts map[gapCell]uint64
	values *histogram.Histogram // reused
}

// gapCell is a cell of a gapMap: a column, and a row of lengths on a logarithmic scale.
type gapCell struct {
	column uint32
	row    int
}

const (
	maxColumns    = 128
	rowsPerOctave = 3
)

// rowOf returns the row of a gap in nanoseconds.
func rowOf(ns int64) int { return int(math.Floor(math.Log2(float64(max(ns, 1))) * rowsPerOctave)) }

// rowStart returns the shortest gap of a row, in milliseconds.
func rowStart(row int) float64 { return math.Exp2(float64(row)/rowsPerOctave) / nanosPerMs }

const nanosPerMs = 1e6

// add counts the gaps of a window.
func (g *gapMap) add(window uint32, values histogram.Encoded) {
	for window/g.width >= maxColumns {
		g.widen()
	}
	g.values.Reset()
	if g.values.Add(values) != nil { // the layout is that of the metric, and one window cannot fill it
		return
	}
	for ns, n := range g.values.Counts {
		g.counts[gapCell{window / g.width, rowOf(ns)}] += n
	}
}

// widen joins each two columns.
func (g *gapMap) widen() {
	joined := make(map[gapCell]uint64, len(g.counts))
	for c, n := range g.counts {
		joined[gapCell{c.column / 2, c.row}] += n
	}
	g.counts, g.width = joined, 2*g.width
}

// columns returns the counts by row of at most most columns.
func (g *gapMap) columns(most int) (columns []map[int]uint64) {
	last := uint32(0)
	for c := range g.counts {
		last = max(last, c.column)
	}
	if len(g.counts) == 0 {
		return nil
	}
	join := (int(last) + most) / most
	columns = make([]map[int]uint64, int(last)/join+1)
	for c, n := range g.counts {
		at := int(c.column) / join
		if columns[at] == nil {
			columns[at] = make(map[int]uint64)
		}
		columns[at][c.row] += n
	}
	return columns
}
