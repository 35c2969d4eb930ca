package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/thresholds"
	"github.com/spate-load/spate/workload/store"
)

// resultFlags say where a run's results go, and what is printed.
type resultFlags struct {
	Place placeFlags
	judgingFlags
	Gate gate
	showFlags
	baseline *report.Baseline // read from BaselinePath; nil: none is given
}

// placeFlags say where a run's results go.
type placeFlags struct {
	Out string `flag:"out" help:"run <directory> to make (default: runs/RUN-ID)"`
}

// judgingFlags decide on the exit code, and say who is told.
type judgingFlags struct {
	FailOn       failOn  `rare:"yes" flag:"fail-on" default:"invalid" oneof:"invalid, suspect, never" help:"exit with 3 if a verdict is this bad: invalid, suspect (or worse), or never"`
	BaselinePath string  `rare:"yes" flag:"baseline" typed:"only" help:"earlier <run> that thresholds compare with: its directory or its results.json"`
	CI           ciFlags `rare:"yes"`
}

// readBaseline reads the baseline, if one is given.
func (f *resultFlags) readBaseline() (err error) {
	if f.BaselinePath == "" || f.Gate.mayBeMissing() {
		return nil
	}
	if f.baseline, err = report.ReadBaseline(f.BaselinePath); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	return nil
}

// check reads the baseline, and refuses to overwrite anything.
func (f *resultFlags) check() error {
	if err := f.Gate.check(f.BaselinePath); err != nil {
		return err
	}
	f.BaselinePath = cmp.Or(f.BaselinePath, f.Gate.Dir)
	if err := f.readBaseline(); err != nil {
		return err
	}
	entries, _ := os.ReadDir(f.Place.Out) // one that cannot be read cannot be made either, which is reported then
	if len(entries) > 0 {
		return fmt.Errorf("--out %s: the directory is not empty: name another one", f.Place.Out)
	}
	return files.CheckDirectory("--out", f.Place.Out)
}

// caution warns of a threshold that will fail because it has no baseline.
func (f *resultFlags) caution(w io.Writer, plan *plans.Plan) {
	if f.baseline != nil || f.Gate.on() {
		return
	}
	for _, t := range plan.Proto().GetThresholds() {
		if usesBaseline(t.GetThat(), t.GetPart()) {
			of := ""
			if t.GetPart() != "" {
				of = fmt.Sprintf(" for part %q", t.GetPart())
			}
			fmt.Fprintf(w, "spate: the threshold %q%s will fail: there is no baseline to compare with; give --baseline\n",
				t.GetThat(), of)
		}
	}
}

// usesBaseline reports whether a condition on a stage, or on a part of it if one is named, compares with a baseline.
func usesBaseline(condition, part string) bool {
	t, err := thresholds.Parse(condition, part)
	return err == nil && t.UsesBaseline()
}

// take follows a run to its end, saves its results and shows them.
func (f *resultFlags) take(ctx context.Context, cmd *cobra.Command, follower *follower) error {
	if dir, err := f.dir(follower.id); err == nil && !f.Quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "Run %s: plan, notes and results go to %s\n", follower.id, dir)
	}
	ended, err := follower.follow(ctx)
	if err != nil {
		return err
	}
	if follower.neverBegan(ended) {
		return command.Exit(command.ExitStopped,
			fmt.Errorf("run %s was removed from the queue: nothing was started, and there are no results", follower.id))
	}
	dir, result, err := f.keep(ctx, follower)
	if result == nil {
		return err
	}
	if v := result.Run.Verdict; v != nil {
		ended.Verdict = string(*v) // that of results.json, whatever the coordinator's version says
	}
	return cmp.Or(err, f.conclude(cmd, dir, ending{id: follower.id, RunEnded: ended, result: result}))
}

// keep fetches the ledger into the run directory and makes the run's files from it. A broken transfer restarts. An
// error with a result is about writing the files, such as on a full disk.
func (f *resultFlags) keep(ctx context.Context, from *follower) (string, *results.Result, error) {
	dir, err := f.dir(from.id)
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("run directory: %w", err)
	}
	err = from.persist.do(ctx, func(ctx context.Context) error {
		return clustercmd.FetchLedger(ctx, from.client, from.id, filepath.Join(dir, ledger.File))
	})
	if err != nil {
		return "", nil, from.notFetched(err)
	}
	if f.baseline != nil {
		if err := f.baseline.Keep(dir); err != nil {
			return "", nil, fmt.Errorf("run directory: %w", err)
		}
	}
	result, err := report.Write(dir, report.Options{})
	if err != nil {
		err = fmt.Errorf("the ledger is in %s, but its report failed: %w; to try again: spate report %s", dir, err, dir)
	}
	return dir, result, err
}

// dir returns the run directory.
func (f *resultFlags) dir(id string) (string, error) {
	switch {
	case f.Place.Out != "":
		return f.Place.Out, nil
	case !runName.MatchString(id):
		return "", fmt.Errorf("the coordinator calls the run %.80q, which is not a valid name of a directory: give --out", id)
	}
	return filepath.Join("runs", id), nil
}

// runName matches names of runs. A coordinator chooses them, and a client writes to directories with these names.
var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// conclude prints the tables, and ends as the run did.
func (f *resultFlags) conclude(cmd *cobra.Command, dir string, e ending) error {
	out := cmd.OutOrStdout()
	if !f.Quiet {
		fmt.Fprintln(out)
		if err := report.Table(out, e.result, terminal.Width(out)); err != nil {
			return err
		}
	}
	if err := f.pass(out, dir, &e); err != nil {
		return err
	}
	err := cmp.Or(f.CI.write(cmd.ErrOrStderr(), e.result, e.baseline, f.FailOn), e.conclude(cmd, dir, f.FailOn))
	if err != nil || !e.accept {
		return err
	}
	if err := f.Gate.store(dir); err != nil {
		return fmt.Errorf("the run was not stored as the baseline: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The run is now the baseline in %s.\n", f.BaselinePath)
	return nil
}

// pass compares the run with the baseline, if it has a gate, and notes in e what that means for its end.
func (f *resultFlags) pass(out io.Writer, dir string, e *ending) error {
	if !f.Gate.on() {
		return nil
	}
	e.accept = f.Gate.Accept
	if f.baseline == nil {
		return nil
	}
	base, err := f.Gate.compare(out, dir)
	if err != nil {
		return err
	}
	if e.accept {
		if base.comparison == nil {
			fmt.Fprintf(out, "\n%s\n", base.fails)
		}
		base.fails = ""
	}
	e.baseline = base
	return nil
}

// handOver makes sure that the coordinator has a plan's datasets. A coordinator in this process uses the same
// directory, so it already has them.
func handOver(
	ctx context.Context, client spatev1.RunServiceClient, dir string, datasets map[string]*spatev1.Dataset,
) error {
	for workload, d := range datasets {
		there, err := client.FindDataset(ctx, &spatev1.FindDatasetRequest{Sha256: d.GetSha256()})
		if err == nil && !there.GetComplete() {
			err = put(ctx, client, dir, d)
		}
		if err != nil {
			return fmt.Errorf("cannot send the rows of workload %s to the coordinator: %w", workload, err)
		}
	}
	return nil
}

// put sends one dataset.
func put(ctx context.Context, client spatev1.RunServiceClient, dir string, d *spatev1.Dataset) error {
	s, err := store.Open(dir)
	if err != nil {
		return err
	}
	file, err := s.Open(d.GetSha256())
	if err != nil {
		return err
	}
	defer file.Close()
	stream, err := client.PutDataset(ctx)
	if err != nil {
		return err
	}
	m := &spatev1.PutDatasetRequest{Sha256: d.GetSha256(), Size: d.GetSize()}
	err = store.SendPieces(file, func(piece []byte) error {
		m.Data = piece
		err := stream.Send(m)
		m = &spatev1.PutDatasetRequest{}
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the answer says why
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}
