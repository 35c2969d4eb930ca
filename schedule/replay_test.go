package schedule

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// replayed returns a schedule's arrivals and the error that ended it.
func replayed(t *testing.T, load *spatev1.LoadPoint, times Times) ([]Arrival, error) {
	t.Helper()
	o, err := NewReplay(load, 1, times, sole(whole))
	if err != nil {
		t.Fatal(err)
	}
	var all []Arrival
	for a, more := o.Next(); more; a, more = o.Next() {
		all = append(all, a)
	}
	return all, o.Err()
}

func TestReplayScalesTime(t *testing.T) {
	for speed, want := range map[float64][]time.Duration{
		1: {0, 15, 15, 1e18}, 10: {0, 2, 2, 1e17}, 0.5: {0, 30, 30, 2e18},
	} {
		all, err := replayed(t, &spatev1.LoadPoint{ReplaySpeed: speed, Arrival: "trace", Requests: 4},
			trace{0, 15, 15, 1e18})
		if err != nil || len(all) != len(want) {
			t.Fatalf("speed %v: %v, %v", speed, all, err)
		}
		for i, a := range all {
			if a.Offset != want[i] || a.Index != uint64(i) || a.Unmeasured {
				t.Errorf("speed %v: %+v, want %v", speed, a, want[i])
			}
		}
	}
}

// gap is a trace with a row that has no time.
type gap struct{ trace }

func (g gap) At(i uint64) (time.Duration, bool) {
	at, ok := g.trace.At(i)
	return at, ok && i != 2
}

// TestReplayEndsWithError: a bad row in a trace ends the schedule with an error, and earlier arrivals stay valid.
func TestReplayEndsWithError(t *testing.T) {
	for name, c := range map[string]struct {
		times Times
		said  string
	}{
		"back in time": {trace{0, 20, 10, 30}, "row 2 of the trace is at 10ns, before row 1 at 20ns"},
		"no time":      {gap{trace{0, 20, 30, 40}}, "row 2 of the 4 rows of the trace has no readable time"},
		"before it":    {trace{0, 20, -1, 40}, "row 2 of the trace is at -1ns"},
	} {
		all, err := replayed(t, &spatev1.LoadPoint{ReplaySpeed: 1}, c.times)
		if err == nil || !strings.Contains(err.Error(), c.said) || len(all) != 2 {
			t.Errorf("%s: %d arrivals and %v", name, len(all), err)
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	three := trace{0, 1e9, 2e9}
	for name, c := range map[string]struct {
		load  *spatev1.LoadPoint
		times Times
	}{
		"too slow":         {&spatev1.LoadPoint{ReplaySpeed: 1e-10}, three},
		"all is cool-down": {&spatev1.LoadPoint{ReplaySpeed: 1, Cooldown: durationpb.New(2 * time.Second)}, three},
		"all is warm-up":   {&spatev1.LoadPoint{ReplaySpeed: 2, WarmupDuration: durationpb.New(time.Second)}, three},
		"no last time":     {&spatev1.LoadPoint{ReplaySpeed: 1}, gap{three}},
	} {
		if _, err := NewReplay(c.load, 1, c.times, sole(whole)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestReplayOfAMillionRows: memory does not depend on the trace's length.
func TestReplayOfAMillionRows(t *testing.T) {
	const rows = 1_000_000
	o, err := NewReplay(&spatev1.LoadPoint{ReplaySpeed: 10, Cooldown: durationpb.New(time.Second)}, 1, evenly(rows),
		sole(whole))
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	if allocations := testing.AllocsPerRun(1000, func() {
		for range 400 {
			a, more := o.Next()
			if !more || a.Index != next || a.Offset != time.Duration(next)*100*time.Microsecond {
				t.Fatalf("%+v, %v, want row %d", a, more, next)
			}
			next++
		}
	}); allocations != 0 {
		t.Errorf("%v allocations in 400 rows", allocations)
	}
	unmeasured := 0
	for a, more := o.Next(); more; a, more = o.Next() {
		next++
		if a.Unmeasured {
			unmeasured++
		}
	}
	if next != rows || unmeasured != 10_001 || o.Err() != nil {
		t.Fatalf("%d rows, %d of them unmeasured, %v", next, unmeasured, o.Err())
	}
}
