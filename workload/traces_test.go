package workload

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// times are the times of a trace. A negative one cannot be read.
type times []time.Duration

func (t times) Len() uint64 { return uint64(len(t)) }

func (t times) At(i uint64) (time.Duration, bool) {
	if i >= t.Len() || t[i] < 0 {
		return 0, false
	}
	return t[i], true
}

// Traces together are all of their rows, sorted by time, each once, and again behind the last one.
func TestTracesAreMergedByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type arrival struct {
			at     time.Duration
			part   int
			number uint64
		}
		var traces []TraceTimes
		var want []arrival
		for part := range rapid.IntRange(1, 4).Draw(t, "parts") {
			instant := rapid.Map(rapid.IntRange(0, 50), func(n int) time.Duration { return time.Duration(n) })
			trace := rapid.SliceOfN(instant, 1, 1500).Draw(t, "times")
			slices.Sort(trace)
			traces = append(traces, times(trace))
			for i, at := range trace {
				want = append(want, arrival{at, part, uint64(i)})
			}
		}
		slices.SortStableFunc(want, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		merged, err := NewTraces(traces)
		if err != nil || merged.Len() != uint64(len(want)) {
			t.Fatalf("%d of %d rows: %v", merged.Len(), len(want), err)
		}
		for i, w := range want {
			part, number := merged.Of(uint64(i))
			at, ok := merged.At(uint64(i))
			if got := (arrival{at, part, number}); got != w || !ok {
				t.Fatalf("arrival %d is %v, want %v", i, got, w)
			}
			part, number = merged.Of(uint64(i + 2*len(want)))
			if part != w.part || number != w.number+2*traces[part].Len() {
				t.Fatalf("arrival %d, two passes later, is %d of part %d", i, number, part)
			}
		}
		if _, ok := merged.At(merged.Len()); ok {
			t.Fatal("there is a time behind the last row")
		}
	})
}

func TestTracesWithoutTimes(t *testing.T) {
	if _, err := NewTraces([]TraceTimes{times{1, 2}, times{0, -1}}); err == nil {
		t.Error("a row without a time is replayed")
	}
}
