package programs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/process"
)

// Running is a `spate run` and the run directory it makes.
type Running struct {
	*process.Process
	// Dir is the run directory.
	Dir string

	t *testing.T
}

// RunPlan starts a run of a plan.
func RunPlan(t *testing.T, plan string, args ...string) Running {
	t.Helper()
	return Run(t, append([]string{PlanIn(t, plan, nil)}, args...)...)
}

// PlanIn writes a plan, and files by their names beside it, into a folder. It returns the plan's path.
func PlanIn(t *testing.T, plan string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range files {
		write(name, text)
	}
	return write("plan.yaml", plan)
}

// Run starts `spate run` with the given arguments. It records requests.
func Run(t *testing.T, args ...string) Running {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	args = append([]string{"run", "--out", dir, "--records", "jsonl"}, args...)
	return Running{process.Start(t, Built.Spate, args...), dir, t}
}

// Results reads results.json.
func (r Running) Results() results.Result {
	r.t.Helper()
	return Result(r.t, r.Dir)
}

// Text reads a file of the run directory.
func (r Running) Text(name string) string {
	r.t.Helper()
	return Text(r.t, r.Dir, name)
}

// Rows reads requests.jsonl, by stage.
func (r Running) Rows() map[uint32][]Row {
	r.t.Helper()
	rows := map[uint32][]Row{}
	for _, one := range Rows(r.t, r.Dir) {
		rows[one.Stage] = append(rows[one.Stage], one)
	}
	return rows
}

// SentBy lists the agents that sent each request, by index.
func (r Running) SentBy() map[uint64][]string {
	r.t.Helper()
	by := map[uint64][]string{}
	for _, row := range r.Rows()[0] {
		by[row.Index] = append(by[row.Index], row.Agent)
	}
	return by
}

// MustSend fails the test unless each request of a RatePlan between two seconds was sent exactly once.
func (r Running) MustSend(from, to uint64) {
	r.t.Helper()
	by := r.SentBy()
	for i := 20 * from; i < 20*to; i++ {
		if len(by[i]) != 1 {
			r.t.Errorf("request %d of second %d was sent by %q", i, i/20, by[i])
		}
	}
}
