package servermetrics

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// bucketed returns the histogram of some values.
func bucketed(bounds, values []float64) *spatev1.ServerHistogram {
	h := &spatev1.ServerHistogram{Name: "h", Count: uint64(len(values)), Bounds: bounds,
		Counts: make([]uint64, len(bounds)+1)}
	for _, v := range values {
		i, _ := slices.BinarySearch(bounds, v)
		h.Counts[i]++
		h.Sum += v
	}
	return h
}

// The bucket of a quantile contains the value with the quantile's rank.
func TestBucketQuantileHoldsTheRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := []float64{0, 0.5, 1, 2.5, 10}[rapid.IntRange(0, 1).Draw(t, "first"):]
		values := rapid.SliceOfN(rapid.Float64Range(0.001, 12), 1, 60).Draw(t, "values")
		q := rapid.Float64Range(0.01, 1).Draw(t, "quantile")
		got := bucketQuantile(bucketed(bounds, values), q)
		slices.Sort(values)
		at := values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
		if got.Low != nil && at < *got.Low || got.High != nil && at > *got.High {
			t.Fatalf("%v is not in %v to %v", at, got.Low, got.High)
		}
		if got.Value == nil != (at > 10) || got.Value != nil && (*got.Value < *got.Low || *got.Value > *got.High) {
			t.Fatalf("value %v of %v", got.Value, at)
		}
	})
}

// Values are those of Prometheus' histogram_quantile, calculated by hand from its definition.
func TestBucketQuantile(t *testing.T) {
	h := &spatev1.ServerHistogram{Count: 10, Bounds: []float64{1, 2, 4}, Counts: []uint64{2, 3, 4, 1}}
	for q, want := range map[float64]float64{0.1: 0.5, 0.2: 1, 0.5: 2, 0.7: 3, 0.9: 4} {
		if got := bucketQuantile(h, q); got.Value == nil || math.Abs(*got.Value-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", q, got.Value, want)
		}
	}
	if got := bucketQuantile(h, 0.99); got.Value != nil || *got.Low != 4 || got.High != nil {
		t.Errorf("in the last bucket: %+v", got)
	}
	below := &spatev1.ServerHistogram{Count: 1, Bounds: []float64{-1, 1}, Counts: []uint64{1, 0, 0}}
	if got := bucketQuantile(below, 0.5); *got.Value != -1 || got.Low != nil || *got.High != -1 {
		t.Errorf("in a first bucket below 0: %+v", got)
	}
	for _, none := range []*spatev1.ServerHistogram{nil, {Count: 3, Sum: 1},
		{Bounds: []float64{1}, Counts: []uint64{0, 0}}} {
		if got := bucketQuantile(none, 0.5); got != nil {
			t.Errorf("%v: %+v", none, got)
		}
	}
}

// Counters and histograms come from the account, which covers the stage, and gauges from the samples.
func TestResultsGoByTheAccount(t *testing.T) {
	var v Metrics
	for w, value := range []float64{100, 157} { // the last sample is before the end of the stage
		v.Add(&spatev1.Snapshot{Window: uint32(w), ServerSamples: []*spatev1.ServerSample{
			{Name: "c", Value: value, Counter: true}, {Name: "g", Value: 3}, {Name: servermetrics.Up, Value: 1},
		}})
	}
	v.Add(&spatev1.Snapshot{Window: 1, ServerAccounts: []*spatev1.ServerAccount{{
		FromNs: -2e8, ToNs: 1_800_000_000, Asked: 3, Failed: 1, LeftOut: 2, Restarted: true,
		Counters:   []*spatev1.ServerCounter{{Name: "c", Labels: `a="b"`, Increase: 320}},
		Histograms: []*spatev1.ServerHistogram{{Name: "h", Count: 4, Sum: 10}},
	}}})
	r := v.Results(watchedTarget(1), 0, 1)[0]
	if r.Asked != 5 || r.Failed != 1 || r.ValuesLeftOut != 2 || !r.Restarted || *r.FromS != -0.2 || *r.ToS != 1.8 {
		t.Errorf("%+v", r)
	}
	var names []string
	for _, m := range r.Metrics {
		names = append(names, m.Name+" "+m.Kind)
	}
	if want := []string{"c counter", "g gauge", "h histogram"}; !slices.Equal(names, want) {
		t.Fatalf("%v", names)
	}
	if c, h := r.Metrics[0], r.Metrics[2]; *c.Increase != 320 || *c.PerSecond != 160 || *h.Count != 4 ||
		*h.Mean != 2.5 || h.P50 != nil {
		t.Errorf("%+v, %+v", c, h)
	}
	unasked := v.Results(&spatev1.Target{Endpoints: []string{"http://e", "http://f"}}, 0, 1)
	if len(unasked) != 1 {
		t.Errorf("%d servers, of which one has metrics", len(unasked))
	}
}

// Accounts that cannot be added or shown are refused.
func TestServerAccountsAreChecked(t *testing.T) {
	account := func(change func(*spatev1.ServerAccount)) []*spatev1.ServerAccount {
		a := &spatev1.ServerAccount{
			FromNs: -1, Counters: []*spatev1.ServerCounter{{Name: "c", Increase: 1}},
			Histograms: []*spatev1.ServerHistogram{{Name: "h", Count: 3, Sum: 2, Bounds: []float64{1, 2},
				Counts: []uint64{1, 1, 1}}},
		}
		change(a)
		return []*spatev1.ServerAccount{a}
	}
	right := func(*spatev1.ServerAccount) {}
	for want, accounts := range map[string][]*spatev1.ServerAccount{
		"":                     account(right),
		"source 2: the target": account(func(a *spatev1.ServerAccount) { a.Source = 2 }),
		"0: given twice":       append(account(right), account(right)...),
		"ns of the stage":      account(func(a *spatev1.ServerAccount) { a.ToNs = math.MaxInt64 }),
		"at most 128 and 32": account(func(a *spatev1.ServerAccount) {
			a.Counters = make([]*spatev1.ServerCounter,
				129)
		}),
		"0 counters and 33": account(func(a *spatev1.ServerAccount) {
			a.Counters, a.Histograms = nil,
				make([]*spatev1.ServerHistogram, 33)
		}),
		"counter \"\" of 0": account(func(a *spatev1.ServerAccount) { a.Counters[0].Name = "" }),
		"labels of 513": account(func(a *spatev1.ServerAccount) {
			a.Counters[0].Labels = strings.Repeat("x",
				513)
		}),
		"counter \"c\" of 1": account(func(a *spatev1.ServerAccount) {
			a.Counters = append(a.Counters,
				a.Counters[0])
		}),
		"grew by NaN": account(func(a *spatev1.ServerAccount) { a.Counters[0].Increase = math.NaN() }),
		"histogram \"h\": its name": account(func(a *spatev1.ServerAccount) {
			a.Histograms = append(a.Histograms,
				a.Histograms[0])
		}),
		"values of +Inf": account(func(a *spatev1.ServerAccount) { a.Histograms[0].Sum = math.Inf(1) }),
		"2 bounds and 2 counts": account(func(a *spatev1.ServerAccount) {
			a.Histograms[0].Counts = []uint64{1,
				2}
		}),
		"do not rise": account(func(a *spatev1.ServerAccount) {
			a.Histograms[0].Bounds = []float64{2,
				1}
		}),
		"are no numbers": account(func(a *spatev1.ServerAccount) {
			a.Histograms[0].Bounds = []float64{1,
				math.Inf(1)}
		}),
		"more than its 3 values": account(func(a *spatev1.ServerAccount) { a.Histograms[0].Counts[0] = 1 << 60 }),
		"2 of its 3 values":      account(func(a *spatev1.ServerAccount) { a.Histograms[0].Counts[0] = 0 }),
	} {
		err := CheckAccounts(accounts, watchedTarget(2))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
