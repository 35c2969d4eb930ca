package measure_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The two tables have the protocol's metrics and counters, in its order and with its names.
func TestTheCatalogueIsTheProtocols(t *testing.T) {
	if n := len(spatev1.Metric_name); n != measure.Count {
		t.Errorf("%d metrics, the protocol has %d", measure.Count-1, n-1)
	}
	names := map[string]bool{}
	for i, m := range measure.Metrics() {
		if int(m.ID) != i+1 || measure.Of(m.ID) != m || !measure.Known(m.ID) {
			t.Errorf("row %d is of metric %v", i, m.ID)
		}
		wants := map[measure.Unit]string{measure.Nanoseconds: "_ms", measure.Tokens: "_tokens"}[m.Unit]
		if names[m.Name] || !strings.HasSuffix(m.Name, wants) {
			t.Errorf("name %q is used twice or lacks its unit", m.Name)
		}
		names[m.Name] = true
	}
	fields := (&spatev1.Counters{}).ProtoReflect().Descriptor().Fields()
	if fields.Len() != len(measure.Counters()) {
		t.Errorf("%d counters, the protocol has %d", len(measure.Counters()), fields.Len())
	}
	for i, c := range measure.Counters() {
		if f := fields.Get(i); int(f.Number()) != int(c) || string(f.Name()) != c.String() {
			t.Errorf("counter %d is %q, the protocol has %d %q", c, c, f.Number(), f.Name())
		}
	}
}

func TestUnknownMetrics(t *testing.T) {
	for _, id := range []spatev1.Metric{0, -1, spatev1.Metric(measure.Count)} {
		if measure.Known(id) || measure.Of(id) != (measure.Metric{}) {
			t.Errorf("metric %d is known", id)
		}
	}
}

func TestSets(t *testing.T) {
	paths := measure.KeptBy(measure.Paths)
	if want := measure.SetOf(spatev1.Metric_METRIC_CONNECT, spatev1.Metric_METRIC_RTT); paths != want {
		t.Errorf("paths keep %b, want %b", paths, want)
	}
	for _, m := range measure.Metrics() {
		if !measure.All.Has(m.ID) {
			t.Errorf("the set of all lacks %s", m.Name)
		}
	}
	if measure.All.Has(0) {
		t.Error("the set of all has metric 0")
	}
}

func random() *measure.Counts {
	var c measure.Counts
	for _, id := range measure.Counters() {
		c[id] = rand.Uint64N(1 << 40)
	}
	return &c
}

func TestCountsBecomeMessagesAndBack(t *testing.T) {
	a, b := random(), random()
	if got := measure.CountsOf(a.Proto()); got != *a {
		t.Errorf("%v, want %v", got, *a)
	}
	sum, message := *a, a.Proto()
	sum.Add(b)
	measure.AddTo(message, b.Proto())
	measure.AddTo(message, nil)
	if diff := cmp.Diff(sum.Proto(), message, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if measure.CountsOf(nil) != (measure.Counts{}) {
		t.Error("no message counts something")
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		counter measure.Counter
		counts  measure.Counts
		want    bool
	}{
		{measure.InputTokens, measure.Counts{measure.WithoutUsage: 1}, false},
		{measure.InputTokens, measure.Counts{}, true},
		{measure.TokensArrived, measure.Counts{measure.UncountedFrames: 1}, false},
		{measure.CachedTokens, measure.Counts{measure.Completed: 2, measure.WithCachedTokens: 1}, false},
		{measure.CachedTokens, measure.Counts{measure.Completed: 2, measure.WithCachedTokens: 2}, true},
		{measure.CachedTokens, measure.Counts{}, false},
		{measure.Failed, measure.Counts{measure.WithoutUsage: 1, measure.UncountedFrames: 1}, true},
	} {
		if got := c.counter.KnownIn(&c.counts); got != c.want {
			t.Errorf("%s in %v: %v, want %v", c.counter, c.counts, got, c.want)
		}
	}
}

func BenchmarkAddTo(b *testing.B) {
	to, from := random().Proto(), random().Proto()
	b.ReportAllocs()
	for b.Loop() {
		measure.AddTo(to, from)
	}
}
