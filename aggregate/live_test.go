package aggregate

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// counted is a snapshot of agent a with some counts and TTFTs.
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

// stageOf is a stage of one agent with some snapshots.
func stageOf(t *testing.T, snapshots ...*spatev1.Snapshot) *Stage {
	t.Helper()
	s := NewStage(stageRecord(0, 1))
	for _, snapshot := range snapshots {
		if err := s.Add(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// milliseconds are 1 to n ms.
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
		{90, 10, 50, 50 * time.Millisecond}, // of 100 requests, 10 of them beyond
		{90, 10, 90, 90 * time.Millisecond},
		{90, 10, 91, 0},
		{90, 10, 0, 0},
		{0, 10, 50, 0},
	} {
		s := stageOf(t, counted(1, 0, &spatev1.Counters{Completed: uint64(c.completed), Cancelled: c.cancelled}, milliseconds(c.completed)...))
		got, ok := s.Latency(ttft, c.percentile)
		if ok != (c.want > 0) || ok && (got < c.want || got > c.want+c.want/500) {
			t.Errorf("p%v of %d and %d cut off: %v, known %v, want %v", c.percentile, c.completed, c.cancelled, got, ok, c.want)
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
	if !ok || i.Count != 400 || i.Low < 179*time.Millisecond || i.Low > 180*time.Millisecond || i.High < 221*time.Millisecond || i.High > 222*time.Millisecond {
		t.Errorf("%+v, known %v", i, ok)
	}
}

func TestUnmeasuredTokens(t *testing.T) {
	s := stageOf(t, counted(1, 0, &spatev1.Counters{UnmeasuredTokensArrived: 5}), counted(2, 2, &spatev1.Counters{UnmeasuredTokensArrived: 7}),
		counted(3, 2, &spatev1.Counters{UnmeasuredTokensArrived: 1}))
	s.Forget(2)
	if got := s.UnmeasuredTokens(0, 4); !slices.Equal(got, []uint64{5, 0, 8, 0}) {
		t.Errorf("%v", got)
	}
	if got := s.UnmeasuredTokens(2, 3); !slices.Equal(got, []uint64{8}) {
		t.Errorf("%v", got)
	}
	if got := s.Counters().GetUnmeasuredTokensArrived(); got != 13 {
		t.Errorf("%d in all", got)
	}
}

// Ten windows of 10 starts and 8 ends, then a cool-down: the steady part is windows 2 to 10, its second half 6 to 10.
func TestFlow(t *testing.T) {
	var snapshots []*spatev1.Snapshot
	for window := range uint32(12) {
		c := &spatev1.Counters{Started: 10, Completed: 6, Failed: 1, Cancelled: 1}
		if window >= 10 {
			c = &spatev1.Counters{Completed: 8, UnmeasuredStarted: 10}
		}
		snapshots = append(snapshots, counted(uint64(window+1), window, c))
	}
	last := counted(13, 12, &spatev1.Counters{})
	last.Totals = &spatev1.Totals{
		Counters:     &spatev1.Counters{Started: 100},
		SteadyFromNs: proto.Int64(int64(1500 * time.Millisecond)), SteadyToNs: proto.Int64(int64(12 * time.Second)),
	}
	s := stageOf(t, snapshots...)
	if _, ok := s.Flow(); ok {
		t.Error("known before the totals")
	}
	if err := s.Add(last); err != nil {
		t.Fatal(err)
	}
	if f, ok := s.Flow(); !ok || f != (Flow{Level: 4, InFlight: 12, Started: 40, Ended: 32, Seconds: 4}) {
		t.Errorf("%+v, known %v", f, ok)
	}
	last.Totals.SteadyToNs = proto.Int64(int64(5 * time.Second))
	short := stageOf(t, append(snapshots, last)...)
	if f, ok := short.Flow(); ok {
		t.Errorf("%+v of 3 windows", f)
	}
}
