package labcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/internal/calibration"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/words"
)

// calibrateFlags are the flags of `spate calibrate`.
type calibrateFlags struct {
	_        struct{}      `typed:"only"`
	Streams  []int         `flag:"streams" help:"closed loop: numbers of <streams> to measure, rising (default: from 100 to what is safe)"`
	Starts   []float64     `flag:"starts" help:"open loop: rates of short <requests> to measure, rising (default: from 500 to what is safe)"`
	Duration time.Duration `flag:"duration" default:"4s" help:"how long each load is measured, once all streams have started"`
	Step     time.Duration `flag:"step" default:"20ms" help:"time between two tokens of a stream"`
	Spread   bool          `flag:"spread" help:"streams tick one after another (default: all at once, as engines that batch send)"`
	Quick    bool          `flag:"quick" help:"a few loads, 1.5 s each: a rough result in about 20 s"`
	Cores    int           `flag:"cores" help:"<cores> for the agent; the simulator gets the others (default: half, or fewer if the simulator needs more)"`
	Budget   time.Duration `flag:"budget" help:"largest p99 error of timestamps at which a load is safe"`
	Late     time.Duration `flag:"late" help:"largest p99 of the lateness of starts at which a load is safe"`
	JSON     string        `flag:"json" help:"write all that was measured to this <file>"`
	Out      string        `flag:"out" help:"<file> for the limit; agents read the default one"`
	NoKeep   bool          `flag:"no-keep" help:"do not store the limit"`
	version  string
}

// Loads that are tried by default.
var (
	allStreams = []int{100, 250, 500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000, 16000, 19000, 24000, 32000,
		48000, 64000}
	quickStreams = []int{50, 250, 1000}
	allStarts    = []float64{500, 1000, 2000, 4000, 6000, 8000, 10000, 15000, 20000, 30000, 50000, 75000, 100000}
	quickStarts  = []float64{500, 2000}
)

// mostTime is how long all loads but the last may take. A machine with many cores takes more loads, on more than one
// split of its cores.
func mostTime(splits int) time.Duration { return time.Duration(splits) * 110 * time.Second }

// NewCalibrate makes `spate calibrate`. version is the program's.
func NewCalibrate(version string) *cobra.Command {
	f := &calibrateFlags{version: version, Budget: calibration.DefaultError, Late: calibration.DefaultLateness,
		Out: host.CapacityPath()}
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Find out how exact this machine's agent is, and up to which load",
		Long: `Run this machine's agent against the simulator, each in its own process and on its own cores, at
rising load, and compare every time that the agent takes with the truth that the simulator puts
into its frames. The agent gets half of the cores; if the simulator is at its limit first, it gets
more, and the agent fewer. The command prints the errors of TTFT, ITL and E2E by the kernel's
receive timestamps, which results are made of, beside those by the program's own clock, and the
highest load at which this machine is exact. This limit is stored, and agents with such a limit
split loads by it. It takes about two minutes on two cores, and up to two more each time that the
simulator gets more cores; nothing leaves loopback.

A load is safe if the error of the timestamps is within --budget at p99, at most 0.1 % of frames
were read together with the previous one, at least 99 % of the load was reached, and starts are late
by at most --late at p99. A load that is not safe is tried once more. If none is safe, the exit
code is 3.`,
		Example: `  spate calibrate
  spate calibrate --quick
  spate calibrate --spread --streams 500,1000,2000 --starts 4000 --json calibration.json
  spate calibrate --cores 3 --out capacity.json`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	command.Declare(cmd.Flags(), f)
	cmd.AddCommand(newCalibrated("agent", func(in io.Reader, out, errs io.Writer) error {
		return calibration.ServeAgent(in, out, errs, version)
	}), newCalibrated("simulator", func(in io.Reader, out,
		_ io.Writer) error {
		return calibration.ServeSimulator(in, out)
	}))
	return cmd
}

// newCalibrated makes the command of a process that `spate calibrate` starts. The process ends with its input. It
// ignores Ctrl-C: its parent, which also receives Ctrl-C, ends it.
func newCalibrated(name string, serve func(in io.Reader, out, errs io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, Args: cobra.NoArgs, Short: "A process of spate calibrate",
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt)
			return serve(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

func (f *calibrateFlags) run(cmd *cobra.Command) error {
	config, err := f.config(cmd)
	if err != nil {
		return command.BadInput(err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := newCalibrationProgress(cmd.ErrOrStderr(), len(config.Streams)+len(config.Starts), config.Window)
	defer p.close()
	sheet := &calibrationSheet{Machine: host.ThisMachine(f.version), Step: config.Step,
		Spread: config.Spread, Rules: config.Rules}
	config.OnSplit = func(cores calibration.Cores) {
		again := sheet.Cores.Total > 0
		sheet.Cores = cores
		p.say(sheet.headline(again))
	}
	config.OnStart = p.began
	config.OnMeasured = func(r calibration.Row) { p.measured(&r); sheet.Rows = append(sheet.Rows, r) }
	began := time.Now()
	limit, err := calibration.Calibrate(ctx, config)
	p.close()
	sheet.Took, sheet.Limit = time.Since(began), limit
	if ctx.Err() != nil {
		return command.Exit(command.ExitStopped, errors.Join(errors.New("stopped: no limit was stored"),
			sheet.writeTables(cmd.OutOrStdout())))
	}
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	return f.conclude(cmd, sheet)
}

// conclude prints and saves what was found.
func (f *calibrateFlags) conclude(cmd *cobra.Command, sheet *calibrationSheet) error {
	if err := sheet.writeTables(cmd.OutOrStdout()); err != nil {
		return err
	}
	if err := sheet.writeLimit(cmd.OutOrStdout()); err != nil {
		return err
	}
	if f.JSON != "" {
		if err := sheet.writeJSON(f.JSON); err != nil {
			return err
		}
	}
	if sheet.Limit.Streams == 0 && sheet.Limit.StartsPerSecond == 0 {
		return command.Exit(command.ExitFailed, errors.New("no load was safe: no limit was stored"))
	}
	if f.NoKeep {
		return nil
	}
	if err := host.WriteCapacity(f.Out, sheet.capacity()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Stored in %s\n", f.Out)
	return err
}

// config returns the configuration that the flags ask for. It checks that the machine has room for it.
func (f *calibrateFlags) config(cmd *cobra.Command) (calibration.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return calibration.Config{}, fmt.Errorf("cannot find the program's own file: %w", err)
	}
	c := calibration.Config{
		Agent: []string{self, "calibrate", "agent"}, Simulator: []string{self, "calibrate", "simulator"},
		Cores: f.Cores, Step: f.Step, Spread: f.Spread, Streams: f.Streams, Starts: f.Starts, Window: f.Duration,
		Rules: calibration.Rules{Error: f.Budget, Lateness: f.Late},
	}
	c.MeasureAll = len(c.Streams)+len(c.Starts) > 0
	if f.Quick && !command.Typed(cmd.Flags(), "duration") {
		c.Window = 1500 * time.Millisecond
	}
	switch {
	case c.MeasureAll:
	case f.Quick:
		c.Streams, c.Starts = quickStreams, quickStarts
	default:
		c.Streams, c.Starts = allStreams, allStarts
	}
	splits, err := c.Splits()
	if err := errors.Join(err, c.Validate()); err != nil {
		return c, err
	}
	if !c.MeasureAll {
		c.MaxDuration = mostTime(len(splits))
	}
	return c, f.fit(cmd, &c)
}

// fit drops loads that the machine has no room for, with a message. If the loads were given by flags, it fails instead.
func (f *calibrateFlags) fit(cmd *cobra.Command, c *calibration.Config) error {
	for i, n := range c.Streams {
		err := calibration.MakeRoom(n)
		switch {
		case err == nil:
		case c.MeasureAll || i == 0:
			return err
		default:
			fmt.Fprintf(
				cmd.ErrOrStderr(),
				"No more than %s are tried: %v\n",
				words.Count(uint64(c.Streams[i-1]), "stream"),
				err,
			)
			c.Streams = c.Streams[:i]
			return nil
		}
	}
	return nil
}
