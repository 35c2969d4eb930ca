package runcmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/store"
)

// resumeFlags are the flags of `spate runs resume`.
type resumeFlags struct {
	Yes     bool `flag:"yes" short:"y" typed:"only" help:"do not ask: needed without a terminal"`
	Local   localFlags
	results resultFlags
}

// NewResume makes `spate runs resume`. version is the program's.
func NewResume(version string) *cobra.Command {
	f := &resumeFlags{Local: localFlags{version: version}}
	cmd := &cobra.Command{
		Use:   "resume DIR",
		Short: "Continue a local run whose command was killed",
		Long: `Continue a local run that was interrupted because "spate run" was killed, or the machine went down.
DIR is its run directory. The command first shows what is left to do, and to which endpoints;
nothing is sent until you confirm. Stages that had ended keep their results; the one in progress is
measured again. "spate report DIR" makes the results of what was measured, without the rest. A
coordinator continues its runs itself when it is restarted with the same --data-dir.

` + command.ExitHint,
		Example: "  spate runs resume runs/quickstart-20260329T120000Z-1a2b3c\n  spate runs resume results/today --yes",
		Args:    command.Arguments(cobra.ExactArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	for _, flags := range []any{f, &f.results.showFlags, &f.results.judgingFlags} {
		command.Declare(cmd.Flags(), flags)
	}
	cmd.Flags().Lookup("agents").DefValue = "as many as the run had"
	return cmd
}

// run shows what is left of a run, asks, and resumes it.
func (f *resumeFlags) run(cmd *cobra.Command, dir string) error {
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
	if err != nil {
		return command.BadInput(err)
	}
	showInterrupted(cmd.ErrOrStderr(), dir, found)
	if err := f.confirm(cmd); err != nil {
		return err
	}
	f.results.Place.Out = dir
	return f.resume(cmd, plan, found, secrets)
}

// check finds what is missing to resume a run. It returns the values of the plan's secrets.
func (f *resumeFlags) check(plan *plans.Plan, found *coordinator.Interrupted) (map[string]string, error) {
	if len(f.Local.Agents) == 0 {
		f.Local.Agents = agentsOf(found.Agents)
	}
	secrets, err := plan.Secrets(secret.System)
	return secrets, errors.Join(err, f.results.readBaseline(), f.Local.check(), f.Local.fits(plan),
		haveRows(found.Left))
}

// agentsOf returns as many agents of each region as a run had, or the default of spate run.
func agentsOf(had []*spatev1.AgentInfo) embedded {
	var out embedded
	for _, a := range had {
		i := slices.IndexFunc(out, func(r regionAgents) bool { return r.region == a.GetRegion() })
		if i < 0 {
			out, i = append(out, regionAgents{region: a.GetRegion()}), len(out)
		}
		out[i].count++
	}
	if len(out) == 0 {
		return defaultAgents()
	}
	return out
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

// showInterrupted says what a run has done, and what it would still send, and where.
func showInterrupted(w io.Writer, dir string, found *coordinator.Interrupted) {
	left := plans.TotalOf(found.Left)
	fmt.Fprintf(w, "Interrupted run %s in %s\n", found.Record.GetRunId(), dir)
	for _, text := range targetWords(found.Left) {
		fmt.Fprintf(w, "  target  %s\n", text)
	}
	fmt.Fprintf(w, "  kept    %s\n", words.Count(uint64(found.Kept), "stage"))
	fmt.Fprintf(w, "  left    %s; %s: %s; time: %s\n", left.StageWords(), plans.ArrivalNoun(found.Left),
		left.ArrivalWords(plans.InWords), left.TimeWords(plans.InWords))
	if st := found.Again; st != nil {
		fmt.Fprintf(w, "  stage %d (%s, %s, %s) was in progress and is measured again from its start\n",
			st.GetIndex()+1,
			st.GetTarget().GetName(), st.GetWorkload().GetName(), loadpoint.Words(st.GetLoad()))
	}
}

// targetWords describes each target of stages once, with its endpoints.
func targetWords(stages []*spatev1.Stage) []string {
	var out []string
	for _, st := range stages {
		t := st.GetTarget()
		where := words.Shorten(t.GetEndpoints(), 4)
		if t.GetSimulator() != nil {
			where = "the built-in simulator"
		}
		text := fmt.Sprintf("%s: %s, model %s", t.GetName(), where, cmp.Or(t.GetModel(), "n/a"))
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// confirm asks whether load may be sent.
func (f *resumeFlags) confirm(cmd *cobra.Command) error {
	if f.Yes {
		return nil
	}
	if !terminal.IsTerminal(cmd.InOrStdin()) || !terminal.IsTerminal(cmd.ErrOrStderr()) {
		return command.BadInputf("nothing was started: there is no terminal to ask on; give --yes to continue the run")
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Continue it? [y/N] ")
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return command.Exit(command.ExitStopped, errors.New("not confirmed: nothing was started"))
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
	return f.results.take(ctx, cmd, follower)
}
