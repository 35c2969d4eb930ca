package calibration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spate-load/spate/clock"
)

// Config says what is measured.
type Config struct {
	// Agent and Simulator are the commands of the two processes: programs that call ServeAgent and ServeSimulator.
	Agent, Simulator []string
	// Cores is the number of cores for the agent alone; the simulator gets the rest. 0: half of them and, if the
	// simulator is then at its limit first, fewer.
	Cores int
	// Step is the time between two tokens of a stream.
	Step time.Duration
	// Spread makes streams tick one after another. Otherwise all tick at once, as in an engine that batches.
	Spread bool
	// Streams and Starts are the loads, in rising order.
	Streams []int
	Starts  []float64
	// MeasureAll measures all loads. Otherwise each kind ends with the first load that is not safe in two attempts.
	MeasureAll bool
	// Window is how long each load is measured.
	Window time.Duration
	// MaxDuration bounds the whole duration: no load starts later. 0: no bound.
	MaxDuration time.Duration
	// Rules say which load is safe.
	Rules Rules
	// OnSplit is called when the processes start on their cores, OnStart when a load starts, with the time until its
	// measurement starts, and OnMeasured when it has been measured. None may be nil.
	OnSplit    func(Cores)
	OnStart    func(Load, time.Duration)
	OnMeasured func(Row)
}

// Validate returns everything that is wrong with the configuration, as one joined error.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(c.Cores < 0, "cores: %d: want at least 1", c.Cores)
	wrong(c.Step < time.Millisecond || c.Step > time.Second, "step: %v: want 1ms to 1s", c.Step)
	wrong(c.Window < 500*time.Millisecond || c.Window > 10*time.Minute, "duration: %v: want 500ms to 10m", c.Window)
	wrong(c.Window < 20*c.Step, "duration: %v: want at least 20 steps of %v", c.Window, c.Step)
	wrong(c.Rules.Error <= 0 || c.Rules.Lateness <= 0, "budget: want more than 0")
	wrong(len(c.Streams)+len(c.Starts) == 0, "no load: give streams or starts")
	for i, n := range c.Streams {
		wrong(n < 1, "streams: %d: want at least 1", n)
		wrong(i > 0 && n <= c.Streams[i-1], "streams: %d after %d: want rising numbers", n, c.Streams[max(0, i-1)])
	}
	for i, n := range c.Starts {
		wrong(!(n > 0 && n <= 1e6), "starts: %v: want more than 0 and at most 1,000,000", n)
		wrong(i > 0 && n <= c.Starts[i-1], "starts: %v after %v: want rising numbers", n, c.Starts[max(0, i-1)])
	}
	return errors.Join(errs...)
}

// calibrator measures one load after another. Calibrate makes it.
type calibrator struct {
	config    Config
	cores     Cores
	agent     *process
	simulator *process
	dir       string // of the runs, and the agent's socket
	where     endpoints
	cluster   *cluster
	deadline  clock.Instant // no load starts later; 0: no bound
}

// Calibrate measures the loads of a configuration and finds the limit. It blocks until that is done or ctx ends; then
// it returns the cause of ctx, and the limit of the rows measured so far. It calls OnMeasured for each row. No process
// is left behind.
func Calibrate(ctx context.Context, config Config) (Limit, error) {
	if err := config.Validate(); err != nil {
		return Limit{}, err
	}
	splits, err := config.Splits()
	if err != nil {
		return Limit{}, err
	}
	c := &calibrator{config: config}
	if config.MaxDuration > 0 {
		c.deadline = clock.Now().Add(config.MaxDuration)
	}
	defer c.close()
	var rows []Row
	for _, cores := range splits {
		rows, err = c.streams(ctx, cores)
		if l := limitOf(rows); err != nil || !l.simulatorFirst() || c.late() {
			break
		}
	}
	if err == nil {
		var starts []Row
		starts, err = c.ladder(ctx, c.config.starts())
		rows = append(rows, starts...)
	}
	l := limitOf(rows)
	l.Cores = c.cores
	return l, stoppedOr(ctx, err)
}

// streams starts the processes on their cores and measures the loads of streams.
func (c *calibrator) streams(ctx context.Context, cores Cores) ([]Row, error) {
	c.close()
	c.cores = cores
	c.config.OnSplit(cores)
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c.ladder(ctx, c.config.streams())
}

// streams returns the loads of streams.
func (c *Config) streams() (loads []Load) {
	for _, n := range c.Streams {
		loads = append(loads, Load{Streams: n})
	}
	return loads
}

// starts returns the loads of starts.
func (c *Config) starts() (loads []Load) {
	for _, n := range c.Starts {
		loads = append(loads, Load{Starts: n})
	}
	return loads
}

// stoppedOr returns the cause of ctx if err is not nil and ctx has ended, and else err.
func stoppedOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// start starts the processes. The agent connects by itself.
func (c *calibrator) start(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp("", "spate-calibrate-"); err != nil {
		return fmt.Errorf("a directory for the runs: %w", err)
	}
	setup := simulatorSetup{Step: c.config.Step, Spread: c.config.Spread, Endpoints: 1}
	if n := len(c.config.Streams); n > 0 {
		setup.Endpoints = machineRoom().endpoints(c.config.Streams[n-1])
	}
	if c.simulator, err = launch(ctx, "simulator", c.config.Simulator, c.cores.Simulator, setup, &c.where); err != nil {
		return err
	}
	socket := filepath.Join(c.dir, "coordinator.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("the agent's socket: %w", err)
	}
	if c.cluster, err = serveCluster(listener, "unix:"+socket, filepath.Join(c.dir, "runs")); err != nil {
		return err
	}
	c.agent, err = launch(ctx, "agent", c.config.Agent, c.cores.Agent, agentSetup{Coordinator: "unix:" + socket},
		&struct{}{})
	return err
}

// close ends what start started. It may be called more than once.
func (c *calibrator) close() {
	if c.agent != nil {
		c.agent.stop()
	}
	if c.cluster != nil {
		_ = c.cluster.close() // what was measured is known
	}
	if c.simulator != nil {
		c.simulator.stop()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
	c.agent, c.cluster, c.simulator, c.dir = nil, nil, nil, ""
}

// late reports whether no further load may start.
func (c *calibrator) late() bool { return c.deadline != 0 && clock.Now() > c.deadline }

// ladder measures rising loads. It repeats a load that is not safe once, and ends if the load is not safe again.
func (c *calibrator) ladder(ctx context.Context, loads []Load) ([]Row, error) {
	var rows []Row
	for _, load := range loads {
		for try := 1; try <= 2; try++ {
			if c.late() && len(rows) > 0 {
				return rows, nil
			}
			row, err := c.measure(ctx, load)
			if err != nil {
				return rows, fmt.Errorf("%s: %w", load, err)
			}
			rows = append(rows, row)
			if row.Safe() || c.config.MeasureAll {
				break
			}
			if try == 2 {
				return rows, nil
			}
		}
	}
	return rows, nil
}

// String names a load for people.
func (l Load) String() string {
	if l.Streams > 0 {
		return fmt.Sprintf("%d streams", l.Streams)
	}
	return fmt.Sprintf("%g starts/s", l.Starts)
}

// measure puts the agent under a load and measures it for a window, once the load is complete and has settled.
func (c *calibrator) measure(ctx context.Context, load Load) (Row, error) {
	before := load.ramp() + settleTime
	c.config.OnStart(load, leadTime+before)
	start, err := c.cluster.startLoad(ctx, load.plan(c.where, c.config.Step, before+c.config.Window))
	if err != nil {
		return Row{}, err
	}
	row, err := c.window(ctx, load, start.Add(before))
	if err != nil {
		return Row{}, err
	}
	failure, err := c.cluster.stopLoad(ctx)
	switch {
	case err != nil:
		return Row{}, err
	case failure != "":
		return Row{}, errors.New(failure)
	case row.WithoutTruth > 0:
		return Row{}, fmt.Errorf("%d frames came without the simulator's send time", row.WithoutTruth)
	}
	c.config.OnMeasured(row)
	return row, nil
}

// window measures a load from an instant on.
func (c *calibrator) window(ctx context.Context, load Load, from clock.Instant) (Row, error) {
	if !clock.SleepUntil(ctx, from) {
		return Row{}, context.Cause(ctx)
	}
	_, agent, simulator, err := c.read()
	if err != nil {
		return Row{}, err
	}
	all, known := machineCPU()
	if !clock.Sleep(ctx, c.config.Window) {
		return Row{}, context.Cause(ctx)
	}
	reading, agentNow, simulatorNow, err := c.read()
	if err != nil {
		return Row{}, err
	}
	allNow, _ := machineCPU()
	row := Row{
		Load: load, Asked: load.asked(c.config.Step), Reading: reading, Window: agentNow.At.Sub(agent.At),
		AgentCPU: agentNow.cores(agent), SimulatorCPU: simulatorNow.cores(simulator),
	}
	if known {
		other := max(0, allNow.cores(all)-row.AgentCPU-row.SimulatorCPU)
		row.OtherCPU = &other
	}
	events := reading.Frames
	if load.Streams == 0 {
		events = reading.Completed
	}
	row.Achieved = float64(events) / row.Window.Seconds()
	row.AgentCores, row.SimulatorCores = c.cores.counts()
	c.config.Rules.judge(&row)
	return row, nil
}

// read reads both processes.
func (c *calibrator) read() (Reading, Usage, Usage, error) {
	var seen observed
	var used Usage
	err := errors.Join(c.agent.ask(struct{}{}, &seen), c.simulator.ask(struct{}{}, &used))
	return seen.Reading, seen.Usage, used, err
}
