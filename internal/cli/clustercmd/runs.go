package clustercmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spate-load/spate/watch"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// dirFlag says where run directories are.
type dirFlag struct {
	Dir string `flag:"dir" default:"runs" help:"without --coordinator: <directory> of run directories"`
}

// stored returns the runs below the directory.
func (f *dirFlag) stored() *storage.Runs { return storage.New(f.Dir, "") }

// runsFlags are the flags of `spate runs`.
type runsFlags struct {
	Flags
	outputFlag
	dirFlag
	Long  bool   `flag:"long" help:"also show when and from where runs were submitted, who stopped them, and why they wait or ended early"`
	Limit uint32 `flag:"limit" default:"50" help:"list at most this many runs, the newest"`
}

// NewRuns makes `spate runs` and its subcommands, others of which are given.
func NewRuns(others ...*cobra.Command) *cobra.Command {
	f := &runsFlags{}
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs, here or on a coordinator, and follow, fetch, stop or remove them",
		Long: `List the runs below runs/, or with --coordinator those of a coordinator: those that wait, those in
progress, and those that have ended, the newest first.

STATE "incomplete" is done, but the result lacks something; "broken": the coordinator was lost, and
the run was not continued. BY is the name in the certificate of the client that submitted it, or
"token" and the user that came with it. WAITS is about how long a run still waits, and FOR the run
whose agents or server it needs. A narrow terminal shows fewer columns; --long shows all, and who
submitted and stopped runs, when and from where (FROM), their priorities, and why they wait.`,
		Example: "  spate runs\n  spate runs --coordinator 127.0.0.1:7700\n  spate runs --coordinator 127.0.0.1:7700 --output json",
		Args:    command.Arguments(cobra.NoArgs),
		RunE:    f.run,
	}
	cmd.AddCommand(append(others, newRunsRemove())...)
	command.Declare(cmd.Flags(), f)
	return cmd
}

// run lists runs.
func (f *runsFlags) run(cmd *cobra.Command, _ []string) error {
	command.Prefer(cmd.Flags(), "dir", "coordinator")
	runs, err := f.list(cmd.Context())
	switch {
	case err != nil:
		return err
	case f.Output == "json":
		return writeJSON(cmd.OutOrStdout(), runsAsJSON(runs))
	case len(runs) == 0 && f.Coordinator == "":
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "No runs in %s. Those of a coordinator: spate runs --coordinator HOST:PORT\n", f.Dir)
		return err
	}
	return writeRuns(cmd.OutOrStdout(), runs, f.Long, time.Now())
}

// list returns the runs of the coordinator, or those below --dir if there is none.
func (f *runsFlags) list(ctx context.Context) ([]*spatev1.RunSummary, error) {
	if f.Coordinator == "" {
		return f.stored().Newest(int(f.Limit), nil)
	}
	conn, err := f.Connect()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return f.ListRuns(ctx, spatev1.NewRunServiceClient(conn), f.Limit)
}

// writeRuns prints runs as a table. If a terminal is too narrow for all columns, the last ones are omitted, unless the
// list is long.
func writeRuns(w io.Writer, runs []*spatev1.RunSummary, long bool, now time.Time) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "No runs. Submit one with: spate run --coordinator HOST:PORT PLAN.yaml")
		return err
	}
	if long {
		return watch.RunsLong(runs, now, time.Local).Capitals().Write(w, 0)
	}
	return watch.Runs(runs, now, time.Local).Capitals().Write(w, terminal.Width(w))
}

// secondsOf returns how long a run took. nil: it has not ended, or the time of its end is not known.
func secondsOf(r *spatev1.RunSummary) *float64 {
	if r.GetBeginTime() == nil || r.GetEndTime() == nil {
		return nil
	}
	seconds := r.GetEndTime().AsTime().Sub(r.GetBeginTime().AsTime()).Seconds()
	return &seconds
}

// runJSON is a run in the JSON list. Values that are not known, or not known yet, are null.
type runJSON struct {
	ID            string   `json:"id"`
	Plan          *string  `json:"plan"`
	State         string   `json:"state"`
	SubmitTime    *string  `json:"submit_time"`
	BeginTime     *string  `json:"begin_time"`
	EndTime       *string  `json:"end_time"`
	DurationSec   *float64 `json:"duration_seconds"`
	StagesEnded   uint32   `json:"stages_ended"`
	StagesPlanned uint32   `json:"stages_planned"`
	Outcome       *string  `json:"outcome"`
	Complete      *bool    `json:"complete"`
	Reason        *string  `json:"reason"`
	Verdict       *string  `json:"verdict"`
	Submitter     *string  `json:"submitter"`
	SubmitterAt   *string  `json:"submitter_address"`
	Stopper       *string  `json:"stopper"`
	Priority      int32    `json:"priority"`
	Place         *uint32  `json:"place"`
	WaitsFor      []string `json:"waits_for"`
	WaitsBecause  *string  `json:"waits_because"`
	WaitSec       *float64 `json:"wait_seconds"`
}

func runsAsJSON(runs []*spatev1.RunSummary) []runJSON {
	list := make([]runJSON, 0, len(runs))
	for _, r := range runs {
		one := runJSON{
			ID: r.GetRunId(), Plan: given(r.GetPlan()),
			State:      strings.ToLower(strings.TrimPrefix(r.GetState().String(), "RUN_STATE_")),
			SubmitTime: stamp(r.GetSubmitTime()), BeginTime: stamp(r.GetBeginTime()), EndTime: stamp(r.GetEndTime()),
			DurationSec: secondsOf(r),
			StagesEnded: r.GetStagesEnded(), StagesPlanned: r.GetStages(), Reason: given(r.GetReason()),
			Verdict: given(r.GetVerdict()), Submitter: given(r.GetSubmitter()),
			SubmitterAt: given(r.GetSubmitterAddress()), Stopper: given(r.GetStopper()), Priority: r.GetPriority(),
			WaitsFor: r.GetWaitsFor(), WaitsBecause: given(r.GetWaitsBecause()),
		}
		if place := r.GetPlace(); place > 0 {
			one.Place = &place
		}
		if wait := r.GetWait(); wait != nil {
			one.WaitSec = new(wait.AsDuration().Seconds())
		}
		if r.GetState() == spatev1.RunState_RUN_STATE_ENDED {
			outcome, complete := watch.Outcome(r.GetOutcome()), r.GetComplete()
			one.Outcome, one.Complete = &outcome, &complete
		}
		list = append(list, one)
	}
	return list
}
