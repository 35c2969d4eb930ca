package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/store"
)

// resumeFlags are the flags of `spate runs resume`.
type resumeFlags struct {
	Local   localFlags
	results resultFlags
}

// NewResume makes `spate runs resume`. version is the program's.
func NewResume(version string) *cobra.Command {
	f := &resumeFlags{Local: localFlags{version: version}}
	cmd := manual.New("resume", cobra.ExactArgs(1), f.run, f, &f.results.showFlags, &f.results.judgingFlags)
	cmd.Flags().Lookup("agents").DefValue = "as many as the run had"
	return cmd
}

// run shows what is left of a run, asks, and resumes it.
func (f *resumeFlags) run(cmd *cobra.Command, args []string) error {
	dir := runfiles.Named(args[0])
	if err := f.results.settle(cmd.Flags()); err != nil {
		return command.BadInput(err)
	}
	found, err := coordinator.ReadInterrupted(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return command.BadInputf("%s is not a run directory: there is no %s in it", dir, ledger.File)
	}
	if err != nil {
		return command.BadInputf("%s cannot be resumed: %w", dir, err)
	}
	plan, err := plans.Load(dir, found.Record.GetPlanYaml(), plans.Options{})
	if err != nil {
		return command.BadInputf("%s cannot be resumed: this version of Spate cannot read its plan: %w", dir, err)
	}
	secrets, err := f.check(plan, found)
	if err := errors.Join(err, f.Local.agree(cmd, plan)); err != nil {
		return command.BadInput(err)
	}
	left := plans.TotalOf(found.Left)
	fmt.Fprintf(cmd.ErrOrStderr(), "Run %s continues: %s kept, %s left; time: %s\n", found.Record.GetRunId(),
		words.Count(uint64(found.Kept), "stage"), left.StageWords(), left.TimeWords(plans.InWords))
	f.results.Place.Out = dir
	return f.resume(cmd, plan, found, secrets)
}

// check finds what is missing to resume a run. It returns the values of the plan's secrets.
func (f *resumeFlags) check(plan *plans.Plan, found *coordinator.Interrupted) (map[string]string, error) {
	if len(f.Local.Agents) == 0 {
		if there := elsewhere(found.Agents); there != "" && len(f.Local.On) == 0 {
			return nil, fmt.Errorf("the run's agents were on %s and not on this machine: give --on with its hosts, or "+
				"--agents to go on from here", there)
		}
		f.Local.Agents = byRegion(found.Agents, (*spatev1.AgentInfo).GetRegion)
		if len(found.Agents) == 0 {
			f.Local.Agents = defaultAgents()
		}
	}
	secrets, err := plan.Secrets(secret.System)
	return secrets, errors.Join(err, f.results.readBaseline(), f.Local.check(), f.Local.fits(plan),
		haveRows(found.Left))
}

// elsewhere returns the hosts of agents that are not this machine.
func elsewhere(had []*spatev1.AgentInfo) string {
	here, _ := os.Hostname() // empty: agents on this machine say so, too
	there := lists.Set(lists.Each(had, (*spatev1.AgentInfo).GetHost))
	delete(there, here)
	delete(there, "")
	return words.Shorten(slices.Sorted(maps.Keys(there)), 3)
}

// haveRows returns an error if the rows of a stage are no longer on this machine.
func haveRows(stages []*spatev1.Stage) error {
	rows, err := store.Open(command.DatasetDir())
	if err != nil {
		return err
	}
	for _, st := range stages {
		for _, source := range content.Sources(st) {
			d := source.Rows
			if d == nil {
				continue
			}
			if _, found, err := rows.Path(d.GetSha256(), d.GetSize()); err != nil || !found {
				return fmt.Errorf("the rows of workload %s are no longer in %s: run the plan again",
					source.Workload.GetName(), command.DatasetDir())
			}
		}
	}
	return nil
}

// resume continues the run and reports its results.
func (f *resumeFlags) resume(
	cmd *cobra.Command, plan *plans.Plan, found *coordinator.Interrupted, secrets map[string]string,
) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	endpoints, stopSimulators, err := startSimulators(ctx, plan.Simulated(), plan.Adapters())
	if err != nil {
		return err
	}
	defer stopSimulators()
	f.Local.simulates = len(endpoints) > 0
	b, err := f.Local.embed(ctx, f.results.logTo(cmd.ErrOrStderr()), f.results.Place.Out, &coordinator.Resumption{
		MinAgents: uint32(f.Local.Agents.total()), Secrets: secrets, Endpoints: endpoints,
	})
	if err != nil {
		return err
	}
	defer b.close()
	b.sayPages(cmd.ErrOrStderr(), found.Record.GetRunId())
	v := terminal.NewView(cmd.ErrOrStderr(), f.results.Quiet)
	v.Expect(plan)
	follower := newFollower(spatev1.NewRunServiceClient(b.conn), found.Record.GetRunId(), "", 0, v)
	follower.after = found.LastEvent
	f.results.onScreen(cmd, follower, plan)
	if err := follower.serve(ctx, plan, secrets, f.results.Place.Out, f.Local.version); err != nil {
		return err
	}
	return f.results.take(ctx, cmd, follower)
}
