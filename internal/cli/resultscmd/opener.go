package resultscmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// opener opens runs: files, and runs of a coordinator, whose ledgers it fetches into a temporary directory.
type opener struct {
	clustercmd.Flags
	conn  *grpc.ClientConn // nil: no run of a coordinator was opened
	dir   string           // has the fetched ledgers. Empty: there are none
	files []*runfiles.File
}

// close closes what was opened and removes what was fetched.
func (o *opener) close() {
	for _, file := range o.files {
		_ = file.Close() // opened for reading only
	}
	if o.conn != nil {
		_ = o.conn.Close()
	}
	if o.dir != "" {
		_ = os.RemoveAll(o.dir)
	}
}

// open opens a run: a file if one has this name, otherwise a run of the coordinator, if one is given. "latest" is then
// the last one there, else the newest in runs.
func (o *opener) open(ctx context.Context, name string) (*runfiles.File, error) {
	if o.Coordinator == "" {
		name = runfiles.Named(name)
	}
	var file *runfiles.File
	_, err := os.Stat(name)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		file, err = runfiles.Open(name)
	case o.Coordinator != "":
		file, err = o.fetch(ctx, name)
	default:
		err = fmt.Errorf("%s does not exist: give a run directory (runs/ID), a results.json, or the ID of a run "+
			"with --coordinator", name)
	}
	if err == nil {
		o.files = append(o.files, file)
	}
	return file, err
}

// fetch opens a run of the coordinator.
func (o *opener) fetch(ctx context.Context, name string) (file *runfiles.File, err error) {
	if o.conn == nil {
		if o.conn, err = o.Connect(); err != nil {
			return nil, err
		}
		if o.dir, err = os.MkdirTemp("", "spate-compare-"); err != nil {
			return nil, err
		}
	}
	service := spatev1.NewRunServiceClient(o.conn)
	run, err := o.Find(ctx, service, name)
	if err != nil {
		return nil, fmt.Errorf("no file or directory is named %s: %w", name, err)
	}
	if clustercmd.GoesOn(run) {
		return nil, command.BadInputf("run %s has not ended (%s)", run.GetRunId(), watch.State(run))
	}
	dir := filepath.Join(o.dir, fmt.Sprint(len(o.files)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := clustercmd.FetchLedger(ctx, service, run.GetRunId(), filepath.Join(dir, ledger.File)); err != nil {
		return nil, fmt.Errorf("run %s was not fetched: %s", run.GetRunId(), reason.Of(err))
	}
	if file, err = runfiles.Open(dir); err != nil {
		return nil, fmt.Errorf("run %s: %w", run.GetRunId(), err)
	}
	file.Name = run.GetRunId()
	return file, nil
}
