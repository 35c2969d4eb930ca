package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/cmd/internal/settings"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/simulator"
)

// runFlags are the flags of `spate run`.
type runFlags struct {
	coordinator   string
	plaintext     bool
	tls           settings.TLS
	agents        int
	minAgents     uint32
	agentsTimeout time.Duration
	out           string
	records       string
	noProgress    bool
	logLevel      string
	quick         quickFlags
	source        sourceFlags
	influx        settings.Influx

	simulates bool // the plan asks for simulators, which run in this process
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [PLAN.yaml]",
		Short: "Run a plan, or a test made from flags, and report its results",
		Long: `Run a plan on this machine with embedded agents, or on a coordinator and its agents with --coordinator. PLAN.yaml is a file, "-" for
standard input, or the name of a plan that ships with Spate ("spate plans" lists them). Without a plan, --target and the flags below it make one; the
plan they made is printed and kept in the run directory.

While the run goes on its progress is shown; at the end the tables of results and the run directory. The first Ctrl-C stops starting
requests and waits for those in flight; the second cancels them. Either way what was measured is kept, and marked as partial.

` + exitHelp,
		Example: `  spate run quickstart
  spate run plan.yaml --out results/today
  spate run plan.yaml --simulate=20
  spate run deepseek-r1-h20 --set targets.vllm.endpoints=http://10.0.0.5:8000 --set targets.dynamo-1p1d.endpoints=http://10.0.0.6:8000
  spate run --target http://10.0.0.5:8000 --model Qwen/Qwen3-32B --concurrency 1,2,4 --isl 3000 --osl 150
  spate run --coordinator 127.0.0.1:7700 --min-agents 3 plan.yaml`,
		Args: arguments(onePlan),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	where, results := group("Where it runs"), group("What is kept and shown")
	flags := where.flags
	flags.StringVar(&f.coordinator, "coordinator", "", "run on the coordinator at this `host:port` instead of on embedded agents")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false, "with --coordinator: send plan and API keys to another machine without encryption: only on a network you trust")
	f.tls.AddFlags(flags)
	flags.IntVar(&f.agents, "agents", 2, "number of embedded agents")
	flags.Uint32Var(&f.minAgents, "min-agents", 1, "with --coordinator: agents to wait for before the plan is split")
	flags.DurationVar(&f.agentsTimeout, "agents-timeout", time.Minute, "with --coordinator: how long to wait for them")
	flags = results.flags
	flags.StringVar(&f.out, "out", "", "run `directory` to make (default: runs/RUN-ID)")
	flags.StringVar(&f.records, "records", "parquet", "keep one row for each request: parquet, jsonl or none")
	flags.BoolVar(&f.noProgress, "no-progress", false, "print neither progress nor tables, only the run directory and what is wrong")
	flags.StringVar(&f.logLevel, "log-level", "warn", "what the embedded coordinator and agents log to standard error: debug, info, warn or error")
	quick, influx := group("A plan from flags"), group("Live results in InfluxDB")
	changes := group("Changes to the plan")
	f.quick.add(quick.flags)
	f.source.add(changes.flags)
	f.influx.AddFlags(influx.flags)
	setGroups(cmd, changes, quick, where, results, influx)
	return cmd
}

// onePlan takes one plan at most.
func onePlan(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return fmt.Errorf("one plan at a time, got %s%s", strings.Join(args, " "), numberHint(args[len(args)-1]))
}

// run is the whole command: check everything, then start things, then follow, then report.
func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	plan, err := f.plan(cmd, args)
	if err := errors.Join(err, f.check(cmd)); err != nil {
		return badInput(err)
	}
	secrets, err := plan.Secrets(plans.SystemLookup)
	if err != nil {
		return badInput(err)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	resources, err := gather(ctx, plan, settings.DatasetDir(), cmd.ErrOrStderr(), f.noProgress)
	if err != nil {
		return badInput(err)
	}
	if err := preflight(ctx, plan, withRows(plan, resources), secrets); err != nil {
		return badInput(err)
	}

	f.simulates = len(plan.Simulated()) > 0
	backend, err := f.backend(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer backend.close()
	simulated, stopSimulators, err := f.simulate(ctx, plan, backend)
	if err != nil {
		return err
	}
	defer stopSimulators()

	client := spatev1.NewRunServiceClient(backend.conn)
	if err := handOver(ctx, client, settings.DatasetDir(), resources.Datasets); err != nil {
		return err
	}
	submitted, err := client.SubmitRun(ctx, &spatev1.SubmitRunRequest{
		PlanYaml: plan.Source(), PlanPath: plan.Path(), Secrets: secrets, Simulated: simulated, Records: f.recordsKept(),
		Datasets: resources.Datasets, Lexicons: resources.Lexicons,
		MinAgents: backend.minAgents, AgentsTimeout: durationpb.New(f.agentsTimeout),
	})
	if err != nil {
		return submitError(f.coordinator, err)
	}
	ended, err := f.follow(ctx, cmd, plan, client, submitted.GetRunId())
	if err != nil {
		return err
	}
	dir, result, err := f.keep(ctx, client, submitted.GetRunId())
	if err != nil {
		return err
	}
	return f.conclude(cmd, dir, result, ended)
}

// plan reads the plan that was named, or makes one from flags and prints it.
func (f *runFlags) plan(cmd *cobra.Command, args []string) (*plans.Plan, error) {
	switch {
	case len(args) == 1 && f.quick.used(cmd.Flags()):
		return nil, errors.New("a plan file and flags that make a plan (--target and so on) do not go together: put them into the plan")
	case len(args) == 1:
		return f.source.read(cmd.InOrStdin(), args[0])
	case len(f.quick.targets) == 0:
		return nil, fmt.Errorf("nothing to run: name a plan or give --target URL\nsee: %s --help", cmd.CommandPath())
	}
	text, err := f.quick.yaml()
	if err != nil {
		return nil, err
	}
	if !f.noProgress {
		fmt.Fprintf(cmd.OutOrStdout(), "# The plan made from the flags:\n%s\n", text)
	}
	return f.source.load("<flags>", text)
}

// check finds all mistakes in the flags that are no matter of the plan.
func (f *runFlags) check(cmd *cobra.Command) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!slices.Contains([]string{"parquet", "jsonl", "none"}, f.records), "--records %q: want parquet, jsonl or none", f.records)
	wrong(f.agents < 1 || f.agents > 1000, "--agents %d: want 1 to 1000", f.agents)
	wrong(f.minAgents < 1, "--min-agents %d: want at least 1", f.minAgents)
	wrong(f.agentsTimeout <= 0, "--agents-timeout %v: want more than 0", f.agentsTimeout)
	entries, _ := os.ReadDir(f.out) // a directory that cannot be read cannot be made either, which is told then
	wrong(len(entries) > 0, "--out %s: the directory is there and not empty: name another one", f.out)
	info, err := os.Stat(f.out)
	wrong(err == nil && !info.IsDir(), "--out %s: is a file: name a directory", f.out)
	_, err = settings.Logger(io.Discard, f.logLevel, "text")
	errs = append(errs, err, f.checkCoordinator(cmd, wrong), f.influx.Validate())
	return errors.Join(errs...)
}

// checkCoordinator finds flags that do not go with --coordinator, or only with it.
func (f *runFlags) checkCoordinator(cmd *cobra.Command, wrong func(bool, string, ...any)) error {
	if f.coordinator == "" {
		wrong(cmd.Flags().Changed("min-agents"), "--min-agents goes with --coordinator only: without, --agents says how many are embedded")
		return nil
	}
	wrong(cmd.Flags().Changed("agents"), "--agents is for embedded agents: with --coordinator, agents are programs of their own "+
		"(spate-agent); --min-agents waits for them")
	wrong(f.influx.URL != "", "with --coordinator it is the coordinator that writes to InfluxDB: give it the --influx-* flags")
	if err := settings.CheckAddress(f.coordinator); err != nil {
		return fmt.Errorf("--coordinator %w", err)
	}
	wrong(!f.tls.Given() && !f.plaintext && !settings.Loopback(f.coordinator), "plan and API keys would go to %s in plain: give --tls-ca, --tls-cert "+
		"and --tls-key, or --insecure-plaintext if you trust the network", f.coordinator)
	return f.tls.Check(slog.New(slog.DiscardHandler))
}

// recordsKept is the form of the request rows, as the protocol has it.
func (f *runFlags) recordsKept() string {
	if f.records == "none" {
		return ""
	}
	return f.records
}

// simulate starts the simulators that the plan asks for, on loopback.
func (f *runFlags) simulate(ctx context.Context, plan *plans.Plan, b *backend) (map[string]*spatev1.Endpoints, func(), error) {
	var servers []*simulator.Server
	stop := func() {
		for _, s := range servers {
			_ = s.Close(ctx) // its requests have ended with the run
		}
	}
	targets := plan.Simulated()
	if len(targets) == 0 {
		return nil, stop, nil
	}
	if err := b.onThisMachine(ctx); err != nil {
		return nil, stop, err
	}
	endpoints := map[string]*spatev1.Endpoints{}
	for _, t := range targets {
		config := simulator.FromPlan(t.GetSimulator())
		config.ModelName = t.GetModel()
		server, err := simulator.Start(config)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("simulator of target %s: %w", t.GetName(), err)
		}
		servers = append(servers, server)
		endpoints[t.GetName()] = &spatev1.Endpoints{Urls: server.URLs()}
	}
	return endpoints, stop, nil
}

// submitError turns the coordinator's refusal into the right exit code.
func submitError(address string, err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition:
		return badInputf("the coordinator refused the run: %s", s.Message())
	case codes.Unavailable, codes.PermissionDenied:
		return unreachable(address, err)
	}
	return fmt.Errorf("the run could not be submitted: %w", err)
}

// follow shows the run's events until it has ended, and passes Ctrl-C on.
func (f *runFlags) follow(
	ctx context.Context, cmd *cobra.Command, plan *plans.Plan, client spatev1.RunServiceClient, id string,
) (*spatev1.RunEnded, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	show := f.progress(cmd, plan)
	stopSignals := passOnSignals(ctx, giveUp, client, id, show)
	defer stopSignals()
	stream, err := client.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: id})
	if err != nil {
		return nil, fmt.Errorf("the run %s cannot be followed: %w", id, err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return nil, f.lost(id, cmp.Or(context.Cause(ctx), err))
		}
		show(response.GetEvent())
		if ended := response.GetEvent().GetRunEnded(); ended != nil {
			return ended, nil
		}
	}
}

// lost says what is known of a run that cannot be followed any more.
func (f *runFlags) lost(id string, err error) error {
	if f.coordinator == "" {
		return fmt.Errorf("lost the embedded coordinator while following run %s: %w", id, err)
	}
	return fmt.Errorf("lost the coordinator at %s while following run %s: %s\nwhat it has of the run is in its data directory, under %s: "+
		"spate report makes the results from there", f.coordinator, id, status.Convert(err).Message(), id)
}

// progress returns what shows events on standard error, which is where progress belongs: standard output gets the results.
func (f *runFlags) progress(cmd *cobra.Command, plan *plans.Plan) func(*spatev1.RunEvent) {
	w := cmd.ErrOrStderr()
	p := &progress{w: w, terminal: terminalWidth(w) > 0, width: func() int { return terminalWidth(w) }}
	p.expect(plan)
	if f.noProgress {
		return p.warn
	}
	return p.show
}

// terminalWidth is the width of the terminal behind w in columns, 0 if there is none.
func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// errGaveUp is why a run is not followed to its end.
var errGaveUp = errors.New("interrupted before the coordinator had ended the run")

// stopTimeout is how long a coordinator may take to answer a stop.
const stopTimeout = 5 * time.Second

// passOnSignals stops the run at the first interrupt and cancels what is in flight at the second. The third gives up waiting: the
// coordinator may not answer any more. The function it returns ends it.
func passOnSignals(
	ctx context.Context, giveUp context.CancelCauseFunc, client spatev1.RunServiceClient, id string, show func(*spatev1.RunEvent),
) func() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	var passing sync.WaitGroup
	stop := func(immediately bool) {
		patience, done := context.WithTimeout(ctx, stopTimeout)
		defer done()
		_, err := client.StopRun(patience, &spatev1.StopRunRequest{RunId: id, Immediately: immediately})
		if err != nil && ctx.Err() == nil {
			show(notice(spatev1.Severity_SEVERITY_ERROR, "the run could not be stopped: "+status.Convert(err).Message()))
		}
	}
	passing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			switch n {
			case 0:
				show(notice(spatev1.Severity_SEVERITY_WARNING, "stopping: requests in flight are awaited; Ctrl-C again cancels them"))
				passing.Go(func() { stop(false) })
			case 1:
				show(notice(spatev1.Severity_SEVERITY_WARNING, "stopping at once"))
				passing.Go(func() { stop(true) })
			default:
				giveUp(errGaveUp)
			}
		}
	})
	return func() { signal.Stop(signals); cancel(); passing.Wait() }
}

func notice(severity spatev1.Severity, text string) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Severity: severity, Text: text}}}
}

// keep fetches the ledger into the run directory and makes the run's files from it.
func (f *runFlags) keep(ctx context.Context, client spatev1.RunServiceClient, id string) (string, *aggregate.Result, error) {
	dir := f.out
	if dir == "" {
		dir = filepath.Join("runs", id)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("run directory: %w", err)
	}
	if err := fetchLedger(ctx, client, id, filepath.Join(dir, report.LedgerFile)); err != nil {
		return "", nil, err
	}
	result, err := report.Write(dir)
	if err != nil {
		return "", nil, fmt.Errorf("the ledger is kept in %s, its report failed: %w", dir, err)
	}
	return dir, result, nil
}

// fetchLedger copies the run's ledger from the coordinator to path. A ledger that is there already is the coordinator's own: an
// embedded coordinator keeps it in the run directory from the begin.
func fetchLedger(ctx context.Context, client spatev1.RunServiceClient, id, path string) (err error) {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	stream, err := client.FetchLedger(ctx, &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		return fmt.Errorf("ledger of run %s: %w", id, err)
	}
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path+".part"))
		}
	}()
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(fmt.Errorf("ledger of run %s: %w", id, err), file.Close())
		}
		if _, err := file.Write(piece.GetData()); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
