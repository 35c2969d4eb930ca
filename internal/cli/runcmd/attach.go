package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// oneRun accepts the name of one run.
func oneRun(_ *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return errors.New("name one run: its id, or \"latest\"")
}

// attachFlags are the flags of commands that work on a submitted run.
type attachFlags struct {
	clustercmd.Flags
	Patience time.Duration `flag:"patience" default:"2m" help:"how long to wait for the coordinator when it is gone"`
	results  resultFlags
}

// NewFollow makes `spate runs follow`.
func NewFollow() *cobra.Command {
	f := &attachFlags{}
	cmd := manual.New("follow", oneRun, func(cmd *cobra.Command, args []string) error {
		return f.run(cmd, args[0], f.follow)
	})
	f.add(cmd)
	command.Declare(cmd.Flags(), &f.results.showFlags)
	return cmd
}

// NewFetch makes `spate runs fetch`.
func NewFetch() *cobra.Command {
	f := &attachFlags{}
	cmd := manual.New("fetch", oneRun, func(cmd *cobra.Command, args []string) error {
		return f.run(cmd, args[0], f.fetch)
	})
	f.add(cmd)
	return cmd
}

// stopFlags are the flags of `spate runs stop`.
type stopFlags struct {
	clustercmd.Flags
	Now bool `flag:"now" help:"cancel the requests in flight"`
	All bool `flag:"all" help:"stop all runs in progress, and empty the queue"`
}

// localStop says how a run ends that no coordinator has.
const localStop = "; a local run stops with Ctrl-C in its terminal"

// NewStop makes `spate runs stop`.
func NewStop() *cobra.Command {
	f := &stopFlags{}
	return manual.New("stop", func(cmd *cobra.Command, args []string) error {
		if f.All {
			return cobra.NoArgs(cmd, args)
		}
		if err := oneRun(cmd, args); err != nil {
			return fmt.Errorf("%w%s", err, localStop)
		}
		return nil
	}, f.run, f)
}

func (f *stopFlags) run(cmd *cobra.Command, args []string) error {
	conn, err := f.Connect()
	switch {
	case err != nil && f.Coordinator == "":
		return command.BadInputf("%w%s", err, localStop)
	case err != nil:
		return err
	}
	defer conn.Close()
	service := spatev1.NewRunServiceClient(conn)
	if f.All {
		return stopAll(cmd, &f.Flags, service, f.Now)
	}
	run, err := f.Find(cmd.Context(), service, args[0])
	if err != nil {
		return err
	}
	return stop(cmd, &f.Flags, service, run, f.Now)
}

// mostListed is more than the runs that can be unended.
const mostListed = 1000

// stopAll asks the coordinator to end all runs, those that wait before those in progress. A run that cannot be stopped,
// because somebody else submitted it, keeps no other from being stopped.
func stopAll(cmd *cobra.Command, f *clustercmd.Flags, service spatev1.RunServiceClient, now bool) error {
	runs, err := f.ListRuns(cmd.Context(), service, mostListed)
	if err != nil {
		return err
	}
	var errs []error
	runs = lists.Where(runs, clustercmd.GoesOn)
	for _, run := range runs {
		if err := stop(cmd, f, service, run, now); err != nil {
			errs = append(errs, fmt.Errorf("run %s: %w", run.GetRunId(), err))
		}
	}
	if len(runs) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no run waits or is in progress")
	}
	return errors.Join(errs...)
}

// stop asks the coordinator to end a run.
func stop(
	cmd *cobra.Command, f *clustercmd.Flags, service spatev1.RunServiceClient, run *spatev1.RunSummary, now bool,
) error {
	id := run.GetRunId()
	if !clustercmd.GoesOn(run) {
		return command.BadInputf("run %s is not running (%s): there is nothing to stop", id, watch.State(run))
	}
	_, err := clustercmd.Ask(cmd.Context(), f.Coordinator, service.StopRun,
		&spatev1.StopRunRequest{RunId: id, Immediately: now})
	if err != nil {
		return err
	}
	text := "run %s starts no more requests and waits for those in flight\n"
	switch {
	case run.GetState() == spatev1.RunState_RUN_STATE_WAITING:
		text = "run %s was removed from the queue\n"
	case now:
		text = "run %s starts no more requests and cancels those in flight\n"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), text, id)
	return err
}

// add adds the flags that follow and fetch share.
func (f *attachFlags) add(cmd *cobra.Command) {
	command.Declare(cmd.Flags(), f)
	command.Declare(cmd.Flags(), &f.results.Place)
	command.Declare(cmd.Flags(), &f.results.judgingFlags)
}

// run checks the flags, finds the run and calls do with it.
func (f *attachFlags) run(
	cmd *cobra.Command, name string, do func(*cobra.Command, *follower, *spatev1.RunSummary) error,
) error {
	if f.Patience < 0 {
		return command.BadInputf("--patience %v: want at least 0", f.Patience)
	}
	if err := errors.Join(f.results.settle(cmd.Flags()), f.results.check()); err != nil {
		return command.BadInput(err)
	}
	conn, err := f.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	service := spatev1.NewRunServiceClient(conn)
	run, err := f.Find(cmd.Context(), service, name)
	if err != nil {
		return err
	}
	v := terminal.NewView(cmd.ErrOrStderr(), f.results.Quiet)
	follower := newFollower(service, run.GetRunId(), f.Coordinator, f.Patience, v)
	follower.watches = true
	follower.waiting.Store(run.GetState() == spatev1.RunState_RUN_STATE_WAITING)
	f.results.onScreen(cmd, follower, nil)
	return do(cmd, follower, run)
}

// follow follows a run in progress. If the run has ended, it fetches the results.
func (f *attachFlags) follow(cmd *cobra.Command, follower *follower, run *spatev1.RunSummary) error {
	if !clustercmd.GoesOn(run) {
		return f.fetch(cmd, follower, run)
	}
	return f.results.take(cmd.Context(), cmd, follower)
}

// fetch gets the results of a run that has ended.
func (f *attachFlags) fetch(cmd *cobra.Command, follower *follower, run *spatev1.RunSummary) error {
	if clustercmd.GoesOn(run) {
		return command.BadInputf(
			"run %s has not ended (%s): spate runs follow %s gets its results when it has, spate runs stop %s ends it",
			run.GetRunId(), watch.State(run), run.GetRunId(), run.GetRunId())
	}
	if e := summaryEnding(run); e.unbegun {
		return e.conclude(cmd, "", f.results.FailOn) // it has no results
	}
	dir, result, err := f.results.keep(cmd.Context(), follower)
	if result == nil {
		return err
	}
	return cmp.Or(err, f.results.conclude(cmd, dir, resultEnding(result)))
}

// backend is what a run runs on: a remote coordinator, or one embedded in this process with its agents. Both are called
// through the same services, so that everything behind them is the same.
type backend struct {
	conn      *grpc.ClientConn
	address   string // empty: embedded
	pages     string // URL of its web server. Empty: there is none
	minAgents uint32
	close     func()
}

// sayPages says where a run's page is, if it has one.
func (b *backend) sayPages(w io.Writer, id string) {
	if b.pages != "" {
		fmt.Fprintf(w, "Watch the run in a browser: %s/runs/%s\n", b.pages, id)
	}
}

// backend connects to the coordinator that the flags name, or starts the embedded one.
func (f *runFlags) backend(ctx context.Context, logs io.Writer) (*backend, error) {
	if f.Where.Coordinator == "" {
		return f.Local.embed(ctx, logs, f.Results.Place.Out, nil)
	}
	conn, err := clustercmd.Dial(f.Where.Coordinator, &f.Where.TLS)
	if err != nil {
		return nil, err
	}
	return &backend{conn: conn, address: f.Where.Coordinator, minAgents: f.Where.MinAgents,
		close: func() { _ = conn.Close() }}, nil
}

// onThisMachine returns an error if an agent of the run may not reach this machine's loopback.
func (b *backend) onThisMachine(ctx context.Context) error {
	if b.address == "" {
		return nil
	}
	agents, err := clustercmd.Ask(ctx, b.address, spatev1.NewRunServiceClient(b.conn).ListAgents,
		&spatev1.ListAgentsRequest{})
	if err != nil {
		return err
	}
	if there := elsewhere(lists.Each(agents.GetAgents(), (*spatev1.AgentStatus).GetAgent)); there != "" {
		return command.BadInputf("the plan's built-in simulator listens on this machine's loopback, and agents run on %s: "+
			"start `spate simulate` where all reach it, and name its endpoints in the plan", there)
	}
	return nil
}
