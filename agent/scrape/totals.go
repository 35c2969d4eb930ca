package scrape

import (
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/spate-load/spate/plans/servermetrics"
)

// startTime is the metric with the start time of a server's process, by the convention of Prometheus' client libraries.
const startTime = "process_start_time_seconds"

// series identifies a series.
type series struct{ name, labels string }

// totals are what a server has counted since it started.
type totals struct {
	started    float64 // start of the process, in seconds of the wall clock; 0: not known
	counters   map[series]float64
	histograms map[series]histogram
	leftOut    uint32 // series beyond the limits
}

// histogram holds the values of a histogram since the server started.
type histogram struct {
	count  uint64
	sum    float64
	bounds []float64 // upper bounds of all buckets but the last, rising; nil: the buckets are unusable
	counts []uint64  // of each bucket alone
}

// readTotals reads the wanted counters and histograms from a page. If a metric has series of the target's model, its
// series of other models are excluded.
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

// with returns the names plus one more.
func (n names) with(name string) names {
	n.exact = maps.Clone(n.exact)
	n.exact[name] = len(n.exact) + len(n.prefixes)
	return n
}

// startOf returns when the process of a page started.
func startOf(family *dto.MetricFamily) float64 {
	for _, m := range family.GetMetric() {
		return m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	}
	return 0
}

// add adds a family of metrics, if it is wanted and only grows.
func (t *totals) add(family *dto.MetricFamily, wanted names, modelName string) {
	name := family.GetName()
	kept := ofModel(family.GetMetric(), modelName)
	if family.GetType() == dto.MetricType_HISTOGRAM {
		if wanted.match(name) {
			for _, m := range kept {
				t.addHistogram(series{name, labelText(m.GetLabel())}, m.GetHistogram())
			}
		}
		return
	}
	isCounter := family.GetType() == dto.MetricType_COUNTER
	for _, s := range samplesOf(&dto.MetricFamily{Name: family.Name, Type: family.Type, Metric: kept}) {
		switch {
		case !s.GetCounter(), wanted.rankOf(name, isCounter) == unwanted && !wanted.match(s.GetName()):
		case !fits(s.GetName(), s.GetLabels()):
			t.leftOut++
		default:
			t.counters[series{s.GetName(), s.GetLabels()}] = s.GetValue()
		}
	}
}

// addHistogram adds a histogram.
func (t *totals) addHistogram(key series, h *dto.Histogram) {
	if !fits(key.name, "") || !finite(h.GetSampleSum()) || h.GetSampleCount() > servermetrics.MaxCount {
		t.leftOut++
		return
	}
	read := histogram{count: h.GetSampleCount(), sum: h.GetSampleSum()}
	read.bounds, read.counts = bucketsOf(h)
	t.histograms[key] = read
}

// bucketsOf returns the upper bounds of all buckets but the last, and the count of each bucket alone. Both are nil if
// the buckets are inconsistent or too many.
func bucketsOf(h *dto.Histogram) (bounds []float64, counts []uint64) {
	buckets := slices.Clone(h.GetBucket())
	slices.SortStableFunc(buckets, func(a, b *dto.Bucket) int {
		return int(math.Copysign(1, a.GetUpperBound()-b.GetUpperBound()))
	})
	below := uint64(0)
	for _, b := range buckets {
		switch {
		case math.IsInf(b.GetUpperBound(), 1):
			continue // the last bucket, which counts all values
		case !finite(b.GetUpperBound()), b.GetCumulativeCount() < below, b.GetCumulativeCount() > h.GetSampleCount():
			return nil, nil
		case len(bounds) > 0 && b.GetUpperBound() <= bounds[len(bounds)-1]:
			return nil, nil
		}
		bounds = append(bounds, b.GetUpperBound())
		counts = append(counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	if len(bounds) == 0 || len(bounds) > servermetrics.MaxBuckets {
		return nil, nil
	}
	return bounds, append(counts, h.GetSampleCount()-below)
}

// modelLabels are the labels in which engines and gateways name the model.
var modelLabels = []string{"model_name", "model"}

// ofModel returns the series of the named model, or all series if it has none. The case of the name does not matter,
// because Dynamo writes it in lower case.
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
