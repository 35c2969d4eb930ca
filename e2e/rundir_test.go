package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/rundir"
)

// running is a `spate run` and the run directory it makes.
type running struct {
	*process.Process
	t   *testing.T
	dir string
}

// runPlan starts a run of a plan.
func runPlan(t *testing.T, plan string, args ...string) running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	return running{process.Start(t, programs.Spate, append([]string{"run", path, "--out", dir, "--records", "jsonl"},
		args...)...), t, dir}
}

// results reads results.json.
func (r running) results() results.Result {
	r.t.Helper()
	return rundir.Result(r.t, r.dir)
}

// text reads a file of the run directory.
func (r running) text(name string) string {
	r.t.Helper()
	return rundir.Text(r.t, r.dir, name)
}

type row = rundir.Row

// rows reads requests.jsonl, by stage.
func (r running) rows() map[uint32][]row {
	r.t.Helper()
	rows := map[uint32][]row{}
	for _, one := range rundir.Rows(r.t, r.dir) {
		rows[one.Stage] = append(rows[one.Stage], one)
	}
	return rows
}
