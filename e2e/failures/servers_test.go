//go:build linux

package failures

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// served is a plan whose targets have servers: SPATE is the program, and MARK marks their processes.
const served = `
name: served
targets:
  - name: sim
    model: MARK
    server:
      start: [SPATE, simulate, --model, MARK, --listen, "127.0.0.1:{port}"]
      reset: [sh, -c, "echo {port} >>MARK.resets"]
    settings: {max_running: [1, 4], decode_step: 5ms}
MORE
workloads: [{random: {isl: 10, osl: 10}}]
loads: [{concurrency: [1, 4], requests: 20}]
`

// servedPlan returns the plan with more targets, and its mark.
func servedPlan(t *testing.T, more string) (plan, mark string) {
	t.Helper()
	mark = filepath.Join(t.TempDir(), "mark")
	return strings.NewReplacer("SPATE", programs.Built.Spate, "MARK", mark).Replace(
		strings.Replace(served, "MORE", more, 1)), mark
}

// marked returns the processes whose commands have a mark, but those with the name of a plan.
func marked(mark string) (all []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), mark) {
			all = append(all, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return all
}

// The stages of a target run with its server, which is reset between them and ends with them. A server that does not
// start, takes the wrong port, or dies under load is told with its last lines, and the others go on.
func TestServers(t *testing.T) {
	t.Parallel()
	plan, mark := servedPlan(t, `
  - name: refuses
    model: m
    server: {start: [SPATE, simulate, --no-such-flag, "{port}"]}
  - name: elsewhere
    model: m
    server: {start: [SPATE, simulate, --model, MARK, --listen, "127.0.0.1:0", --config, "/dev/null", --seed, "{port}"]}
    ready: {within: 1s}
  - name: dies
    model: m
    server: {start: [sh, -c, "echo Killed; sleep 2 & SPATE simulate --model m --listen 127.0.0.1:{port} & wait %1; exit 3"]}
  - name: last
    model: MARK
    server: {start: [sh, -c, "echo \"non-default args: {'max_num_seqs': 4}\"; trap '' TERM; SPATE simulate --model MARK --listen 127.0.0.1:{port}", sh, --max-num-seqs, "8"]}
`)
	plan = strings.Replace(plan, "requests: 20", "requests: 60", 1)
	r := programs.RunPlan(t, plan, "--allow-commands")
	r.MustExit(3)
	said := r.Printed()
	for _, want := range []string{
		`The plan runs commands:\n  on this machine: .*"--max-running" "1"`,
		`starting the server of sim max_running:1 decode_step:5ms: .*"127\.0\.0\.1:\d+" "--max-running" "1" "--decode-step" "5ms"`,
		`the server of target refuses: it ended before it was ready; its last lines: .*no-such-flag.*exit status 2`,
		`the server of target elsewhere: http://127.0.0.1:\d+ .*was not ready within 1s: .*refused; its last lines: Serving http`,
		`last: The command sets max_num_seqs to 8, the engine says 4\.`,
		`the server of target dies: it ended .*; its last lines: Killed .*exit status 3`,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("it does not say %s:\n%s", want, said)
		}
	}
	var complete []string
	for _, s := range r.Results().Stages {
		if s.Complete {
			complete = append(complete, fmt.Sprintf("%d of %s", s.Requests.Completed, s.Target))
		}
	}
	if want := []string{"60 of sim max_running:1 decode_step:5ms", "60 of sim max_running:1 decode_step:5ms", "60 of sim max_running:4 decode_step:5ms",
		"60 of sim max_running:4 decode_step:5ms", "60 of last", "60 of last"}; !slices.Equal(complete, want) {
		t.Errorf("the stages that are complete are %q", complete)
	}
	resets, _ := os.ReadFile(mark + ".resets")
	if n := strings.Count(string(resets), "\n"); n != 2 {
		t.Errorf("%d resets, want one for each second stage: %q", n, resets)
	}
	notes := r.Results().Stages[len(r.Results().Stages)-1].Preparations[0].Notes
	if !slices.Contains(notes, "Settings, as the engine says: max_num_seqs 4.") {
		t.Errorf("the notes of its last stage are %q", notes)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("servers are left: %q", left)
	}
}

// Commands of a plan run only after a person has agreed to them.
func TestCommandsNeedConsent(t *testing.T) {
	t.Parallel()
	plan, _ := servedPlan(t, "")
	r := programs.RunPlan(t, plan)
	r.MustExit(2)
	for _, want := range []string{`"--listen" "127.0.0.1:{port}" "--max-running" "4"`, "echo {port}", "--allow-commands"} {
		if !strings.Contains(r.Printed(), want) {
			t.Errorf("it does not say %q:\n%s", want, r.Printed())
		}
	}
}

// The servers of a run that is killed end, and the run that is resumed starts them again.
func TestServersOfAKilledRun(t *testing.T) {
	t.Parallel()
	plan, mark := servedPlan(t, "")
	f := folder{t, t.TempDir()}
	if err := os.WriteFile(filepath.Join(f.dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	p := f.spate("run", "plan.yaml", "--allow-commands")
	p.Await(`max_running:4 .* is ready`)
	p.Signal(syscall.SIGKILL)
	p.Exit()
	process.Eventually(t, "its servers have ended", func() bool { return len(marked(mark)) == 0 })
	again := f.spate("runs", "resume", f.runs()[0], "--allow-commands")
	again.MustExit(0)
	if said := again.Printed(); !strings.Contains(said, "starting the server of sim max_running:4") ||
		strings.Contains(said, "starting the server of sim max_running:1") {
		t.Errorf("it was resumed with other servers:\n%s", said)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("servers are left: %q", left)
	}
}

var kills = flag.Int("kills", 4, "runs that TestNoServerIsLeft and TestNothingIsLeftOnHosts each end at random moments")

// No process of a server is left, at whatever moment of a run, and by whichever signal, spate run is ended.
func TestNoServerIsLeft(t *testing.T) {
	t.Parallel()
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}
	const whole = 4 * time.Second // of a run, about
	served, ended, left := 0, map[syscall.Signal]int{}, 0
	for i := range *kills {
		plan, mark := servedPlan(t, "")
		f := folder{t, t.TempDir()}
		if err := os.WriteFile(filepath.Join(f.dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		p := f.spate("run", "plan.yaml", "--allow-commands")
		select {
		case <-p.Ended():
			continue
		case <-time.After(rand.N(whole)): // not a wait: the moment is what is random
		}
		if len(marked(mark)) > 0 {
			served++
		}
		s := signals[i%len(signals)]
		p.Signal(s)
		p.Exit()
		ended[s]++
		if s == syscall.SIGKILL { // the guard ends it afterwards
			process.Eventually(t, "its servers have ended", func() bool { return len(marked(mark)) == 0 })
		}
		left += len(marked(mark))
	}
	t.Logf("of %d runs %v were ended by a signal, %d while a server ran: %d processes are left", *kills, ended, served, left)
	if left > 0 {
		t.Errorf("%d processes of servers are left", left)
	}
}
