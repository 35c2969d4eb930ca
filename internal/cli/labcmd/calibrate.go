package labcmd

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/internal/calibration"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/runcmd"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// calibrateFlags are the flags of `spate calibrate`.
type calibrateFlags struct {
	_        struct{}      `typed:"only"`
	Streams  []int         `flag:"streams" help:"closed loop: numbers of <streams> to measure, rising (default: from 100 to what is safe)"`
	Starts   []float64     `flag:"starts" help:"open loop: rates of short <requests> to measure, rising (default: from 500 to what is safe)"`
	Duration time.Duration `flag:"duration" default:"4s" help:"how long each load is measured, once all streams have started"`
	Quick    bool          `flag:"quick" help:"a few loads, 1.5 s each: a rough result in about 20 s"`
	Cores    int           `flag:"cores" help:"<cores> for the agent; the simulator gets the others (default: half)"`
	On       []string      `flag:"on" commas:"kept" help:"<[USER@]HOST,...> to calibrate instead of this machine, by ssh, as run has it; may be repeated"`
	Out      string        `rare:"yes" flag:"out" help:"<file> for the limit; agents read the default one"`
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

// streamsPerEndpoint is for how many streams the simulator has an endpoint: each has its own range of ports, of some
// 28,000 on Linux, and Linux searches long for the last of them.
const streamsPerEndpoint = 12_000

// NewCalibrate makes `spate calibrate`. version is the program's.
func NewCalibrate(version string) *cobra.Command {
	f := &calibrateFlags{version: version, Out: host.CapacityPath()}
	return manual.New("calibrate", cobra.NoArgs, f.run, f)
}

func (f *calibrateFlags) run(cmd *cobra.Command, _ []string) error {
	config, err := f.config(command.Typed(cmd.Flags(), "duration"))
	if err != nil {
		return command.BadInput(err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(f.On) > 0 {
		return f.onHosts(ctx, cmd)
	}
	s := &sheet{Machine: host.ThisMachine(f.version), Cores: f.Cores}
	s.Streams, s.Starts, err = f.measure(ctx, config, cmd.ErrOrStderr())
	if ctx.Err() != nil {
		return command.Exit(command.ExitStopped, errors.Join(errors.New("stopped: no limit was stored"),
			s.writeLoads(cmd.OutOrStdout())))
	}
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	return f.conclude(cmd.OutOrStdout(), s)
}

// limit matches what conclude prints of a limit.
var limit = regexp.MustCompile(`(?m)^  (\S+( \S+)*)$`)

// onHosts calibrates hosts, and prints a row for each.
func (f *calibrateFlags) onHosts(ctx context.Context, cmd *cobra.Command) error {
	if command.Typed(cmd.Flags(), "out") {
		return command.BadInputf("--out does not go with --on: each host keeps its limit where its agents read it")
	}
	args, failed := []string{"calibrate"}, 0
	for _, name := range []string{"streams", "starts", "duration", "quick", "cores"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			args = append(args, "--"+name+"="+strings.Trim(flag.Value.String(), "[]"))
		}
	}
	t := table.New(table.Words("HOST", "REGION", "EXACT UP TO"))
	err := runcmd.OnEach(ctx, f.On, f.version, cmd.ErrOrStderr(), args, func(host, region, printed string, err error) {
		text := strings.Join(limit.FindAllString(printed, -1), ";")
		if err != nil {
			failed, text = failed+1, err.Error()
		}
		t.Add(host, cmp.Or(region, table.Unknown), strings.TrimSpace(text))
	})
	if err == nil {
		err = t.Write(cmd.OutOrStdout(), 0)
	}
	if err == nil && failed > 0 {
		err = command.Exit(command.ExitFailed, fmt.Errorf("%s not calibrated", words.Count(uint64(failed), "host")))
	}
	return err
}

// measure measures the loads, and says on errs what it found.
func (f *calibrateFlags) measure(
	ctx context.Context, config calibration.Config, errs io.Writer,
) (streams, starts []calibration.Row, err error) {
	total, most := runtime.GOMAXPROCS(0), slices.Max(append(config.Streams, 0))
	urls, end, err := f.simulate(ctx, max(1, total-f.Cores), 1+most/streamsPerEndpoint)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	runtime.GOMAXPROCS(f.Cores)
	host.CollectLess(25)                                       // as commands that run agents do
	_ = host.RealtimeAuto.Apply(slog.New(slog.DiscardHandler)) // auto: no error
	fmt.Fprintf(errs, "Calibrating: the agent has %d of %s; a frame each %v\n", f.Cores,
		words.Count(uint64(total), "core"), calibration.Step)
	config.Endpoints, config.OnMeasured = urls, func(r *calibration.Row) {
		fmt.Fprintf(errs, "%16s  %s/s, error p99 %s us%s\n", r.Load, words.Whole(r.Achieved),
			micros(r.Frame, r.Frame.P99), strings.Join(append([]string{""}, r.BrokenRules...), "; "))
	}
	return calibration.Measure(ctx, config)
}

// config returns the configuration that the flags ask for. timed says that the duration was given.
func (f *calibrateFlags) config(timed bool) (calibration.Config, error) {
	c := calibration.Config{Streams: f.Streams, Starts: f.Starts, Window: f.Duration, Rules: calibration.DefaultRules,
		All: len(f.Streams)+len(f.Starts) > 0}
	if f.Quick && !timed {
		c.Window = 1500 * time.Millisecond
	}
	switch {
	case c.All:
	case f.Quick:
		c.Streams, c.Starts = quickStreams, quickStarts
	default:
		c.Streams, c.Starts = allStreams, allStarts
	}
	var wrong error
	total := runtime.GOMAXPROCS(0)
	if f.Cores < 0 || f.Cores >= max(2, total) && len(f.On) == 0 { // hosts know theirs
		wrong = fmt.Errorf("cores: %d: want at least 1, and one less than the %d that this process may use", f.Cores, total)
	}
	f.Cores = cmp.Or(f.Cores, max(1, total/2))
	return c, errors.Join(wrong, c.Validate())
}

// simulate starts the simulator, a process of this program, on a number of cores. The simulator ends with this process,
// however that ends.
func (f *calibrateFlags) simulate(ctx context.Context, cores, endpoints int) (urls []string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot find the program's own file: %w", err)
	}
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self, "simulate", "--until-input-ends", "--truth", "--ttft=0s",
		"--itl="+calibration.Step.String(), "--ticks", "--listen="+strings.Repeat(",127.0.0.1:0", endpoints)[1:])
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", cores))
	var said bytes.Buffer
	cmd.Stderr = &said
	_, err1 := cmd.StdinPipe() // closed by Wait
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		kill()
		return nil, nil, fmt.Errorf("simulator: %w", err)
	}
	end = func() {
		kill()
		_ = cmd.Wait() // it was killed
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("the simulator has ended: %s", strings.TrimSpace(said.String()))
	}
	return regexp.MustCompile(`http://[\d.:]+`).FindAllString(line, -1), end, nil
}

// conclude prints and saves what was found.
func (f *calibrateFlags) conclude(w io.Writer, s *sheet) error {
	if err := errors.Join(s.writeLoads(w), s.writeLimits(w)); err != nil {
		return err
	}
	streams, starts := calibration.LimitOf(s.Streams).Best, calibration.LimitOf(s.Starts).Best
	if streams.Streams == 0 && starts.Starts == 0 {
		return command.Exit(command.ExitFailed, errors.New("no load was safe: no limit was stored. If few "+
			"CORES were used, other programs disturbed the agent: stop them and try again"))
	}
	err := host.WriteCapacity(f.Out, &host.Capacity{Streams: streams.Streams, FramesPerSecond: streams.Achieved,
		StartsPerSecond: starts.Starts, MeasuredAt: time.Now().UTC().Truncate(time.Second), Machine: s.Machine})
	if err == nil {
		_, err = fmt.Fprintf(w, "Stored in %s\n", f.Out)
	}
	return err
}

// sheet is everything that a calibration found.
type sheet struct {
	Machine         host.Machine
	Cores           int // of the agent
	Streams, Starts []calibration.Row
}

// writeLoads prints what was measured at each load.
func (s *sheet) writeLoads(w io.Writer) error {
	t := table.New(table.Numbers("LOAD", "DONE/S", "CORES", "LAG p99", "LATE p99", "COALESCED", "TTFT p50/p99",
		"ITL p50/p99", "E2E p50/p99", "SAFE"))
	for _, r := range slices.Concat(s.Streams, s.Starts) {
		late, safe := table.Unknown, "yes"
		if r.Starts > 0 {
			late = micros(r.Lateness, r.Lateness.P99)
		}
		if !r.Safe() {
			safe = "no"
		}
		t.Add(r.String(), words.Whole(r.Achieved), fmt.Sprintf("%.2f/%d", r.CPU, s.Cores), micros(r.Lag, r.Lag.P99),
			late, fmt.Sprintf("%.2f %%", 100*r.Share(r.Coalesced)),
			micros(r.TTFT, r.TTFT.P50, r.TTFT.P99), micros(r.ITL, r.ITL.P50, r.ITL.P99),
			micros(r.E2E, r.E2E.P50, r.E2E.P99), safe)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "\nTimes, and their errors against the truth, in microseconds")
	return errors.Join(err, t.Write(w, 0))
}

// micros formats values of a spread, which are nanoseconds, as microseconds, with one decimal below 100. An empty
// spread has none.
func micros(of calibration.Spread, values ...int64) string {
	var texts []string
	for _, ns := range values {
		text := words.Whole(float64(ns) / 1000)
		if ns < 99_950 {
			text = fmt.Sprintf("%.1f", float64(ns)/1000)
		}
		texts = append(texts, text)
	}
	if of.Count == 0 {
		return table.Unknown
	}
	return strings.Join(texts, "/")
}

// writeLimits prints the limits, and what limited them.
func (s *sheet) writeLimits(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "\nThis machine is exact (error p99 within %v, lateness p99 within %v) up to\n",
		calibration.DefaultRules.Error, calibration.DefaultRules.Lateness)
	for _, rows := range [][]calibration.Row{s.Streams, s.Starts} {
		l, text := calibration.LimitOf(rows), "none of these loads"
		switch {
		case len(rows) == 0:
			continue
		case l.Best.Streams > 0:
			text = fmt.Sprintf("%s, %s frames/s", l.Best, words.Whole(l.Best.Achieved))
		case l.Best.Starts > 0:
			text = l.Best.String()
		}
		if l.AtLeast {
			text = "at least " + text
		}
		b.WriteString("  " + text + "\n")
		if l.Above != "" {
			b.WriteString("    above: " + strings.Join(words.Wrap(l.Above, 93), "\n           ") + "\n")
		}
	}
	_, err := fmt.Fprintf(w, "%swith %s for the agent.\n", b, words.Count(uint64(s.Cores), "core"))
	return err
}
