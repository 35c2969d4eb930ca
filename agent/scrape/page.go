package scrape

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// parse reads a page in Prometheus' text format (exposition format 0.0.4) and returns the wanted series, sorted by name
// and labels. If there are too many, it keeps the ones that order ranks first. It omits values that are not numbers
// (NaN, infinite, beyond servermetrics.MaxValue): gauges have them while they know nothing.
func parse(page []byte, wanted, order names) (samples []*spatev1.ServerSample, leftOut int, err error) {
	families, err := familiesOf(filter(page, wanted, false))
	if err != nil {
		return nil, 0, err
	}
	for _, family := range families {
		of := samplesOf(family)
		if wanted.rankOf(family.GetName(),
			family.GetType() == dto.MetricType_COUNTER) == unwanted { // a histogram's sum may be wanted alone
			of = slices.DeleteFunc(of, func(s *spatev1.ServerSample) bool { return !wanted.match(s.GetName()) })
		}
		samples = append(samples, of...)
	}
	found := len(samples)
	samples = slices.DeleteFunc(samples,
		func(s *spatev1.ServerSample) bool { return !fits(s.GetName(), s.GetLabels()) })
	slices.SortFunc(samples, func(a, b *spatev1.ServerSample) int {
		return cmp.Or(cmp.Compare(order.rankOf(stem(a), a.GetCounter()), order.rankOf(stem(b), b.GetCounter())),
			compareNames(a, b))
	})
	samples = slices.CompactFunc(samples, func(a, b *spatev1.ServerSample) bool { return compareNames(a, b) == 0 })
	samples = samples[:min(len(samples), servermetrics.MaxSeries)]
	slices.SortFunc(samples, compareNames)
	return samples, found - len(samples), nil
}

// compareNames orders samples by name and labels.
func compareNames(a, b *spatev1.ServerSample) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetLabels(), b.GetLabels()))
}

// stem returns the name of a sample's metric. For a histogram's sum and count it is the name of the histogram.
func stem(s *spatev1.ServerSample) string {
	for _, ending := range [...]string{"_sum", "_count"} {
		if name, found := strings.CutSuffix(s.GetName(), ending); found && s.GetCounter() {
			return name
		}
	}
	return s.GetName()
}

// fits reports whether a series' texts are within the limits.
func fits(name, labels string) bool {
	return len(name) <= servermetrics.MaxName && len(labels) <= servermetrics.MaxLabels &&
		!strings.ContainsFunc(name, hidden)
}

// finite reports whether a value can be added up.
func finite(value float64) bool { return math.Abs(value) <= servermetrics.MaxValue } // false for NaN

// errFormat means that a page cannot be parsed. An error that wraps it may quote the page.
var errFormat = errors.New("the answer is not in Prometheus' text format")

// familiesOf parses a page. The library panics on some invalid pages ("#TYPE A \n{}"); a server's answer must not crash
// the agent.
func familiesOf(page []byte) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if r := recover(); r != nil {
			families, err = nil, fmt.Errorf("%w: %v", errFormat, r)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	return families, nil
}

// samplesOf returns the values of a family of metrics.
func samplesOf(family *dto.MetricFamily) (samples []*spatev1.ServerSample) {
	for _, m := range family.GetMetric() {
		labels := labelText(m.GetLabel())
		add := func(name string, value float64, counter bool) {
			if finite(value) {
				samples = append(samples, &spatev1.ServerSample{Name: name, Labels: labels, Value: value,
					Counter: counter})
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

// labelText formats labels as they appear between braces in Prometheus' text format, sorted. Names with other
// characters than letters, digits and underscores are quoted there, so that no two series have the same text.
func labelText(pairs []*dto.LabelPair) string {
	pairs = slices.SortedFunc(slices.Values(pairs),
		func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var text strings.Builder
	for i, p := range pairs {
		if i > 0 {
			text.WriteByte(',')
		}
		name := p.GetName()
		if !model.LegacyValidation.IsValidLabelName(name) {
			name = `"` + escape(name) + `"`
		}
		fmt.Fprintf(&text, `%s="%s"`, name, escape(p.GetValue()))
	}
	return text.String()
}

// hidden reports whether a character could control a terminal or change the direction of text.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// escape escapes a label's value as the text format does, and hidden characters as \u202e.
func escape(value string) string {
	value = escaped.Replace(value)
	if !strings.ContainsFunc(value, hidden) {
		return value
	}
	var text strings.Builder
	for _, r := range value {
		if hidden(r) {
			fmt.Fprintf(&text, `\u%04x`, r)
		} else {
			text.WriteRune(r)
		}
	}
	return text.String()
}

// escaped escapes a label's value as the text format does.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// filter returns the lines of a page that may belong to wanted metrics: types and samples, and samples of histogram
// buckets only if buckets is true. A page of vLLM has 700 lines, of which 150 are needed. Skipping the rest here takes
// a tenth of the time that it takes to parse them. The first sample always stays, so that a page in another format is
// detected.
func filter(page []byte, wanted names, buckets bool) []byte {
	kept := make([]byte, 0, len(page)/4)
	f := lineFilter{wanted: wanted, buckets: buckets}
	for line := range bytes.Lines(page) {
		if f.keep(line) {
			kept = append(kept, line...)
		}
	}
	if len(kept) > 0 && kept[len(kept)-1] != '\n' {
		kept = append(kept, '\n')
	}
	return kept
}

// lineFilter decides line by line. The lines of a metric are consecutive, so it checks each name once.
type lineFilter struct {
	wanted   names
	buckets  bool
	sampled  bool   // a sample was kept
	bucket   []byte // name of the current histogram's buckets
	name     []byte // name of the last sample
	mayMatch bool   // the last name may be wanted
}

// keep reports whether a line must be parsed.
func (f *lineFilter) keep(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return false
	case line[0] == '#':
		return f.keepType(line)
	}
	name := line
	if end := bytes.IndexAny(line, "{ \t\r\n"); end >= 0 {
		name = line[:end]
	}
	if len(name) == 0 { // the name is between the braces, in quotes
		f.sampled = true
		return true
	}
	if !bytes.Equal(name, f.name) || !f.sampled {
		f.name, f.mayMatch = name, f.wanted.mayMatch(string(name)) && (f.buckets || !bytes.Equal(name, f.bucket))
	}
	first := !f.sampled
	f.sampled = true
	return first || f.mayMatch
}

// keepType reports whether a comment declares the type of a metric that may be wanted.
func (f *lineFilter) keepType(line []byte) bool {
	words := bytes.Fields(line[1:])
	if len(words) != 3 || string(words[0]) != "TYPE" {
		return false
	}
	f.bucket = nil
	if string(words[2]) == "histogram" {
		f.bucket = slices.Concat(words[1], []byte("_bucket"))
	}
	return f.wanted.mayMatch(string(words[1]))
}

// names are the names of wanted metrics, the most important first. A "*" at the end stands for any rest.
type names struct {
	exact    map[string]int // rank by name
	prefixes []ranked
}

// ranked is a prefix of names, with its rank.
type ranked struct {
	prefix string
	rank   int
}

// newNames returns the names that match some patterns, the most important first.
func newNames(patterns []string) names {
	n := names{exact: make(map[string]int, len(patterns))}
	for rank, pattern := range patterns {
		if prefix, open := strings.CutSuffix(pattern, "*"); open {
			n.prefixes = append(n.prefixes, ranked{prefix, rank})
		} else if _, known := n.exact[pattern]; !known {
			n.exact[pattern] = rank
		}
	}
	return n
}

// unwanted is the rank of a name that matches no pattern.
const unwanted = math.MaxInt

// rank returns the position of the first pattern that a name matches, or unwanted. The metrics that Spate adds to a
// reading are never wanted from a server, and the time at which a client library created a series is not a measurement.
func (n names) rank(name string) int {
	if name == servermetrics.Up || name == servermetrics.Dropped || strings.HasSuffix(name, "_created") {
		return unwanted
	}
	best, exact := n.exact[name]
	if !exact {
		best = unwanted
	}
	for _, p := range n.prefixes {
		if p.rank < best && strings.HasPrefix(name, p.prefix) {
			best = p.rank
		}
	}
	return best
}

// match reports whether a metric is wanted.
func (n names) match(name string) bool { return n.rank(name) != unwanted }

// rankOf returns the rank of a metric of a type. A counter may lack the _total that its name should end in, as in
// llm-d's simulator.
func (n names) rankOf(name string, counter bool) int {
	best := n.rank(name)
	if counter {
		best = min(best, n.rank(name+"_total"))
	}
	return best
}

// endings are the endings of the samples of one family.
var endings = [...]string{"_bucket", "_sum", "_count", "_total"}

// mayMatch reports whether a line with this name may belong to a wanted metric. It may return true where match returns
// false.
func (n names) mayMatch(name string) bool {
	stem := name
	for _, ending := range endings {
		if s, found := strings.CutSuffix(name, ending); found {
			stem = s
			break
		}
	}
	return n.match(name) || n.match(stem) || n.match(stem+"_total") || n.match(stem+"_sum") || n.match(stem+"_count")
}
