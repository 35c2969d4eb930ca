package servermetrics

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// watchedTarget returns a target whose server metrics are read from a number of URLs.
func watchedTarget(sources int) *spatev1.Target {
	t := &spatev1.Target{ServerMetrics: &spatev1.ServerMetrics{}}
	for i := range sources {
		t.ServerMetrics.Urls = append(t.ServerMetrics.Urls, fmt.Sprintf("http://e%d/metrics", i))
	}
	return t
}

// told returns a snapshot of a window with one value of a series.
func told(window uint32, value float64, counter bool) *spatev1.Snapshot {
	return &spatev1.Snapshot{Window: window,
		ServerSamples: []*spatev1.ServerSample{{Name: "m", Value: value, Counter: counter}}}
}

// Results equal those of a naive loop over all values, for any order of arrival.
func TestServerResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := map[uint32]float64{}
		for _, w := range rapid.SliceOfNDistinct(rapid.Uint32Range(0, 40), 1, 20, rapid.ID[uint32]).Draw(t, "windows") {
			values[w] = float64(rapid.IntRange(0, 9).Draw(t, "value"))
		}
		counter, from := rapid.Bool().Draw(t, "counter"), rapid.Uint32Range(0, 20).Draw(t, "from")
		to := from + rapid.Uint32Range(0, 25).Draw(t, "length")
		var order []uint32
		for w := range values {
			order = append(order, w)
		}
		slices.Sort(order)
		var v Metrics
		for _, w := range rapid.Permutation(order).Draw(t, "order") {
			v.Add(told(w, values[w], counter))
		}
		order = slices.DeleteFunc(order, func(w uint32) bool { return w < from || w > to })
		metrics := v.Results(watchedTarget(1), from, to)[0].Metrics
		if len(order) == 0 {
			if len(metrics) != 0 {
				t.Fatalf("of nothing: %+v", metrics)
			}
			return
		}
		m, sum, least, most, grown := metrics[0], 0.0, math.Inf(1), math.Inf(-1), 0.0
		for i, w := range order {
			sum, least, most = sum+values[w], min(least, values[w]), max(most, values[w])
			if i > 0 && values[w] >= values[order[i-1]] {
				grown += values[w] - values[order[i-1]]
			} else if i > 0 {
				grown += values[w]
			}
		}
		switch {
		case !counter && (*m.Mean != sum/float64(len(order)) || *m.Min != least || *m.Max != most || m.Increase != nil):
			t.Fatalf("%+v", m)
		case counter && len(order) == 1 && (m.Increase != nil || m.PerSecond != nil || m.Mean != nil):
			t.Fatalf("%+v", m)
		case counter && len(order) > 1 &&
			(*m.Increase != grown || *m.PerSecond != grown/float64(order[len(order)-1]-order[0])):
			t.Fatalf("%+v, want %v", m, grown)
		}
	})
}

// A week of values takes bounded memory. The growth of a counter stays exact, and the last windows keep all values.
func TestLongStagesAreThinnedOut(t *testing.T) {
	var v, counters Metrics
	const week = 7 * 86400
	for w := range uint32(week) {
		v.Add(told(w, float64(w%2), false))
		counters.Add(told(w, float64(3*w), true))
		if _, perSecond, ok := counters.series[serverKey{name: "m"}].at(w); !ok || w > 0 && *perSecond != 3 {
			t.Fatalf("window %d: %v", w, perSecond)
		}
	}
	gauge, counter := v.Results(watchedTarget(1), 0, measure.MaxWindow)[0].Metrics[0],
		counters.Results(watchedTarget(1), 0, measure.MaxWindow)[0].Metrics[0]
	if gauge.Samples > keptSamples || *gauge.Min != 0 || *gauge.Max != 1 || *counter.Increase != 3*(week-1) ||
		*counter.PerSecond != 3 {
		t.Errorf("%+v, %+v", gauge, counter)
	}
}

// Windows have the values that servers reported in them, with the growth of counters since the value before.
func TestServerWindows(t *testing.T) {
	var v Metrics
	v.Add(&spatev1.Snapshot{Window: 3, ServerSamples: []*spatev1.ServerSample{
		{Source: 1, Name: "c", Value: 100, Counter: true}, {Source: 0, Name: "g", Labels: `a="1"`, Value: 7},
		{Source: 0, Name: "up", Value: 1},
	}})
	v.Add(&spatev1.Snapshot{Window: 5,
		ServerSamples: []*spatev1.ServerSample{{Source: 1, Name: "c", Value: 110, Counter: true}}})
	v.Add(&spatev1.Snapshot{Window: 6,
		ServerSamples: []*spatev1.ServerSample{{Source: 1, Name: "c", Value: 4, Counter: true}}})
	text := func(window uint32) (words []string) {
		for _, s := range v.Window(window, watchedTarget(2)) {
			rate := ""
			if s.PerSecond != nil {
				rate = fmt.Sprintf(" +%v/s", *s.PerSecond)
			}
			words = append(words, fmt.Sprintf("%s %s{%s} %v%s", s.URL, s.Name, s.Labels, s.Value, rate))
		}
		return words
	}
	for window, want := range map[uint32][]string{
		3: {`http://e0/metrics g{a="1"} 7`, "http://e0/metrics up{} 1", "http://e1/metrics c{} 100"},
		4: nil,
		5: {"http://e1/metrics c{} 110 +5/s"},
		6: {"http://e1/metrics c{} 4 +4/s"},
	} {
		if got := text(window); !slices.Equal(got, want) {
			t.Errorf("window %d: %q, want %q", window, got, want)
		}
	}
}

// The number of series is bounded even if labels come and go, and dropped values are counted.
func TestServerSeriesAreBounded(t *testing.T) {
	var v Metrics
	for i := range maxServerSeries + 10 {
		v.Add(&spatev1.Snapshot{Window: uint32(i),
			ServerSamples: []*spatev1.ServerSample{{Name: "m", Labels: fmt.Sprint(i)}}})
	}
	r := v.Results(watchedTarget(1), 0, measure.MaxWindow)[0]
	if len(r.Metrics) != maxServerSeries || r.ValuesLeftOut != 10 {
		t.Errorf("%d series, %d left out", len(r.Metrics), r.ValuesLeftOut)
	}
}

// Sums of the largest allowed values stay finite, so that JSON can represent them, even if a counter jumps between
// these values.
func TestLargestServerValues(t *testing.T) {
	for _, counter := range []bool{false, true} {
		var v Metrics
		for w := range uint32(3 * keptSamples) {
			s := told(w, servermetrics.MaxValue*float64(1-2*int(w%2)), counter)
			if err := CheckSamples([]*spatev1.ServerSample{{Name: "m",
				Value: s.GetServerSamples()[0].GetValue()}}, watchedTarget(1)); err != nil {
				t.Fatal(err)
			}
			v.Add(s)
		}
		if _, err := json.Marshal(v.Results(watchedTarget(1), 0, measure.MaxWindow)); err != nil {
			t.Errorf("counter %v: %v", counter, err)
		}
	}
}

// Samples that cannot be merged or shown are refused.
func TestServerSamplesAreChecked(t *testing.T) {
	good := func() *spatev1.ServerSample {
		return &spatev1.ServerSample{Source: 1, Name: "m", Labels: `a="b"`, Value: 1}
	}
	var many []*spatev1.ServerSample
	for i := range maxServerSamples + 1 {
		many = append(many, &spatev1.ServerSample{Name: fmt.Sprint(i)})
	}
	for want, samples := range map[string][]*spatev1.ServerSample{
		"":                  {good(), {Source: 0, Name: "m", Labels: `a="b"`}},
		"the target has 2":  {{Source: 2, Name: "m"}},
		"a name of 0 bytes": {{Name: ""}},
		"labels of 513":     {{Name: "m", Labels: strings.Repeat("x", 513)}},
		"m is NaN":          {{Name: "m", Value: math.NaN()}},
		"m is -Inf":         {{Name: "m", Value: math.Inf(-1)}},
		"up to 1e+300":      {{Name: "m", Value: -1e308}},
		"given twice":       {good(), good()},
		"more than 66":      many,
	} {
		err := CheckSamples(samples, watchedTarget(2))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	never := &spatev1.Target{Endpoints: []string{"http://e"}, ServerMetrics: &spatev1.ServerMetrics{Read: "never"}}
	if err := CheckSamples([]*spatev1.ServerSample{good()}, never); err == nil {
		t.Error("samples of a target that asks for none are taken")
	}
}
