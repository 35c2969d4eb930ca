package merge

import (
	"slices"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// counted returns a snapshot of agent a with the given counts and TTFTs.
func counted(sequence uint64, window uint32, c *spatev1.Counters, ttft ...time.Duration) *spatev1.Snapshot {
	series := &spatev1.Series{Counters: c}
	if len(ttft) > 0 {
		h := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT))
		for _, d := range ttft {
			h.Record(int64(d))
		}
		series.Distributions = []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_TTFT)}
	}
	return &spatev1.Snapshot{
		Key:    &spatev1.SnapshotKey{RunId: "run-1", Agent: "a", Incarnation: 1, Sequence: sequence},
		Window: window, Series: []*spatev1.Series{series},
	}
}

// stageOf returns a stage of one agent with the given snapshots.
func stageOf(t *testing.T, snapshots ...*spatev1.Snapshot) *Stage {
	t.Helper()
	s := NewStage(fixture.StageRecord(0, 1))
	for _, snapshot := range snapshots {
		if err := s.Add(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// milliseconds returns 1 ms to n ms.
func milliseconds(n int) (out []time.Duration) {
	for i := range n {
		out = append(out, time.Duration(i+1)*time.Millisecond)
	}
	return out
}

func TestLatencyCountsCutOffRequestsAsSlowest(t *testing.T) {
	const ttft = spatev1.Metric_METRIC_TTFT
	for _, c := range []struct {
		completed  int
		cancelled  uint64
		percentile float64
		want       time.Duration // 0: not known
	}{
		{100, 0, 50, 50 * time.Millisecond},
		{100, 0, 99, 99 * time.Millisecond},
		{100, 0, 0, 50500 * time.Microsecond},
		{90, 10, 50, 50 * time.Millisecond}, // of 100 requests, of which 10 count as slower than all others
		{90, 10, 90, 90 * time.Millisecond},
		{90, 10, 91, 0},
		{90, 10, 0, 0},
		{0, 10, 50, 0},
	} {
		s := stageOf(t, counted(1, 0, &spatev1.Counters{Completed: uint64(c.completed), Cancelled: c.cancelled},
			milliseconds(c.completed)...))
		got, ok := s.Latency(ttft, c.percentile)
		if ok != (c.want > 0) || ok && (got < c.want || got > c.want+c.want/500) {
			t.Errorf("p%v of %d and %d cut off: %v, known %v, want %v", c.percentile, c.completed, c.cancelled,
				got, ok, c.want)
		}
	}
	if _, ok := stageOf(t).Latency(ttft, 50); ok {
		t.Error("known of nothing")
	}
}

func TestIntervalOfAStage(t *testing.T) {
	s := stageOf(t, counted(1, 0, &spatev1.Counters{Completed: 19}, milliseconds(19)...))
	if _, ok := s.Interval(spatev1.Metric_METRIC_TTFT, 50, 0.95); ok {
		t.Error("known of 19 values")
	}
	if _, ok := s.Interval(spatev1.Metric_METRIC_E2E, 50, 0.95); ok {
		t.Error("known of no values")
	}
	if err := s.Add(counted(2, 1, &spatev1.Counters{Completed: 381}, milliseconds(400)[19:]...)); err != nil {
		t.Fatal(err)
	}
	i, ok := s.Interval(spatev1.Metric_METRIC_TTFT, 50, 0.95)
	// 200 -+ 1.96 x 10: ranks 180 and 221.
	if !ok || i.Count != 400 || i.Low < 179*time.Millisecond || i.Low > 180*time.Millisecond ||
		i.High < 221*time.Millisecond || i.High > 222*time.Millisecond {
		t.Errorf("%+v, known %v", i, ok)
	}
}

func TestUnmeasuredFrames(t *testing.T) {
	s := stageOf(t, counted(1, 0, &spatev1.Counters{UnmeasuredFrames: 5}),
		counted(2, 2, &spatev1.Counters{UnmeasuredFrames: 7}),
		counted(3, 2, &spatev1.Counters{UnmeasuredFrames: 1}))
	s.Forget(2)
	if got := s.UnmeasuredFrames(0, 4); !slices.Equal(got, []uint64{5, 0, 8, 0}) {
		t.Errorf("%v", got)
	}
	if got := s.UnmeasuredFrames(2, 3); !slices.Equal(got, []uint64{8}) {
		t.Errorf("%v", got)
	}
	if got := s.Counters().GetUnmeasuredFrames(); got != 13 {
		t.Errorf("%d in all", got)
	}
}

// flowing returns a stage of snapshots, one per window, whose measured requests start between two times.
func flowing(t *testing.T, from, to time.Duration, windows ...*spatev1.Counters) *Stage {
	t.Helper()
	var snapshots []*spatev1.Snapshot
	for i, c := range windows {
		snapshots = append(snapshots, counted(uint64(i+1), uint32(i), c))
	}
	last := counted(uint64(len(windows)+1), uint32(len(windows)), &spatev1.Counters{})
	last.Totals = &spatev1.Totals{
		Counters: &spatev1.Counters{Started: 100}, FirstStartNs: new(from.Nanoseconds()),
		SteadyToNs: new(to.Nanoseconds()),
	}
	return stageOf(t, append(snapshots, last)...)
}

// repeat returns n equal windows.
func repeat(n int, c *spatev1.Counters) []*spatev1.Counters {
	return slices.Repeat([]*spatev1.Counters{c}, n)
}

// Ten windows have 10 starts and 8 ends each, then comes a cool-down. Windows 1 to 4 start with 2 to 8 requests in
// flight. The second half is from 5 s to 10 s.
func TestFlow(t *testing.T) {
	windows := append(repeat(10, &spatev1.Counters{Started: 10, Completed: 6, Failed: 1, Cancelled: 1}),
		repeat(2, &spatev1.Counters{Completed: 8, UnmeasuredStarted: 10})...)
	if f, ok := flowing(t, 10*time.Millisecond, 12*time.Second, windows...).Flow(); !ok ||
		f != (Flow{Level: 5, InFlight: 10, Started: 50, Ended: 40, Seconds: 5}) {
		t.Errorf("%+v, known %v", f, ok)
	}
	if f, ok := flowing(t, 10*time.Millisecond, 4900*time.Millisecond, windows...).Flow(); ok {
		t.Errorf("%+v of 3 windows", f)
	}
	if f, ok := stageOf(t, counted(1, 0, windows[0])).Flow(); ok {
		t.Errorf("%+v before the totals", f)
	}
}

// In a warm-up of 4 s and after it, 10 requests start per second, and the server completes 2 per second. No measured
// request ends before the last one has started. With measured requests alone, the flow would not be known, and the
// server would seem to keep up.
func TestFlowOfAServerFarBehind(t *testing.T) {
	windows := append(repeat(4, &spatev1.Counters{UnmeasuredStarted: 10, UnmeasuredEnded: 2}),
		repeat(10, &spatev1.Counters{Started: 10, UnmeasuredEnded: 2})...)
	windows = append(windows, &spatev1.Counters{UnmeasuredEnded: 12, Completed: 100})
	f, ok := flowing(t, 4*time.Second, 14*time.Second, windows...).Flow()
	if want := (Flow{Level: 48, InFlight: 72, Started: 50, Ended: 10, Seconds: 5}); !ok || f != want {
		t.Errorf("%+v, known %v, want %+v", f, ok, want)
	}
}

// After a warm-up, a server has 30 requests in flight all the time, although the number of measured ones has yet to
// grow to 30.
func TestFlowBehindAWarmUp(t *testing.T) {
	windows := repeat(3, &spatev1.Counters{UnmeasuredStarted: 10})
	windows = append(windows, repeat(3, &spatev1.Counters{Started: 10, UnmeasuredEnded: 10})...)
	windows = append(windows, repeat(3, &spatev1.Counters{Started: 10, Completed: 10})...)
	f, ok := flowing(t, 3*time.Second, 9*time.Second, windows...).Flow()
	if want := (Flow{Level: 30, InFlight: 30, Started: 30, Ended: 30, Seconds: 3}); !ok || f != want {
		t.Errorf("%+v, known %v, want %+v", f, ok, want)
	}
}

// Without a warm-up, the level is known once the first request has ended.
func TestFlowWithoutAWarmUp(t *testing.T) {
	windows := append(repeat(4, &spatev1.Counters{Started: 10}),
		repeat(5, &spatev1.Counters{Started: 10, Completed: 10})...)
	f, ok := flowing(t, 0, 9*time.Second, windows...).Flow()
	if want := (Flow{Level: 40, InFlight: 40, Started: 20, Ended: 20, Seconds: 2}); !ok || f != want {
		t.Errorf("%+v, known %v, want %+v", f, ok, want)
	}
	if f, ok := flowing(t, 0, 9*time.Second, repeat(9, &spatev1.Counters{Started: 10})...).Flow(); ok {
		t.Errorf("%+v, though nothing ended", f)
	}
}
