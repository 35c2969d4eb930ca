package calibration

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/plans"
)

// small returns a configuration with loads that any machine can take.
func small(t *testing.T) Config {
	return Config{
		Agent: []string{os.Args[0], "calibrated-agent"}, Simulator: []string{os.Args[0], "calibrated-simulator"},
		Step: 20 * time.Millisecond, Streams: []int{5, 10}, Starts: []float64{50}, MeasureAll: true,
		Window:  time.Second,
		Rules:   rules,
		OnSplit: func(Cores) {},
		OnStart: func(Load, time.Duration) {}, OnMeasured: func(r Row) { t.Logf("%v: %+v", r.Load, r) },
	}
}

// A whole calibration with real processes: every frame is measured and has its true send time, which is never after the
// timestamp.
func TestCalibrateSmallLoads(t *testing.T) {
	config := small(t)
	var rows []Row
	config.OnMeasured = func(r Row) { rows = append(rows, r) }
	if _, err := Calibrate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Frames == 0 || r.Failed > 0 || r.WithoutTruth > 0 || r.Achieved <= 0 || r.Window < config.Window {
			t.Errorf("%v: %+v", r.Load, r.Reading)
		}
		for what, e := range map[string]Errors{"frame": r.Frame, "ttft": r.TTFT, "itl": r.ITL, "e2e": r.E2E} {
			// On a busy machine such a short window may have no start or end of a request, but it always has frames.
			seldom := what == "ttft" || what == "e2e"
			if e.Stamp.Count == 0 && !seldom || e.Stamp.Count != e.Program.Count || e.Stamp.P50 > e.Stamp.P99 ||
				e.Stamp.P999 > e.Stamp.Max {
				t.Errorf("%v: %s: %+v", r.Load, what, e)
			}
		}
		if r.Frame.Stamp.Max > r.Frame.Program.Max || r.Frame.Stamp.P50 > r.Frame.Program.P50 {
			t.Errorf("%v: stamps are later than the program: %+v", r.Load, r.Frame)
		}
		if r.Starts > 0 && r.Lateness.Count == 0 {
			t.Errorf("%v: no start was timed", r.Load)
		}
	}
}

func TestCalibrateStopsAtOnce(t *testing.T) {
	config := small(t)
	config.Window = 5 * time.Minute
	wanted := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	config.OnStart = func(Load, time.Duration) { cancel(wanted) }
	if _, err := Calibrate(ctx, config); !errors.Is(err, wanted) {
		t.Errorf("%v, want %v", err, wanted)
	}
}

func TestCalibrateReportsWhyAProcessEnded(t *testing.T) {
	for _, broken := range []string{"agent", "simulator"} {
		config := small(t)
		command := []string{os.Args[0], "calibrated-mute"}
		if broken == "agent" {
			config.Agent = command
		} else {
			config.Simulator = command
		}
		want := "the " + broken + " has ended: no machine for this"
		if _, err := Calibrate(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestConfigReportsAllErrors(t *testing.T) {
	config := small(t)
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	config.Cores, config.Step, config.Window, config.Rules = -1, time.Microsecond, time.Millisecond, Rules{}
	config.Streams, config.Starts = []int{0, 5, 5}, []float64{-1, 3, 2}
	err := config.Validate()
	for _, want := range []string{
		"cores: -1", "step: 1µs", "duration: 1ms", "budget", "streams: 0: want at least 1", "streams: 5 after 5",
		"starts: -1: want more than 0", "starts: 2 after 3",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	empty := small(t)
	empty.Streams, empty.Starts = nil, nil
	if err := empty.Validate(); err == nil || !strings.Contains(err.Error(), "no load") {
		t.Error(err)
	}
}

// The smallest and the largest loads are valid plans.
func TestLoadsAreValidPlans(t *testing.T) {
	where := endpoints{Streams: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, Short: []string{"http://127.0.0.1:3"}}
	for _, load := range []Load{{Streams: 1}, {Streams: 1e6}, {Starts: 0.5}, {Starts: 1e6}} {
		for _, window := range []time.Duration{500 * time.Millisecond, 10 * time.Minute} {
			text := load.plan(where, time.Second/40, window)
			if _, err := plans.Load("plan", []byte(text), plans.Options{}); err != nil {
				t.Errorf("%v in %v: %v\n%s", load, window, err, text)
			}
		}
	}
}
