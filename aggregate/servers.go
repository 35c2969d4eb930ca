package aggregate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// maxServerSamples bounds the samples of one source in a snapshot: its series, and what the reading says of itself.
	maxServerSamples = plans.MaxServerSeries + 2
	// maxServerSeries bounds the series of a source in a stage: labels may come and go with what the server does.
	maxServerSeries = 256
	// keptSamples bounds what is kept of one series. A stage that is longer keeps every second one of its older
	// samples, then every fourth, and so on; the last recentSamples seconds stay whole for those who look at single
	// windows.
	keptSamples, recentSamples = 4096, 256
)

// ServerValue is what a server told in one window.
type ServerValue struct {
	// URL it was asked at, without a password.
	URL string
	// Name of the metric.
	Name string
	// Labels of the series as in Prometheus' text form, without the braces. May be empty.
	Labels string
	// Value as the server told it.
	Value float64
	// PerSecond is how fast a counter grew since the value before. Nil: it is no counter, or there is none before.
	PerSecond *float64
}

// serverKey names a series of a server.
type serverKey struct {
	source       uint32
	name, labels string
}

// compare orders series.
func (k serverKey) compare(l serverKey) int {
	return cmp.Or(cmp.Compare(k.source, l.source), cmp.Compare(k.name, l.name), cmp.Compare(k.labels, l.labels))
}

// serverSample is a value and its window.
type serverSample struct {
	window uint32
	value  float64
}

// serverSeries are the values of a series, by window.
type serverSeries struct {
	counter bool
	stride  uint32 // of the older windows only those are kept that it divides; 0: all
	samples []serverSample
}

// servers are what servers told in a stage. The zero value is ready.
type servers struct {
	series  map[serverKey]*serverSeries
	sources map[uint32]int // series by source
	refused map[uint32]int // values of series beyond the bound, by source

	accounts map[uint32]*spatev1.ServerAccount // what counters and histograms grew by over the stage, by source
}

// add takes in the samples and the accounts of a snapshot.
func (v *servers) add(s *spatev1.Snapshot) {
	v.addAccounts(s.GetServerAccounts())
	for _, sample := range s.GetServerSamples() {
		key := serverKey{sample.GetSource(), sample.GetName(), sample.GetLabels()}
		series := v.series[key]
		if series == nil {
			if series = v.open(key); series == nil {
				continue
			}
			series.counter = sample.GetCounter()
		}
		series.add(serverSample{s.GetWindow(), sample.GetValue()})
	}
}

// open begins a series, nil if its source has too many.
func (v *servers) open(key serverKey) *serverSeries {
	if v.series == nil {
		v.series, v.sources, v.refused = map[serverKey]*serverSeries{}, map[uint32]int{}, map[uint32]int{}
	}
	if v.sources[key.source] >= maxServerSeries {
		v.refused[key.source]++
		return nil
	}
	v.sources[key.source]++
	v.series[key] = &serverSeries{}
	return v.series[key]
}

// add puts a sample where it belongs; one of the same window takes the place of the other.
func (s *serverSeries) add(sample serverSample) {
	i, found := slices.BinarySearchFunc(s.samples, sample.window, atWindow)
	if found {
		s.samples[i] = sample
		return
	}
	s.samples = slices.Insert(s.samples, i, sample)
	if len(s.samples) > keptSamples {
		s.thin()
	}
}

// atWindow compares a sample's window with one.
func atWindow(s serverSample, window uint32) int { return cmp.Compare(s.window, window) }

// thin makes room for as many samples again: older ones stay only at windows of a stride, which grows as it has to. The
// first one, from which counters count, stays in any case.
func (s *serverSeries) thin() {
	for s.stride = max(1, s.stride); ; s.stride *= 2 {
		s.drop()
		if len(s.samples) <= keptSamples/2 {
			return
		}
	}
}

// drop drops the older samples that are not at the stride.
func (s *serverSeries) drop() {
	first, newest := s.samples[0].window, s.samples[len(s.samples)-1].window
	s.samples = slices.DeleteFunc(s.samples, func(p serverSample) bool {
		return p.window != first && p.window%s.stride != 0 && p.window+recentSamples < newest
	})
}

// growth is how much a counter grew from one sample to the next. One that is smaller than before began anew at 0, as a
// server does that was started anew: Prometheus' increase() takes it so, too.
func growth(before, after serverSample) float64 {
	if after.value < before.value {
		return after.value
	}
	return after.value - before.value
}

// at is what a series told in a window, false if nothing.
func (s *serverSeries) at(window uint32) (value float64, perSecond *float64, ok bool) {
	i, found := slices.BinarySearchFunc(s.samples, window, atWindow)
	if !found {
		return 0, nil, false
	}
	if s.counter && i > 0 {
		before, after := s.samples[i-1], s.samples[i]
		rate := growth(before, after) / float64(after.window-before.window)
		perSecond = &rate
	}
	return s.samples[i].value, perSecond, true
}

// window is what all servers told in a window, by source, name and labels.
func (v *servers) window(number uint32, target *spatev1.Target) (values []ServerValue) {
	urls := plans.ServerSources(target)
	for _, key := range slices.SortedFunc(maps.Keys(v.series), serverKey.compare) {
		value, perSecond, ok := v.series[key].at(number)
		if ok {
			values = append(values, ServerValue{redacted(urls[key.source]), key.name, key.labels, value, perSecond})
		}
	}
	return values
}

// results sum up what servers told from a second of the stage to another, both counted. Counters and histograms go by
// the accounts, which cover the stage exactly, where there are some.
func (v *servers) results(target *spatev1.Target, from, to uint32) []ServerResult {
	results := []ServerResult{}
	for i, url := range plans.ServerSources(target) {
		results = append(results, v.accountResult(redacted(url), uint32(i)))
	}
	for _, key := range slices.SortedFunc(maps.Keys(v.series), serverKey.compare) {
		r, series := &results[key.source], v.series[key].between(from, to)
		switch {
		case len(series.samples) == 0:
		case key.name == plans.ServerUp:
			asked, failed := series.asked()
			r.Asked, r.Failed = r.Asked+asked, r.Failed+failed
		case key.name == plans.ServerLeftOut:
			r.ValuesLeftOut += uint64(series.sum())
		case !series.counter || !hasGrowth(v.accounts[key.source]):
			r.Metrics = append(r.Metrics, series.result(key))
		}
	}
	for i := range results {
		slices.SortStableFunc(results[i].Metrics, func(a, b ServerMetric) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Labels, b.Labels))
		})
	}
	if !plans.NamesServerMetrics(target) {
		results = slices.DeleteFunc(results, func(r ServerResult) bool { return r.Asked == 0 })
	}
	return results
}

// between is the part of a series from one window to another.
func (s *serverSeries) between(from, to uint32) serverSeries {
	part := *s
	part.samples = slices.DeleteFunc(slices.Clone(s.samples), func(p serverSample) bool {
		return p.window < from ||
			p.window > to
	})
	return part
}

// asked counts how often a server was asked, and did not answer.
func (s *serverSeries) asked() (asked, failed uint64) {
	for _, p := range s.samples {
		asked++
		if p.value == 0 {
			failed++
		}
	}
	return asked, failed
}

// sum adds values up.
func (s *serverSeries) sum() (sum float64) {
	for _, p := range s.samples {
		sum += p.value
	}
	return sum
}

// extremes are the least and the most of some values.
func (s *serverSeries) extremes() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, p := range s.samples {
		least, most = min(least, p.value), max(most, p.value)
	}
	return least, most
}

// mean is the mean of the values of windows that are equally far apart.
func (s *serverSeries) mean() float64 {
	sum, count := 0.0, 0
	for _, p := range s.samples {
		if s.stride == 0 || p.window%s.stride == 0 {
			sum += p.value
			count++
		}
	}
	if count == 0 { // none that the stride divides
		return s.samples[len(s.samples)-1].value
	}
	return sum / float64(count)
}

// result sums up a series with values.
func (s *serverSeries) result(key serverKey) ServerMetric {
	m := ServerMetric{Name: key.name, Labels: key.labels, Kind: "gauge", Samples: uint64(len(s.samples))}
	if !s.counter {
		mean := s.mean()
		least, most := s.extremes()
		m.Mean, m.Min, m.Max = &mean, &least, &most
		return m
	}
	m.Kind = "counter"
	if len(s.samples) < 2 {
		return m
	}
	increase := 0.0
	for i, after := range s.samples[1:] {
		increase += growth(s.samples[i], after)
	}
	perSecond := increase / float64(s.samples[len(s.samples)-1].window-s.samples[0].window)
	m.Increase, m.PerSecond = &increase, &perSecond
	return m
}

// checkServerSamples checks what servers told, as an agent says it.
func checkServerSamples(samples []*spatev1.ServerSample, target *spatev1.Target) error {
	if len(samples) == 0 {
		return nil
	}
	sources, counts := uint32(len(plans.ServerSources(target))), map[uint32]int{}
	seen := make(map[serverKey]bool, len(samples))
	for _, s := range samples {
		key := serverKey{s.GetSource(), s.GetName(), s.GetLabels()}
		counts[key.source]++
		switch {
		case key.source >= sources:
			return fmt.Errorf("server metrics: source %d: the target has %d", key.source, sources)
		case key.name == "" || len(key.name) > plans.MaxServerName || len(key.labels) > plans.MaxServerLabels:
			return fmt.Errorf("server metrics of source %d: a name of %d bytes with labels of %d", key.source,
				len(key.name), len(key.labels))
		case !(math.Abs(s.GetValue()) <= plans.MaxServerValue):
			return fmt.Errorf("server metrics of source %d: %.80s is %v: want a number up to %.0e", key.source,
				key.name, s.GetValue(), plans.MaxServerValue)
		case seen[key]:
			return fmt.Errorf("server metrics of source %d: %s is given twice", key.source, key.name)
		case counts[key.source] > maxServerSamples:
			return fmt.Errorf("server metrics of source %d: more than %d", key.source, maxServerSamples)
		}
		seen[key] = true
	}
	return nil
}
