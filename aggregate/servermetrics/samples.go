package servermetrics

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// maxServerSamples bounds the samples of one source in a snapshot: its series, and two samples about the reading
	// itself.
	maxServerSamples = servermetrics.MaxSeries + 2
	// maxServerSeries bounds the series of a source in a stage: label values may come and go during the stage.
	maxServerSeries = 256
	// keptSamples bounds the samples kept of one series. A longer stage keeps every second one of its older samples,
	// then every fourth, and so on. The samples of the last recentSamples windows all stay, for views of single
	// windows.
	keptSamples, recentSamples = 4096, 256
)

// Value is the value of a server metric in one window.
type Value struct {
	// URL that the metric was read from, without a password.
	URL string
	// Name of the metric.
	Name string
	// Labels of the series as in Prometheus' text format, without the braces. May be empty.
	Labels string
	// Value as the server reported it.
	Value float64
	// PerSecond is how fast a counter grew since the value before. Nil: the metric is not a counter, or there is no
	// value before.
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
	stride  uint32 // only older windows that are multiples of it are kept; 0: all
	samples []serverSample
}

// Metrics holds the server metrics of a stage. The zero value is ready for use.
type Metrics struct {
	series  map[serverKey]*serverSeries
	sources map[uint32]int // series by source
	refused map[uint32]int // dropped values of series above the limit, by source

	accounts map[uint32]*spatev1.ServerAccount // growth of counters and histograms over the stage, by source
}

// Add adds the samples and the accounts of a snapshot.
func (v *Metrics) Add(s *spatev1.Snapshot) {
	for _, a := range s.GetServerAccounts() { // one agent reads each source, and sends its account once
		if v.accounts == nil {
			v.accounts = map[uint32]*spatev1.ServerAccount{}
		}
		v.accounts[a.GetSource()] = a
	}
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

// open creates a series. It returns nil and counts the refused value if the source has too many series.
func (v *Metrics) open(key serverKey) *serverSeries {
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

// add inserts a sample in the order of windows. It replaces an earlier sample of the same window.
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

// thin drops samples until at most half of keptSamples are left: older ones stay only at multiples of the stride, which
// doubles as often as necessary. The first sample always stays, because the growth of counters starts there.
func (s *serverSeries) thin() {
	for s.stride = max(1, s.stride); ; s.stride *= 2 {
		first, newest := s.samples[0].window, s.samples[len(s.samples)-1].window
		s.samples = slices.DeleteFunc(s.samples, func(p serverSample) bool {
			return p.window != first && p.window%s.stride != 0 && p.window+recentSamples < newest
		})
		if len(s.samples) <= keptSamples/2 {
			return
		}
	}
}

// at returns the value of a series in a window. ok is false if there is none.
func (s *serverSeries) at(window uint32) (value float64, perSecond *float64, ok bool) {
	i, found := slices.BinarySearchFunc(s.samples, window, atWindow)
	if !found {
		return 0, nil, false
	}
	if s.counter && i > 0 {
		before, after := s.samples[i-1], s.samples[i]
		perSecond = new(servermetrics.Increase(before.value, after.value) / float64(after.window-before.window))
	}
	return s.samples[i].value, perSecond, true
}

// Window returns the values of all servers in a window, sorted by source, name and labels.
func (v *Metrics) Window(number uint32, target *spatev1.Target) (values []Value) {
	urls := servermetrics.Sources(target)
	for _, key := range slices.SortedFunc(maps.Keys(v.series), serverKey.compare) {
		if value, perSecond, ok := v.series[key].at(number); ok {
			values = append(values, Value{naming.Redacted(urls[key.source]), key.name, key.labels, value, perSecond})
		}
	}
	return values
}

// Results summarizes the server metrics of the windows [from, to], without those of GPUs. Counters and histograms come
// from the accounts, which cover the stage exactly, where there are accounts.
func (v *Metrics) Results(target *spatev1.Target, from, to uint32) []ServerResult {
	results := []ServerResult{}
	servers, _ := servermetrics.GPUSources(target)
	for i, url := range servermetrics.Sources(target)[:servers] {
		r := v.accountResult(naming.Redacted(url), uint32(i))
		r.Role = target.GetServerMetrics().GetRoles()[url]
		results = append(results, r)
	}
	for _, key := range slices.SortedFunc(maps.Keys(v.series), serverKey.compare) {
		if int(key.source) >= servers {
			break
		}
		r, series := &results[key.source], v.series[key].between(from, to)
		switch {
		case len(series.samples) == 0:
		case key.name == servermetrics.Up:
			asked, failed := series.asked()
			r.Asked, r.Failed = r.Asked+asked, r.Failed+failed
		case key.name == servermetrics.Dropped:
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
	if !servermetrics.Asked(target) {
		results = slices.DeleteFunc(results, func(r ServerResult) bool { return r.Asked == 0 })
	}
	return results
}

// between returns the part of a series in the windows [from, to].
func (s *serverSeries) between(from, to uint32) serverSeries {
	part := *s
	part.samples = slices.DeleteFunc(slices.Clone(s.samples), func(p serverSample) bool {
		return p.window < from || p.window > to
	})
	return part
}

// asked returns how often a server's metrics were read, and how often that failed.
func (s *serverSeries) asked() (asked, failed uint64) {
	for _, p := range s.samples {
		asked++
		if p.value == 0 {
			failed++
		}
	}
	return asked, failed
}

// sum returns the sum of the values.
func (s *serverSeries) sum() (sum float64) {
	return lists.Sum(s.samples, func(p serverSample) float64 { return p.value })
}

// extremes returns the smallest and the largest value.
func (s *serverSeries) extremes() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, p := range s.samples {
		least, most = min(least, p.value), max(most, p.value)
	}
	return least, most
}

// mean returns the mean of the values at multiples of the stride, which are equally far apart.
func (s *serverSeries) mean() float64 {
	sum, count := 0.0, 0
	for _, p := range s.samples {
		if s.stride == 0 || p.window%s.stride == 0 {
			sum += p.value
			count++
		}
	}
	if count == 0 { // no window is a multiple of the stride
		return s.samples[len(s.samples)-1].value
	}
	return sum / float64(count)
}

// result summarizes a series, which must have values.
func (s *serverSeries) result(key serverKey) ServerMetric {
	m := ServerMetric{Name: key.name, Labels: key.labels, Kind: "gauge", Samples: uint64(len(s.samples))}
	if !s.counter {
		least, most := s.extremes()
		m.Mean, m.Min, m.Max = new(s.mean()), &least, &most
		return m
	}
	m.Kind = "counter"
	if len(s.samples) < 2 {
		return m
	}
	increase := 0.0
	for i, after := range s.samples[1:] {
		increase += servermetrics.Increase(s.samples[i].value, after.value)
	}
	perSecond := increase / float64(s.samples[len(s.samples)-1].window-s.samples[0].window)
	m.Increase, m.PerSecond = &increase, &perSecond
	return m
}
