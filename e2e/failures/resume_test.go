package failures

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// threeStages has three stages of about a second each.
const threeStages = `
name: three
targets:
  - {name: server, endpoints: [%q], model: m}
workloads:
  - random: {isl: 10, osl: 10}
loads:
  - concurrency: [2, 3, 4]
    requests: 40
`

// folder is where a person runs one command after another.
type folder struct {
	t   *testing.T
	dir string
}

// spate starts a command in the folder.
func (f folder) spate(args ...string) *process.Process {
	f.t.Helper()
	return process.StartIn(f.t, f.dir, programs.Built.Spate, args...)
}

// plan writes a plan against a server into the folder, and returns its name.
func (f folder) plan(name string, server programs.Simulation) string {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), fmt.Appendf(nil, threeStages, server.URLs[0]),
		0o600); err != nil {
		f.t.Fatal(err)
	}
	return name
}

// runs returns the run directories in the folder.
func (f folder) runs() []string {
	f.t.Helper()
	found, err := filepath.Glob(filepath.Join(f.dir, "runs", "*", "ledger.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	for i, path := range found {
		found[i] = filepath.Dir(path)
	}
	return found
}

// A local run that is killed sends nothing more, whatever commands run in its folder. Only spate runs resume with its
// directory continues it, and then to the end.
func TestAKilledRunIsContinuedByResumeAlone(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]func(t *testing.T, f folder, p *process.Process, s programs.Simulation){
		"when its ledger is there": func(t *testing.T, f folder, _ *process.Process, _ programs.Simulation) {
			process.Eventually(t, "there is a ledger", func() bool { return len(f.runs()) == 1 })
		},
		"as its first stage begins": func(_ *testing.T, _ folder, p *process.Process,
			_ programs.Simulation) {
			p.Await(`3 stages on`)
		},
		"in its first stage": func(t *testing.T, _ folder, _ *process.Process,
			s programs.Simulation) {
			s.AwaitAnswers(20)
		},
		"between stages": func(_ *testing.T, _ folder, p *process.Process,
			_ programs.Simulation) {
			p.Await(`\[1/3\].*done`)
		},
		"in its last stage": func(t *testing.T, _ folder, _ *process.Process,
			s programs.Simulation) {
			s.AwaitAnswers(110)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := folder{t, t.TempDir()}
			old, other := programs.Simulate(t, 1, "--decode-step", "5ms"), programs.Simulate(t, 1)
			p := f.spate("run", f.plan("old.yaml", old))
			until(t, f, p, old)
			p.Kill()
			if len(f.runs()) != 1 {
				t.Fatalf("runs %v", f.runs())
			}
			f.mustContinueNothing(old, other)
			f.mustResume(f.runs()[0], old)
		})
	}
}

// A run whose output is closed ends like a killed one.
func TestARunWhoseOutputIsCutIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	old, other := programs.Simulate(t, 1, "--decode-step", "5ms"), programs.Simulate(t, 1)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `"$0" run "$1" 2>&1 | head -2`, programs.Built.Spate,
		f.plan("old.yaml", old))
	cmd.Dir = f.dir
	process.Launch(t, "head", cmd, cmd).MustExit(0)
	f.mustContinueNothing(old, other)
	f.mustResume(f.runs()[0], old)
}

// mustContinueNothing runs another plan, and a coordinator with an agent, beside an interrupted run. They must send
// nothing to its server.
func (f folder) mustContinueNothing(old, other programs.Simulation) {
	f.t.Helper()
	before, interrupted := old.Answers(), f.runs()[0]
	p := f.spate("run", f.plan("other.yaml", other), "--out", "other")
	p.MustExit(0)
	if strings.Contains(p.Printed(), "waiting") {
		f.t.Errorf("it waits for another run: %s", p.Printed())
	}
	if result := programs.Result(f.t, filepath.Join(f.dir, "other")); !result.Run.Complete || len(result.Stages) != 3 {
		f.t.Errorf("the other run: %+v", result.Run)
	}
	f.serveBeside()
	report := f.spate("report", interrupted)
	report.MustExit(0)
	report.Await(`spate runs resume ` + interrupted)
	const inFlight = 4 // requests that the server was still answering when the run was killed
	if after := old.Answers(); after > before+inFlight {
		f.t.Errorf("%d requests reached the server of the interrupted run", after-before)
	}
}

// serveBeside serves the folder's runs with a coordinator and an agent until they are connected, and checks how they
// show the interrupted run.
func (f folder) serveBeside() {
	f.t.Helper()
	c := process.StartIn(f.t, f.dir, programs.Built.Coordinator, "--listen", "127.0.0.1:0", "--no-gossip")
	address := c.Await(`coordinator serves" address=(\S+)`)[1]
	a := process.Start(f.t, programs.Built.Agent, "--coordinator", address)
	c.Await(`agent connected`)
	list := f.spate("runs", "--coordinator", address)
	list.MustExit(0)
	if !strings.Contains(list.Printed(), "broken") || strings.Contains(list.Printed(), "running") ||
		strings.Contains(list.Printed(), "waiting") {
		f.t.Errorf("the coordinator lists\n%s", list.Printed())
	}
	a.Kill()
	c.Kill()
}

// mustResume resumes a run, and checks that each of its stages was measured once, and completely.
func (f folder) mustResume(dir string, server programs.Simulation) {
	f.t.Helper()
	p := f.spate("runs", "resume", dir)
	p.MustExit(0)
	result := programs.Result(f.t, dir)
	if !result.Run.Complete || len(result.Stages) != 3 {
		f.t.Fatalf("run %+v", result.Run)
	}
	for _, s := range result.Stages {
		if s.Requests.Completed != 40 || !s.Complete {
			f.t.Errorf("stage %d: %+v", s.Index, s.Requests)
		}
	}
	f.spate("runs", "resume", dir).MustExit(2) // it has ended
}

// Two runs at once in one folder do not affect each other.
func TestTwoRunsAtOnceInOneFolder(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	servers := []programs.Simulation{programs.Simulate(t, 1), programs.Simulate(t, 1)}
	var both []*process.Process
	for i, s := range servers {
		both = append(both, f.spate("run", f.plan(fmt.Sprintf("%d.yaml", i), s)))
	}
	for _, p := range both {
		p.MustExit(0)
	}
	if len(f.runs()) != 2 {
		t.Errorf("runs %v", f.runs())
	}
	for _, dir := range f.runs() {
		if result := programs.Result(t, dir); !result.Run.Complete || len(result.Stages) != 3 {
			t.Errorf("%s: %+v", dir, result.Run)
		}
	}
	for _, s := range servers {
		if n := s.Answers(); n < 120 || n > 160 { // the preparation also sends requests
			t.Errorf("a server had %d requests", n)
		}
	}
}
