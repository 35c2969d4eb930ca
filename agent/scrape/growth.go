package scrape

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// growth returns what a server counted between two readings, within the limits of an account; the most important
// metrics are kept. A series that is not in the first reading counts from 0. If the server restarted in between, its
// earlier counts are lost, and the growth is everything it has now.
func growth(first, last totals, order names) *spatev1.ServerAccount {
	a := &spatev1.ServerAccount{Restarted: restarted(first, last), LeftOut: last.leftOut}
	if a.Restarted {
		first = totals{}
	}
	for key, value := range last.counters {
		grew := servermetrics.Increase(first.counters[key], value)
		if !finite(grew) {
			a.LeftOut++
			continue
		}
		a.Counters = append(a.Counters, &spatev1.ServerCounter{Name: key.name, Labels: key.labels, Increase: grew})
	}
	names := lists.Each(slices.Collect(maps.Keys(last.histograms)), func(key series) string { return key.name })
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		h := histogramGrowth(name, first.histograms, last.histograms)
		if !finite(h.GetSum()) || h.GetCount() > servermetrics.MaxCount {
			a.LeftOut++
			continue
		}
		a.Histograms = append(a.Histograms, h)
	}
	limit(a, order)
	return a
}

// restarted reports whether a server restarted between two readings: its start time differs, or, if that is not
// known, something that only grows has decreased.
func restarted(first, last totals) bool {
	if first.started != 0 && last.started != 0 {
		return first.started != last.started
	}
	for key, before := range first.counters {
		if after, there := last.counters[key]; there && after < before {
			return true
		}
	}
	for key, before := range first.histograms {
		if after, there := last.histograms[key]; there && after.count < before.count {
			return true
		}
	}
	return false
}

// histogramGrowth returns the growth of all histograms with a name together.
func histogramGrowth(name string, first, last map[series]histogram) (sum *spatev1.ServerHistogram) {
	for key, after := range last {
		if key.name != name {
			continue
		}
		before := first[key]
		if after.count < before.count { // the series of this label alone restarted
			before = histogram{}
		}
		grew := &spatev1.ServerHistogram{Name: name, Count: after.count - before.count, Sum: after.sum - before.sum}
		if counts := bucketGrowth(before, after); counts != nil && grew.Count > 0 {
			grew.Bounds, grew.Counts = after.bounds, counts
		}
		sum = servermetrics.Added(sum, grew)
	}
	return sum
}

// bucketGrowth returns what each bucket grew by, or nil if that is not known.
func bucketGrowth(before, after histogram) []uint64 {
	if before.count > 0 && !slices.Equal(before.bounds, after.bounds) {
		return nil
	}
	counts := slices.Clone(after.counts)
	for i, n := range before.counts {
		if before.count == 0 {
			break
		}
		if n > counts[i] {
			return nil
		}
		counts[i] -= n
	}
	return counts
}

// limit keeps what an account may hold, the most important first, and sorts it by name.
func limit(a *spatev1.ServerAccount, order names) {
	slices.SortFunc(a.Counters, func(x, y *spatev1.ServerCounter) int {
		return cmp.Or(cmp.Compare(order.rankOf(x.GetName(), true), order.rankOf(y.GetName(), true)),
			compareCounters(x, y))
	})
	slices.SortStableFunc(a.Histograms, func(x, y *spatev1.ServerHistogram) int {
		return cmp.Compare(order.rank(x.GetName()), order.rank(y.GetName()))
	})
	counters, histograms := min(len(a.Counters), servermetrics.MaxCounters),
		min(len(a.Histograms), servermetrics.MaxHistograms)
	a.LeftOut += uint32(len(a.Counters) - counters + len(a.Histograms) - histograms)
	a.Counters, a.Histograms = a.Counters[:counters], a.Histograms[:histograms]
	slices.SortFunc(a.Counters, compareCounters)
	slices.SortFunc(a.Histograms,
		func(x, y *spatev1.ServerHistogram) int { return cmp.Compare(x.GetName(), y.GetName()) })
}

// compareCounters orders counters by name and labels.
func compareCounters(a, b *spatev1.ServerCounter) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetLabels(), b.GetLabels()))
}

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
			if m := family.GetMetric(); len(m) > 0 {
				t.started = m[0].GetGauge().GetValue() + m[0].GetUntyped().GetValue()
			}
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
