// Package calibration finds out how exactly this process's agent measures, and up to which load.
//
// A simulator, which should be another process, writes the true send time into each frame, on the clock that all
// processes of a machine share. The agent is the same as in any run, and each load is a run of an embedded coordinator.
// A gauge watches the agent's requests and compares each frame's time with the truth. The outcome is the error, by
// load, of each number that a run reports. Nothing leaves loopback.
//
// Pure functions decide which load is safe (limit.go). The package prints nothing. `spate calibrate` calls it.
package calibration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/local"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config says what is measured.
type Config struct {
	// Endpoints are those of a simulator that stamps its frames with the truth.
	Endpoints []string
	// Streams and Starts are the loads, in rising order.
	Streams []int
	Starts  []float64
	// All measures all loads. Otherwise each kind ends with the first load that is not safe in two attempts.
	All bool
	// Window is how long each load is measured.
	Window time.Duration
	// Rules say which load is safe.
	Rules Rules
	// OnMeasured is called for each attempt to measure a load. It may not be nil.
	OnMeasured func(*Row)
}

// Validate returns everything that is wrong with the configuration, as one joined error.
func (c *Config) Validate() error {
	errs := []error{
		reason.If(c.Window < 500*time.Millisecond || c.Window > 10*time.Minute, "duration: %v: want 500ms to 10m",
			c.Window),
		reason.If(len(c.Streams)+len(c.Starts) == 0, "no load: give streams or starts"),
	}
	for i, n := range c.Streams {
		before := c.Streams[max(0, i-1)]
		errs = append(errs, reason.If(n < 1, "streams: %d: want at least 1", n),
			reason.If(i > 0 && n <= before, "streams: %d after %d: want rising numbers", n, before))
	}
	for i, n := range c.Starts {
		before := c.Starts[max(0, i-1)]
		errs = append(errs, reason.If(!(n > 0 && n <= 1e6), "starts: %v: want more than 0 and at most 1,000,000", n),
			reason.If(i > 0 && n <= before, "starts: %v after %v: want rising numbers", n, before))
	}
	return errors.Join(errs...)
}

// calibrator measures one load after another. Measure makes it.
type calibrator struct {
	Config
	gauge *gauge
	runs  spatev1.RunServiceClient
}

// Measure measures the loads of streams and those of starts. It blocks until that is done or ctx ends; then it also
// returns what was measured so far. A load that is not safe is measured once more, and the second row counts.
func Measure(ctx context.Context, config Config) (streams, starts []Row, err error) {
	if err := config.Validate(); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "spate-calibrate-")
	if err != nil {
		return nil, nil, fmt.Errorf("a directory for the runs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := &calibrator{Config: config, gauge: newGauge(runtime.GOMAXPROCS(0))}
	quiet := slog.New(slog.DiscardHandler)
	made, err := coordinator.New(coordinator.Config{Name: "calibration", DataDir: dir, Logger: quiet})
	if err != nil {
		return nil, nil, err
	}
	cluster, err := local.Start(made, []agent.Config{{Name: "calibration", NewWatch: c.gauge.watch, Logger: quiet}}, quiet)
	if err != nil {
		return nil, nil, err
	}
	defer cluster.Close()
	c.runs = spatev1.NewRunServiceClient(cluster.Conn())
	loads := lists.Each(c.Streams, func(n int) Load { return Load{Streams: n} })
	rates := lists.Each(c.Starts, func(n float64) Load { return Load{Starts: n} })
	if streams, err = c.ladder(ctx, loads); err == nil {
		starts, err = c.ladder(ctx, rates)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return streams, starts, err
}

// ladder measures rising loads.
func (c *calibrator) ladder(ctx context.Context, loads []Load) ([]Row, error) {
	var rows []Row
	for _, load := range loads {
		row, err := c.measure(ctx, load)
		if err == nil && !row.Safe() {
			row, err = c.measure(ctx, load) // a neighbour's noise breaks rules, too
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
		if !row.Safe() && !c.All {
			break
		}
	}
	return rows, nil
}

// measure puts the agent under a load and measures it for a window, once the load is complete and has settled.
func (c *calibrator) measure(ctx context.Context, load Load) (Row, error) {
	row := Row{Load: load, Asked: load.asked()}
	before := load.ramp() + settleTime
	failure, err := c.play(ctx, load.plan(c.Endpoints, before+c.Window), func() error {
		if !clock.Sleep(ctx, before) {
			return context.Cause(ctx)
		}
		_ = c.gauge.read() // what was before the window
		at, cpu := clock.Now(), clock.CPU()
		if !clock.Sleep(ctx, c.Window) {
			return context.Cause(ctx)
		}
		row.Reading, row.Window = c.gauge.read(), clock.Now().Sub(at)
		row.CPU = (clock.CPU() - cpu).Seconds() / row.Window.Seconds()
		return nil
	})
	if err != nil {
		return row, fmt.Errorf("%s: %w", load, err)
	}
	c.Rules.judge(&row, runtime.GOMAXPROCS(0), failure)
	c.OnMeasured(&row)
	return row, nil
}

// play runs a plan. It calls during when the load is about to start, and returns why the run ended early, or "".
func (c *calibrator) play(ctx context.Context, plan string, during func() error) (failure string, err error) {
	submitted, err := c.runs.SubmitRun(ctx, &spatev1.SubmitRunRequest{PlanYaml: []byte(plan), PlanPath: "calibration",
		MinAgents: 1, AgentsTimeout: durationpb.New(30 * time.Second)})
	if err != nil {
		return "", err
	}
	events, err := c.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: submitted.GetRunId()})
	for err == nil {
		var e *spatev1.FollowRunResponse
		if e, err = events.Recv(); err != nil {
			break
		}
		if end := e.GetEvent().GetRunEnded(); end != nil {
			return end.GetReason(), nil
		}
		if e.GetEvent().GetStageStarted() != nil {
			err = during()
		}
	}
	return "", err
}
