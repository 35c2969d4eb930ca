// Package runcmd has the commands that start, follow, fetch and stop runs.
package runcmd

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/plancmd"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/foreign"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// runFlags are the flags of `spate run`.
type runFlags struct {
	Quick  quickFlags
	Source plancmd.SourceFlags
	Where  coordinatorFlags `group:"Where it runs"`

	WaitReady time.Duration `group:"Where it runs" flag:"wait-ready" help:"wait up to this long for servers that are still starting, such as 10m (default: as the plan says)"`

	Results resultFlags `group:"What is kept and shown"`
	Records string      `group:"What is kept and shown" rare:"yes" flag:"records" default:"parquet" oneof:"parquet, jsonl, none" help:"keep one row for each request: parquet, jsonl or none"`
	Local   localFlags

	foreign bool // some flags have the names that other load generators give them
}

// coordinatorFlags say on which coordinator a run takes place, and how it is submitted.
type coordinatorFlags struct {
	Coordinator   string        `flag:"coordinator" help:"run on the coordinator at this <host:port> instead of on embedded agents"`
	Plaintext     bool          `rare:"yes" flag:"insecure-plaintext" help:"with --coordinator: send plan and API keys without encryption: only on a network you trust"`
	TLS           command.TLS   `rare:"yes"`
	MinAgents     uint32        `rare:"yes" flag:"min-agents" default:"1" help:"with --coordinator: agents to wait for before the plan is split"`
	AgentsTimeout time.Duration `rare:"yes" flag:"agents-timeout" default:"1m" help:"with --coordinator: how long to wait for them"`
	Patience      time.Duration `rare:"yes" flag:"patience" default:"2m" help:"with --coordinator: how long to wait for it when it is gone"`
	Priority      int32         `rare:"yes" flag:"priority" help:"with --coordinator: place in the queue, from -100 to 100; higher ones come first"`
	Detach        bool          `rare:"yes" flag:"detach" help:"with --coordinator: submit the run, print its id, and exit"`
}

//go:embed help.txt
var manual command.Manual

// NewRun makes `spate run`. version is the program's.
func NewRun(version string) *cobra.Command {
	f := &runFlags{Local: localFlags{version: version, Agents: defaultAgents()}}
	return f.command()
}

// command makes the command with all flags.
func (f *runFlags) command() *cobra.Command {
	cmd := manual.New("run", onePlan, f.run)
	command.Declare(cmd.Flags(), f, "APIS="+strings.Join(registry.Names(), ", "))
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		alias := foreign.Alias(name)
		f.foreign = f.foreign || alias != ""
		return pflag.NormalizedName(cmp.Or(alias, name))
	})
	return cmd
}

// onePlan accepts at most one plan.
func onePlan(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	last, hint := args[len(args)-1], ""
	if _, _, err := net.SplitHostPort(last); err == nil {
		hint = "; an address comes after an equals sign: --web=" + last
	}
	return fmt.Errorf("one plan at a time, got %s%s%s", strings.Join(args, " "), plancmd.NumberHint(last), hint)
}

// run is the whole command: check everything, start things, follow the run, report.
func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	command.Prefer(cmd.Flags(), "on", "agents")
	for _, own := range []string{"agents", "on"} {
		if command.Prefer(cmd.Flags(), own, "coordinator") == "coordinator" {
			fmt.Fprintf(cmd.ErrOrStderr(), "--%s: the coordinator in the environment or the configuration file is ignored\n", own)
		}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	plan, secrets, resources, err := f.prepare(ctx, cmd, args)
	if err != nil {
		return command.BadInput(err)
	}

	f.Local.simulates = len(plan.Simulated()) > 0
	backend, err := f.backend(ctx, f.Results.logTo(cmd.ErrOrStderr()))
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
	if err := handOver(ctx, client, command.DatasetDir(), resources.Datasets); err != nil {
		return err
	}
	submitted, err := client.SubmitRun(ctx, &spatev1.SubmitRunRequest{
		PlanYaml: plan.Source(), PlanPath: plan.Path(), Secrets: secrets, Simulated: simulated,
		Records:  f.recordsKept(),
		Datasets: resources.Datasets, Lexicons: resources.Lexicons,
		MinAgents: backend.minAgents, AgentsTimeout: durationpb.New(f.Where.AgentsTimeout), Priority: f.Where.Priority,
		Definitions: measure.Definitions, Version: f.Local.version, Serves: true,
	})
	if err != nil {
		return submitError(f.Where.Coordinator, err)
	}
	if f.Where.Detach {
		return f.leave(cmd, submitted)
	}
	backend.sayPages(cmd.ErrOrStderr(), submitted.GetRunId())
	v := terminal.NewView(cmd.ErrOrStderr(), f.Results.Quiet)
	v.Expect(plan)
	follower := newFollower(client, submitted.GetRunId(), f.Where.Coordinator, f.Where.Patience, v)
	follower.waiting.Store(submitted.GetWaiting() > 0)
	f.Results.onScreen(cmd, follower, plan)
	dir, err := f.Results.dir(submitted.GetRunId())
	if err := errors.Join(err, follower.serve(ctx, plan, secrets, dir, f.Local.version)); err != nil {
		return err
	}
	return f.Results.take(ctx, cmd, follower)
}

// prepare checks everything that can be checked before anything starts. It returns the plan with the models of its
// targets, its secrets and its files.
func (f *runFlags) prepare(
	ctx context.Context, cmd *cobra.Command, args []string,
) (plan *plans.Plan, secrets map[string]string, resources plans.Resources, err error) {
	notes, elsewhere := cmd.ErrOrStderr(), f.Where.Coordinator != "" || len(f.Local.On) > 0
	var stages []*spatev1.Stage
	for _, step := range []func(){
		func() { plan, err = f.plan(cmd, args); err = errors.Join(err, f.check(cmd)) },
		func() { err = f.fits(plan) },
		func() { plan, err = withPods(ctx, plan, notes) },
		func() { plan, err = withPorts(plan, elsewhere) },
		func() { err = f.Local.agree(cmd, plan) },
		func() { terminal.Caution(notes, plan); f.Results.caution(notes, plan) },
		func() { secrets, err = plan.Secrets(secret.System) },
		func() { resources, err = plancmd.Gather(ctx, plan, command.DatasetDir(), notes, f.Results.Quiet) },
		func() { plan, err = f.reach(ctx, plan, secrets, notes) },
		func() { stages, err = plancmd.WithRows(plan, resources) },
		func() { err = preflight(ctx, plan, stages, secrets) },
	} {
		if step(); err != nil {
			return nil, nil, plans.Resources{}, err
		}
	}
	return plan, secrets, resources, nil
}

// fits finds plans that cannot run where the flags say.
func (f *runFlags) fits(plan *plans.Plan) error {
	switch {
	case f.Where.Coordinator == "":
		return f.Local.fits(plan)
	case plan.Proto().GetAgents().GetCount() > 0 && f.Where.MinAgents > plan.Proto().GetAgents().GetCount():
		return fmt.Errorf("--min-agents %d: the plan takes %d agents: give one of the two", f.Where.MinAgents,
			plan.Proto().GetAgents().GetCount())
	case f.Where.Detach && len(plan.Simulated()) > 0:
		return errors.New(
			"--detach: the built-in simulator ends with this command: start `spate simulate` and name its endpoints in the plan",
		)
	case f.Where.Detach && slices.ContainsFunc(plan.Targets(), served):
		return errors.New("--detach: the servers of the plan's targets end with this command: leave it running")
	}
	return nil
}

// leave says how to find a run that no client follows.
func (f *runFlags) leave(cmd *cobra.Command, submitted *spatev1.SubmitRunResponse) error {
	id, where := submitted.GetRunId(), ""
	if command.Typed(cmd.Flags(), "coordinator") {
		where = " --coordinator " + f.Where.Coordinator
	}
	fmt.Fprintln(cmd.OutOrStdout(), id)
	if n := submitted.GetWaiting(); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "The run waits: it is number %d in the queue.\n", n)
	}
	fmt.Fprintf(cmd.ErrOrStderr(),
		"To follow it and get its results: spate runs follow %s%s\nTo stop it: spate runs stop %s%s\n", id, where, id, where)
	return nil
}

// plan reads the plan that was named, or makes one from flags.
func (f *runFlags) plan(cmd *cobra.Command, args []string) (*plans.Plan, error) {
	if f.Quick.From != "" {
		if err := f.Quick.translate(cmd); err != nil {
			return nil, err
		}
	}
	if q := f.Quick; f.foreign && len(q.Concurrency) > 0 && len(q.Rate) > 0 {
		return nil, fmt.Errorf("--concurrency and --rate are two loads: for one with at most so many requests in flight, "+
			"as other load generators have it, give --rate %v --max-in-flight %d", q.Rate[0], q.Concurrency[0])
	}
	switch {
	case len(args) == 1 && slices.ContainsFunc(command.Names(&f.Quick), cmd.Flags().Changed):
		return nil, f.Quick.besidePlan(cmd.Flags(), args[0])
	case len(args) == 1:
		return f.Source.Read(cmd.InOrStdin(), args[0])
	case len(f.Quick.Targets) == 0:
		return nil, fmt.Errorf("nothing to run: name a plan or give --target URL\nsee: %s --help", cmd.CommandPath())
	}
	text, err := f.Quick.yaml(cmd.Flags())
	if err != nil {
		return nil, err
	}
	plan, err := f.Source.Load("", text)
	return plan, f.Quick.named(err, cmd.Flags())
}

// check finds mistakes in the flags that do not depend on the plan.
func (f *runFlags) check(cmd *cobra.Command) error {
	return errors.Join(f.checkCoordinator(cmd),
		reason.If(f.Where.MinAgents < 1, "--min-agents %d: want at least 1", f.Where.MinAgents),
		reason.If(f.Where.AgentsTimeout <= 0, "--agents-timeout %v: want more than 0", f.Where.AgentsTimeout),
		reason.If(f.Where.Patience < 0, "--patience %v: want at least 0", f.Where.Patience),
		f.Local.check(), f.Results.settle(cmd.Flags()), f.Results.check())
}

// checkCoordinator finds flags that do not go with --coordinator, or that need it.
func (f *runFlags) checkCoordinator(cmd *cobra.Command) error {
	typed := func(name string) bool { return command.Typed(cmd.Flags(), name) }
	if f.Where.Coordinator == "" {
		return errors.Join(
			reason.If(typed("min-agents"),
				"--min-agents needs --coordinator; for a local run, --agents sets the number of agents"),
			reason.If(typed("detach"), "--detach needs --coordinator: a local run ends with this command"),
			reason.If(typed("agents") && typed("on"),
				"--agents and --on exclude one another: each host of --on has one agent"))
	}
	return errors.Join(
		reason.If(typed("agents"), "--agents is for local runs: with --coordinator, agents are programs of their own "+
			"(spate-agent); --min-agents waits for them"),
		reason.If(typed("on"), "--on and --coordinator exclude one another: a coordinator has agents of its own"),
		reason.If(typed("source-address"),
			"--source-address is for local runs: with --coordinator, give it to the agents"),
		reason.If(typed("packet-times"), "--packet-times is for local runs: with --coordinator, give it to the agents"),
		reason.If(typed("realtime"), "--realtime is for local runs: with --coordinator, give it to the agents"),
		reason.If(typed("http-listen"), "--http-listen is for local runs: give it to the coordinator"),
		reason.If(typed("web"), "--web is for local runs: the pages of a coordinator are at its --web-listen"),
		reason.If(typed("sink"), "with --coordinator, the coordinator writes to databases: give --sink to it"),
		reason.If(f.Where.Detach && f.Results.Gate.on(),
			"--detach and --gate exclude one another: a gate waits for the end of its run"),
		reason.If(f.Where.Detach && typed("out"),
			"--out and --detach exclude one another: give --out to spate runs follow or spate runs fetch"),
		(&clustercmd.Flags{Coordinator: f.Where.Coordinator, Plaintext: f.Where.Plaintext, TLS: f.Where.TLS}).Check())
}

// recordsKept returns the form of the request rows in the protocol's words.
func (f *runFlags) recordsKept() string {
	if f.Records == "none" {
		return ""
	}
	return f.Records
}

// simulate starts the simulators that the plan asks for, on loopback.
func (f *runFlags) simulate(
	ctx context.Context, plan *plans.Plan, b *backend,
) (map[string]*spatev1.Endpoints, func(), error) {
	targets := plan.Simulated()
	if len(targets) == 0 {
		return nil, func() {}, nil
	}
	if err := b.onThisMachine(ctx); err != nil {
		return nil, nil, err
	}
	urls, stop, err := startSimulators(ctx, targets, plan.Adapters())
	endpoints := map[string]*spatev1.Endpoints{}
	for name, list := range urls {
		endpoints[name] = &spatev1.Endpoints{Urls: list}
	}
	return endpoints, stop, err
}

// submitError gives the coordinator's refusal its exit code. If no answer came, it is not known whether the run was
// started.
func submitError(address string, err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted:
		return command.BadInputf("the coordinator refused the run: %s", s.Message())
	case codes.PermissionDenied:
		return clustercmd.Unreachable(address, err)
	case codes.Unavailable:
		if clustercmd.NeverConnected(s.Message()) {
			return clustercmd.Unreachable(address, err)
		}
		return fmt.Errorf("the connection to the coordinator at %[1]s broke before it answered (%[2]s): the run may have started; "+
			"`spate runs --coordinator %[1]s` lists it, and `spate runs follow latest --coordinator %[1]s` follows it",
			address, s.Message())
	}
	return fmt.Errorf("cannot submit the run: %w", err)
}
