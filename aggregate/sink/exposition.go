package sink

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
)

// zeroThreshold is up to which value a native histogram counts a value as 0. It is Prometheus' smallest.
var zeroThreshold = math.Ldexp(1, -128)

// Gatherer returns what Prometheus reads: the rows that the function returns at each scrape, as counters, gauges, and
// distributions as native histograms, with the names of Name. Of rows to date it has everything, of other rows the
// fields that are neither counters nor distributions. The function may be called concurrently.
//
// Rows have whole distributions, so there are no percentiles here: Prometheus computes them from the histograms, and
// may add histograms up first. There are no classic buckets: a set of them that is as exact has thousands of series.
func Gatherer(rows func() []Row) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return familiesOf(rows()), nil })
}

// families collects metrics by name.
type families map[string]*dto.MetricFamily

// familiesOf returns the metrics of rows, sorted by name.
func familiesOf(rows []Row) []*dto.MetricFamily {
	all := families{}
	for i := range rows {
		all.addRow(&rows[i])
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *dto.MetricFamily) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
}

func (all families) addRow(row *Row) {
	labels := lists.Each(row.Tags, pair)
	for field := range lists.Refs(row.Fields) {
		name := NameOf(row.Measurement, field)
		value, isNumber := field.Number()
		switch {
		case field.Buckets != nil:
			values := native(field.Buckets, row.Start)
			all.add(name, dto.MetricType_HISTOGRAM, &dto.Metric{Label: labels, Histogram: values})
		case !isNumber || name.OfDistribution || name.Counts && !name.Grows:
		case name.Grows:
			counter := &dto.Counter{Value: new(value * name.Scale), CreatedTimestamp: created(row.Start)}
			all.add(name, dto.MetricType_COUNTER, &dto.Metric{Label: with(labels, name.Label()), Counter: counter})
		default:
			gauge := &dto.Gauge{Value: new(value * name.Scale)}
			all.add(name, dto.MetricType_GAUGE, &dto.Metric{Label: labels, Gauge: gauge})
		}
	}
}

func (all families) add(name Name, kind dto.MetricType, metric *dto.Metric) {
	key := name.Prometheus()
	f := all[key]
	if f == nil {
		f = &dto.MetricFamily{Name: &key, Type: &kind}
		if name.Doc != "" {
			f.Help = new(name.Doc + ".")
		}
		all[key] = f
	}
	f.Metric = append(f.Metric, metric)
}

// with returns labels with another one in its place, unless that is empty.
func with(labels []*dto.LabelPair, tag Tag) []*dto.LabelPair {
	if tag.Key == "" {
		return labels
	}
	at, _ := slices.BinarySearchFunc(labels, tag.Key,
		func(p *dto.LabelPair, key string) int { return cmp.Compare(p.GetName(), key) })
	return slices.Insert(slices.Clone(labels), at, pair(tag))
}

func pair(tag Tag) *dto.LabelPair {
	return &dto.LabelPair{Name: new(tag.Key), Value: new(strings.ToValidUTF8(tag.Value, "\uFFFD"))}
}

// created returns when a count was 0, nil if that is not known.
func created(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// smallGap is how many empty buckets in a row are written, because another span would take more bytes.
const smallGap = 2

// native returns a native histogram. Prometheus numbers buckets by their upper bounds, so its numbers are higher by 1.
func native(e *histogram.Exponential, start time.Time) *dto.Histogram {
	h := &dto.Histogram{
		SampleCount: new(e.Count), SampleSum: new(e.Sum), Schema: new(int32(histogram.Schema)),
		ZeroThreshold: new(zeroThreshold), ZeroCount: new(e.Zero), CreatedTimestamp: created(start),
	}
	next, before := int32(0), int64(0) // bucket after the last one written, and the count in that one
	write := func(n uint64) {
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		before = int64(n)
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
		next++
	}
	for i, n := range e.Buckets {
		if n == 0 {
			continue
		}
		at := e.First + int32(i) + 1
		if gap := at - next; gap > smallGap || len(h.PositiveSpan) == 0 {
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(gap), Length: new(uint32(0))})
			next = at
		}
		for next < at {
			write(0)
		}
		write(n)
	}
	return h
}
