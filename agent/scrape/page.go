package scrape

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Names of what a scrape says of itself, beside what the server says.
const (
	// Up is 1 if the server answered as it should, else 0.
	Up = "up"
	// LeftOut is the number of series that were asked for and left out. It is there only if there were any.
	LeftOut = "scrape_series_left_out"
)

// Limits of what is taken from one source at a time.
const (
	// MaxSeries is the most series.
	MaxSeries = 64
	// MaxName is the longest name in bytes. The coordinator refuses longer ones.
	MaxName = 256
	// MaxLabels are the longest labels in bytes. The coordinator refuses longer ones.
	MaxLabels = 512
	// MaxValue is the largest value, either side of 0, so that no sum is beyond numbers. The coordinator refuses larger ones.
	MaxValue = 1e300
)

// parse reads a page in Prometheus' text form (exposition format 0.0.4) and returns the series that were asked for, sorted by name and labels.
// The page's order would do, but a server may change it. Values that are no numbers (NaN, infinite, beyond MaxValue) are not there: a gauge says
// so while it knows nothing.
func parse(page []byte, wanted names) (samples []*spatev1.ServerSample, leftOut int, err error) {
	families, err := familiesOf(page)
	if err != nil {
		return nil, 0, fmt.Errorf("the answer is not in Prometheus' text form: %w", err)
	}
	for _, family := range families {
		of := samplesOf(family)
		if !wanted.have(family.GetName()) { // the sum of a histogram may be asked for alone
			of = slices.DeleteFunc(of, func(s *spatev1.ServerSample) bool { return !wanted.have(s.GetName()) })
		}
		samples = append(samples, of...)
	}
	found := len(samples)
	samples = slices.DeleteFunc(samples, func(s *spatev1.ServerSample) bool {
		return len(s.GetName()) > MaxName || len(s.GetLabels()) > MaxLabels
	})
	slices.SortFunc(samples, func(a, b *spatev1.ServerSample) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetLabels(), b.GetLabels()))
	})
	samples = slices.CompactFunc(samples, func(a, b *spatev1.ServerSample) bool {
		return a.GetName() == b.GetName() && a.GetLabels() == b.GetLabels()
	})
	samples = samples[:min(len(samples), MaxSeries)]
	return samples, found - len(samples), nil
}

// familiesOf takes a page apart. The library panics at some pages that are in no form ("#TYPE A \n{}"): what a server answers must not end the
// agent.
func familiesOf(page []byte) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if r := recover(); r != nil {
			families, err = nil, fmt.Errorf("it cannot be taken apart: %v", r)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(page))
}

// samplesOf are the values of a family of metrics.
func samplesOf(family *dto.MetricFamily) (samples []*spatev1.ServerSample) {
	for _, m := range family.GetMetric() {
		labels := labelText(m.GetLabel())
		add := func(name string, value float64, counter bool) {
			if math.Abs(value) <= MaxValue { // not so of NaN
				samples = append(samples, &spatev1.ServerSample{Name: name, Labels: labels, Value: value, Counter: counter})
			}
		}
		name := family.GetName()
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			add(name, m.GetCounter().GetValue(), true)
		case dto.MetricType_GAUGE:
			add(name, m.GetGauge().GetValue(), false)
		case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
			add(name+"_sum", m.GetHistogram().GetSampleSum(), true)
			add(name+"_count", float64(m.GetHistogram().GetSampleCount()), true)
		case dto.MetricType_SUMMARY:
			add(name+"_sum", m.GetSummary().GetSampleSum(), true)
			add(name+"_count", float64(m.GetSummary().GetSampleCount()), true)
		case dto.MetricType_UNTYPED:
			add(name, m.GetUntyped().GetValue(), strings.HasSuffix(name, "_total"))
		}
	}
	return samples
}

// labelText writes labels as Prometheus' text form has them between braces, sorted. Names that are more than letters, digits and underscores
// are in quotes there, so that no two series read alike.
func labelText(pairs []*dto.LabelPair) string {
	pairs = slices.SortedFunc(slices.Values(pairs), func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var text strings.Builder
	for i, p := range pairs {
		if i > 0 {
			text.WriteByte(',')
		}
		name := p.GetName()
		if !model.LegacyValidation.IsValidLabelName(name) {
			name = `"` + escaped.Replace(name) + `"`
		}
		fmt.Fprintf(&text, `%s="%s"`, name, escaped.Replace(p.GetValue()))
	}
	return text.String()
}

// escaped writes a label's value as the text form does.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// names are those of the metrics that are wanted; "*" at an end stands for any rest.
type names []string

// have says whether a metric is wanted. What a scrape says of itself is nobody else's to say.
func (n names) have(name string) bool {
	return name != Up && name != LeftOut && slices.ContainsFunc(n, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	})
}
