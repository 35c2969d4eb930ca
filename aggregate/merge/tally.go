package merge

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Metrics that parts of a stage keep. The whole stage keeps all metrics.
var (
	keyMetrics    = measure.KeptBy(measure.Breakdowns)
	pathMetrics   = measure.KeptBy(measure.Paths)
	regionMetrics = measure.KeptBy(measure.RegionWindows)
	turnMetrics   = measure.KeptBy(measure.Turns)
)

// Tally is the exact sum of measurements of a stage, or of one of its endpoints, agents, regions or windows.
type Tally struct {
	// Counters are the counts of events.
	Counters *spatev1.Counters
	// Values are the merged histograms by metric. Nil: no values, or the tally does not keep the metric.
	Values [measure.Count]*histogram.Histogram
	// Models are the models that answers named.
	Models []*spatev1.ModelCount

	keep    measure.Set
	windows uint32 // largest number of windows in one snapshot
	errors  map[errorKey]*errorTally
}

// errorKey is a kind of failure.
type errorKey struct {
	class  spatev1.ErrorClass
	status uint32
}

// errorTally counts one kind of failure and keeps the earliest example.
type errorTally struct {
	count   uint64
	example string
	place   place
}

// place orders snapshots by time and then by name, so that the first one does not depend on the order of arrival.
type place struct {
	first    uint32 // first window of a snapshot; less than window if it holds several. Not compared
	window   uint32
	agent    string
	sequence uint64
	endpoint uint32
}

// compare compares places as cmp.Compare does.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.window, q.window), cmp.Compare(p.agent, q.agent),
		cmp.Compare(p.sequence, q.sequence), cmp.Compare(p.endpoint, q.endpoint))
}

// windows returns how many windows the snapshot holds.
func (p place) windows() uint32 { return p.window - p.first + 1 }

// NewTally returns an empty tally that keeps the values of all metrics.
func NewTally() *Tally { return newTally(measure.All) }

// newTally returns an empty tally that keeps the values of the given metrics.
func newTally(keep measure.Set) *Tally {
	return &Tally{keep: keep, Counters: &spatev1.Counters{}, errors: make(map[errorKey]*errorTally)}
}

// add adds one endpoint's measurements of one snapshot.
func (t *Tally) add(s *spatev1.Series, parts []part, at place) {
	t.windows = max(t.windows, at.windows())
	measure.AddTo(t.Counters, s.GetCounters())
	t.Models = measure.AddModels(t.Models, s.GetModels())
	for _, e := range s.GetErrors() {
		t.addError(errorKey{e.GetClass(), e.GetHttpStatus()}, errorTally{e.GetCount(), e.GetExample(), at})
	}
	for _, p := range parts {
		if t.keep.Has(p.metric) && p.values.Count() > 0 {
			mustFit(t.histogram(p.metric).Add(p.values))
		}
	}
}

// Include adds another tally that keeps at least the same metrics.
func (t *Tally) Include(o *Tally) {
	t.windows = max(t.windows, o.windows)
	measure.AddTo(t.Counters, o.Counters)
	t.Models = measure.AddModels(t.Models, o.Models)
	for key, e := range o.errors {
		t.addError(key, *e)
	}
	for m, values := range o.Values {
		if values != nil && values.Count() > 0 && t.keep.Has(spatev1.Metric(m)) {
			mustFit(t.histogram(spatev1.Metric(m)).Merge(values))
		}
	}
}

// addError adds failures of one kind.
func (t *Tally) addError(key errorKey, more errorTally) {
	held := t.errors[key]
	if held == nil {
		held = &errorTally{}
		t.errors[key] = held
	}
	held.count += more.count
	if more.example != "" && (held.example == "" || more.place.compare(held.place) < 0) {
		held.example, held.place = more.example, more.place
	}
}

// histogram returns the histogram of a metric, and creates it if necessary.
func (t *Tally) histogram(m spatev1.Metric) *histogram.Histogram {
	if t.Values[m] == nil {
		t.Values[m] = histogram.New(histogram.LayoutOf(m))
	}
	return t.Values[m]
}

// Summary summarizes the values of a metric in the unit of results. It returns nil if there are none.
func (t *Tally) Summary(m spatev1.Metric) *histogram.Summary {
	return t.Values[m].Summary(measure.Of(m).Unit.Scale())
}

// countersNow returns a copy of the counters, which later additions do not change.
func (t *Tally) countersNow() *spatev1.Counters { return proto.CloneOf(t.Counters) }

// ErrorCounts returns the numbers of failures by name.
func (t *Tally) ErrorCounts() map[string]uint64 {
	counts := make(map[string]uint64, len(t.errors))
	for key, e := range t.errors {
		counts[measure.ErrorName(key.class, key.status)] += e.count
	}
	return counts
}

// ErrorExamples returns an example of each kind of failure that has one.
func (t *Tally) ErrorExamples() map[string]string {
	examples := make(map[string]string, len(t.errors))
	for key, e := range t.errors {
		if e.example != "" {
			examples[measure.ErrorName(key.class, key.status)] = e.example
		}
	}
	return examples
}

// mustFit panics if values were not added to a histogram: the layouts are the same, and Stage.merge has checked that
// the histogram cannot become full.
func mustFit(err error) {
	if err != nil {
		panic("merge: " + err.Error())
	}
}

// part is a distribution of a snapshot, checked but still encoded.
type part struct {
	metric spatev1.Metric
	values histogram.Encoded
}

// full reports whether a metric has so many values that the next snapshot's might not fit into a histogram.
func (t *Tally) full() bool {
	return slices.ContainsFunc(t.Values[:], func(values *histogram.Histogram) bool {
		return values != nil && values.Count() > 1<<43
	})
}

// decode checks and returns the distributions of one series.
func decode(distributions []*spatev1.Distribution) ([]part, error) {
	parts := make([]part, 0, len(distributions))
	var seen measure.Set
	for _, d := range distributions {
		m := d.GetMetric()
		if !measure.Known(m) || seen.Has(m) {
			return nil, fmt.Errorf("metric %d is not known or given twice", m)
		}
		seen |= measure.SetOf(m)
		values, err := histogram.Check(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", measure.Of(m).Name, err)
		}
		if n := values.Count(); n > measure.MaxValues {
			return nil, fmt.Errorf("%s: %d values in one window, more than %d", measure.Of(m).Name, n,
				measure.MaxValues)
		}
		parts = append(parts, part{m, values})
	}
	return parts, nil
}
