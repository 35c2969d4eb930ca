package calibration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// small returns a configuration with loads that any machine can take, against a simulator in this process.
func small(t *testing.T) Config {
	sim := config.Default()
	sim.Pace = config.Pace{BetweenTokens: 20 * time.Millisecond, Ticks: true}
	sim.Truth.Stamp = true
	server, err := simulator.Start(sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(t.Context()) })
	return Config{
		Endpoints: server.URLs(), Streams: []int{10}, Starts: []float64{50}, All: true,
		Window: 500 * time.Millisecond, Rules: Rules{Error: time.Hour, Lateness: time.Hour},
		OnMeasured: func(r *Row) { t.Log(r.Load, r.Achieved, r.BrokenRules, r.Reading) },
	}
}

// Every frame is measured against its true send time, which is never after the timestamp.
func TestMeasureSmallLoads(t *testing.T) {
	streams, starts, err := Measure(t.Context(), small(t))
	if err != nil || len(streams) != 1 || len(starts) != 1 {
		t.Fatalf("%d loads of streams, %d of starts: %v", len(streams), len(starts), err)
	}
	for _, r := range append(streams, starts...) {
		if r.Frame.Count == 0 || r.Failed > 0 || r.Achieved <= 0 || r.Window < 500*time.Millisecond {
			t.Errorf("%v: %+v", r.Load, r)
		}
		for what, e := range map[string]Spread{"frame": r.Frame, "ttft": r.TTFT, "itl": r.ITL, "e2e": r.E2E} {
			// On a busy machine such a short window may have no start or end of a request, but it always has frames.
			seldom := what == "ttft" || what == "e2e"
			if e.Count == 0 && !seldom || e.P50 > e.P99 {
				t.Errorf("%v: %s: %+v", r.Load, what, e)
			}
		}
		if r.Starts > 0 && r.Lateness.Count == 0 {
			t.Errorf("%v: no start was timed", r.Load)
		}
	}
}

// A load that the machine has no room for is not safe, for the reason that an agent gives, and ends its ladder.
func TestMeasureEndsAtARefusedLoad(t *testing.T) {
	config := small(t)
	config.Streams, config.Starts, config.All = []int{999_999, 1_000_000}, nil, false
	tries := 0
	config.OnMeasured = func(*Row) { tries++ }
	streams, _, err := Measure(t.Context(), config)
	if err != nil || len(streams) != 1 || tries != 2 || !strings.Contains(LimitOf(streams).Above, "requests in flight") {
		t.Errorf("%d tries, %v: %+v", tries, err, streams)
	}
}

func TestMeasureStopsAtOnce(t *testing.T) {
	config := small(t)
	config.Window = 5 * time.Minute
	wanted := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(wanted)
	if _, _, err := Measure(ctx, config); !errors.Is(err, wanted) {
		t.Errorf("%v, want %v", err, wanted)
	}
}

func TestConfigReportsAllErrors(t *testing.T) {
	config := small(t)
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	config.Window = time.Millisecond
	config.Streams, config.Starts = []int{0, 5, 5}, []float64{-1, 3, 2}
	err := config.Validate()
	for _, want := range []string{
		"duration: 1ms", "streams: 0: want at least 1", "streams: 5 after 5",
		"starts: -1: want more than 0", "starts: 2 after 3",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	config.Streams, config.Starts = nil, nil
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "no load") {
		t.Error(err)
	}
}

// The smallest and the largest loads are valid plans.
func TestLoadsAreValidPlans(t *testing.T) {
	for _, load := range []Load{{Streams: 1}, {Streams: 1e6}, {Starts: 0.5}, {Starts: 1e6}} {
		for _, window := range []time.Duration{500 * time.Millisecond, 10 * time.Minute} {
			text := load.plan([]string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, window)
			if _, err := plans.Load("plan", []byte(text), plans.Options{}); err != nil {
				t.Errorf("%v in %v: %v\n%s", load, window, err, text)
			}
		}
	}
}
