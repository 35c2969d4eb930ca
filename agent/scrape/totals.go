package scrape

import (
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/spate-load/spate/plans"
)

// startTime is when a server's process was started, by the convention of Prometheus' client libraries.
const startTime = "process_start_time_seconds"

// series names a series.
type series struct{ name, labels string }

// totals are what a server has counted since it was started.
type totals struct {
	started    float64 // its process, in seconds of the wall clock; 0: it does not tell
	counters   map[series]float64
	histograms map[series]histogram
	leftOut    uint32 // series that cannot be taken
}

// histogram is the values of a histogram since the server was started.
type histogram struct {
	count  uint64
	sum    float64
	bounds []float64 // upper bounds of the buckets but the last, rising; nil: the buckets are of no use
	counts []uint64  // of each bucket alone
}

// readTotals reads the counters and histograms that are wanted off a page. Of a metric whose series name a model, those
// of another model than the target's are left out, if one of them is the target's.
func readTotals(page []byte, wanted names, modelName string) (totals, error) {
	t := totals{counters: map[series]float64{}, histograms: map[series]histogram{}}
	families, err := familiesOf(filter(page, wanted.with(startTime), true))
	if err != nil {
		return t, err
	}
	for name, family := range families {
		if name == startTime {
			t.started = startOf(family)
			continue
		}
		t.add(family, wanted, modelName)
	}
	return t, nil
}

// with is the names and one more.
func (n names) with(name string) names {
	n.exact = maps.Clone(n.exact)
	n.exact[name] = len(n.exact) + len(n.prefixes)
	return n
}

// startOf is when the process of a page was started.
func startOf(family *dto.MetricFamily) float64 {
	for _, m := range family.GetMetric() {
		return m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	}
	return 0
}

// add takes in a family of metrics, if it is wanted and only ever grows.
func (t *totals) add(family *dto.MetricFamily, wanted names, modelName string) {
	name := family.GetName()
	kept := ofModel(family.GetMetric(), modelName)
	if family.GetType() == dto.MetricType_HISTOGRAM {
		if wanted.have(name) {
			for _, m := range kept {
				t.addHistogram(series{name, labelText(m.GetLabel())}, m.GetHistogram())
			}
		}
		return
	}
	isCounter := family.GetType() == dto.MetricType_COUNTER
	for _, s := range samplesOf(&dto.MetricFamily{Name: family.Name, Type: family.Type, Metric: kept}) {
		switch {
		case !s.GetCounter(), wanted.rankOf(name, isCounter) == unwanted && !wanted.have(s.GetName()):
		case !fits(s.GetName(), s.GetLabels()):
			t.leftOut++
		default:
			t.counters[series{s.GetName(), s.GetLabels()}] = s.GetValue()
		}
	}
}

// addHistogram takes in a histogram.
func (t *totals) addHistogram(key series, h *dto.Histogram) {
	if !fits(key.name, "") || !finite(h.GetSampleSum()) || h.GetSampleCount() > plans.MaxServerCount {
		t.leftOut++
		return
	}
	read := histogram{count: h.GetSampleCount(), sum: h.GetSampleSum()}
	read.bounds, read.counts = bucketsOf(h)
	t.histograms[key] = read
}

// bucketsOf returns the upper bounds of a histogram's buckets but the last, and the count of each bucket alone. They
// are nil if they make no sense, or are too many.
func bucketsOf(h *dto.Histogram) (bounds []float64, counts []uint64) {
	buckets := slices.Clone(h.GetBucket())
	slices.SortStableFunc(buckets, func(a, b *dto.Bucket) int {
		return int(math.Copysign(1, a.GetUpperBound()-b.GetUpperBound()))
	})
	below := uint64(0)
	for _, b := range buckets {
		switch {
		case math.IsInf(b.GetUpperBound(), 1):
			continue // that is all values
		case !finite(b.GetUpperBound()), b.GetCumulativeCount() < below, b.GetCumulativeCount() > h.GetSampleCount():
			return nil, nil
		case len(bounds) > 0 && b.GetUpperBound() <= bounds[len(bounds)-1]:
			return nil, nil
		}
		bounds = append(bounds, b.GetUpperBound())
		counts = append(counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	if len(bounds) == 0 || len(bounds) > plans.MaxServerBuckets {
		return nil, nil
	}
	return bounds, append(counts, h.GetSampleCount()-below)
}

// modelLabels are the labels in which engines and gateways name the model.
var modelLabels = []string{"model_name", "model"}

// ofModel leaves the series of other models out, if there are some of the one that is asked for. Dynamo writes its name
// in small letters.
func ofModel(metrics []*dto.Metric, name string) []*dto.Metric {
	other := func(m *dto.Metric) bool {
		return !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return slices.Contains(modelLabels, l.GetName()) && strings.EqualFold(l.GetValue(), name)
		})
	}
	if own := slices.DeleteFunc(slices.Clone(metrics), other); len(own) > 0 {
		return own
	}
	return metrics
}
