package points

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// seen returns the windows in which bursts start. failed has the number of failures, of 100 requests, in each window
// from first on.
func seen(first uint32, failed []uint64) (windows []uint32) {
	var b Bursts
	rec := &spatev1.StageRecord{StartTime: timestamppb.New(begin)}
	for i, n := range failed {
		v := merge.View{Window: first + uint32(i)}
		v.Total.Counters = &spatev1.Counters{Completed: 100 - n, Failed: n}
		v.Total.Errors = map[string]uint64{"timeout": n - n/2, "connect": n / 2, "http_429": 0}
		p, ok := b.See(Run{ID: "r", Plan: "p"}, sink.Scope{RunID: "r"}, rec, v)
		if ok {
			windows = append(windows, uint32(p.Time.Sub(begin)/time.Second))
		}
	}
	return windows
}

func TestBursts(t *testing.T) {
	calm := make([]uint64, calmWindows)
	for name, c := range map[string]struct {
		failed []uint64
		want   string
	}{
		"none":               {[]uint64{0, 9, 9, 9}, "[]"},
		"one":                {[]uint64{0, 10, 50, 0, 100}, "[1]"},
		"at once":            {[]uint64{10}, "[0]"},
		"after a calm":       {slices.Concat([]uint64{10}, calm, []uint64{10}), "[0 11]"},
		"after a short calm": {slices.Concat([]uint64{10}, calm[1:], []uint64{10}), "[0]"},
	} {
		if got := fmt.Sprint(seen(0, c.failed)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Few failures are not a burst, even if they are a large share.
func TestFewFailuresAreNoBurst(t *testing.T) {
	var b Bursts
	v := merge.View{Total: merge.Measured{Counters: &spatev1.Counters{Failed: minFailures - 1}}}
	if p, ok := b.See(Run{}, sink.Scope{}, &spatev1.StageRecord{}, v); ok {
		t.Errorf("%+v", p)
	}
}

// Bursts that starts at a later window finds the same bursts as from window 0, except in its first calmWindows windows,
// for which it reports nothing.
func TestBurstsBegunLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failed := rapid.SliceOfN(rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 0, 0, 20}), 40, 80).Draw(t, "failed")
		first := rapid.IntRange(1, 30).Draw(t, "first")
		var want []uint32
		for _, w := range seen(0, failed) {
			if int(w) >= first+calmWindows {
				want = append(want, w)
			}
		}
		if got := seen(uint32(first), failed[first:]); !slices.Equal(got, want) {
			t.Fatalf("from %d: %v, want %v", first, got, want)
		}
	})
}

func TestBurstSaysWhat(t *testing.T) {
	var b Bursts
	v := merge.View{Window: 7, Total: merge.Measured{
		Counters: &spatev1.Counters{Completed: 28, Failed: 12},
		Errors:   map[string]uint64{"timeout": 10, "connect": 2, "body": 0},
	}}
	b.started = true // from the stage's start
	p, ok := b.See(Run{ID: "r", Plan: "p"}, sink.Scope{StageIndex: 3, RunID: "r"},
		&spatev1.StageRecord{StartTime: timestamppb.New(begin)}, v)
	want := "12 of 40 requests that ended in second 7 failed: timeout 10, connect 2"
	if !ok || p.Text != want || !p.Time.Equal(begin.Add(7*time.Second)) || p.Kind != sink.ErrorBurst ||
		p.Stage.StageIndex != 3 {
		t.Errorf("%+v", p)
	}
	if row := p.Rows()[0]; !strings.Contains(fmt.Sprint(row.Tags), "{kind error_burst}") {
		t.Errorf("row %+v", row)
	}
}
