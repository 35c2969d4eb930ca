//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/terminaltest"
)

// twoStages is a plan of two stages on the built-in simulator.
const twoStages = `
name: watched
targets: [{name: sim, simulator: {}}]
workloads: [{random: {isl: 50, osl: 10}}]
loads: [{concurrency: [2], duration: 2s}, {concurrency: [3], duration: 600s}]
`

// live starts spate with a plan in full screen, in a terminal of 80 columns.
func live(t *testing.T, plan string, args ...string) (*process.Process, *terminaltest.Terminal) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	terminal := terminaltest.New(t, 80, 24)
	cmd := exec.CommandContext(t.Context(), programs.Built.Spate, append([]string{"run", "plan.yaml", "--live"}, args...)...)
	cmd.Dir = dir
	return process.Launch(t, "spate", cmd, terminaltest.Session{Cmd: cmd, Terminal: terminal}), terminal
}

// kept reads the result in the run directory of a plan that ran in a directory.
func kept(t *testing.T, p *process.Process) (r results.Result) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(p.Dir, "runs", "*", "results.json"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	data, err := os.ReadFile(found[0])
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A person watches a run, looks at an earlier stage and stops the run. The results then stand in the terminal, which is
// as it was before.
func TestWatchARunAndStopIt(t *testing.T) {
	t.Parallel()
	p, terminal := live(t, twoStages)
	terminal.Await("stage 1 of 2 · sim · 50:10 · concurrency 2")
	terminal.Await("stage 2 of 2 · sim · 50:10 · concurrency 3")
	terminal.Await("TTFT ms")
	terminal.Press("\x1b[D")
	terminal.Await("esc: back to stage 2")
	terminal.Press("\x1b")
	terminal.Resize(100, 30)
	terminal.Await("3 in flight")
	terminal.Press("s")
	terminal.Await("Stop the run?")
	terminal.Press("d")
	p.MustExit(4)
	terminal.Await("Run directory: runs/")
	terminal.Await("stopped on request")
	if !terminal.Unchanged() {
		t.Error("the terminal is not as it was before")
	}
	if r := kept(t, p); *r.Run.Outcome != "stopped" || len(r.Stages) != 2 {
		t.Errorf("outcome %s, %d stages", *r.Run.Outcome, len(r.Stages))
	}
}

// Ctrl-C does on the screen what it does without one: the first drains, the second cancels. The requests last until
// they are cancelled.
func TestInterruptOnTheScreen(t *testing.T) {
	t.Parallel()
	p, terminal := live(t, `
name: watched
targets: [{name: sim, simulator: {decode_step: 60s}}]
workloads: [{random: {isl: 50, osl: 10}}]
loads: [{concurrency: [3], duration: 600s}]
drain_timeout: 1h
`)
	terminal.Await("3 in flight")
	terminal.Press("\x03")
	terminal.Await("stopping: waiting for requests in flight; Ctrl-C again cancels them")
	terminal.Press("\x03")
	p.MustExit(4)
	if !terminal.Unchanged() {
		t.Error("the terminal is not as it was before")
	}
}

// A run does not depend on its terminal: when that is closed, the run goes on to its end and its results are kept.
func TestAClosedTerminalChangesNoRun(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"--live=true", "--live=false"} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			p, terminal := live(t, `
name: watched
targets: [{name: sim, simulator: {}}]
workloads: [{random: {isl: 50, osl: 10}}]
loads: [{concurrency: [2], duration: 2s}]
`, with)
			terminal.Await("concurrency 2")
			terminal.Close()
			p.Exit() // the code is of what could not be printed
			if r := kept(t, p); *r.Run.Outcome != "done" || !r.Run.Complete {
				t.Errorf("outcome %s, complete %v", *r.Run.Outcome, r.Run.Complete)
			}
		})
	}
}
