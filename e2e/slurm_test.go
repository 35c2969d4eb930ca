//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// srunState is where a stand-in for srun keeps the ids of its tasks' processes. With it in the environment this test's
// own program is the stand-in: it starts tasks here, with the input and the part of the environment that srun passes,
// and says what srun 22.05 says. The partitions' names say what is wrong with them.
const srunState = "SPATE_TEST_SRUN"

func init() {
	if dir := os.Getenv(srunState); dir != "" {
		os.Exit(standInSrun(dir, os.Args[1:]))
	}
}

func standInSrun(dir string, args []string) (code int) {
	given := map[string]string{}
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		name, value, _ := strings.Cut(args[0][2:], "=")
		given[name], args = value, args[1:]
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	pid(os.Getpid()).keep(dir, "srun")
	switch given["partition"] {
	case "nope":
		fmt.Fprintln(os.Stderr, "srun: error: invalid partition specified: nope\n"+
			"srun: error: Unable to allocate resources: Invalid partition name specified")
		return 1
	case "full":
		<-ended
		fmt.Fprintln(os.Stderr, "srun: error: Unable to allocate resources: Job/step already completing or completed")
		return 1
	}
	n, _ := strconv.Atoi(given["ntasks"])
	var tasks []*exec.Cmd
	var inputs []io.Writer
	for i := range n {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = []string{"SLURM_PROCID=" + strconv.Itoa(i), fmt.Sprintf("SLURMD_NODENAME=n%d", i), "TMPDIR=" + dir}
		for name := range strings.SplitSeq(given["export"], ",") {
			if value, is := os.LookupEnv(name); is {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
		}
		cmd.Stderr, cmd.SysProcAttr = struct{ io.Writer }{os.Stderr}, &syscall.SysProcAttr{Setsid: true}
		in, _ := cmd.StdinPipe()
		if err := cmd.Start(); err != nil {
			return 1
		}
		tasks, inputs = append(tasks, cmd), append(inputs, in)
		pid(cmd.Process.Pid).keep(dir, "task")
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			for _, in := range inputs {
				fmt.Fprintln(in, lines.Text())
			}
		}
	}()
	go func() {
		<-ended
		for _, t := range tasks {
			_ = t.Process.Signal(syscall.SIGTERM)
		}
	}()
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() {
			if t.Wait() != nil {
				fmt.Fprintf(os.Stderr, "srun: error: n%d: task %d: Exited with exit code %d\n", i, i, t.ProcessState.ExitCode())
			}
		})
	}
	all.Wait()
	return 0
}

// withSrun puts the stand-in into PATH and returns its state.
func withSrun(t *testing.T) (dir string) {
	t.Helper()
	dir = withStandIn(t, "srun", srunState)
	t.Cleanup(func() {
		for _, p := range pidsIn(dir, "task") {
			p.kill(syscall.SIGKILL)
		}
	})
	return dir
}

// TestOnSlurm: --on slurm: starts an agent on each node by srun. The token is not in arguments. Nothing is left, also
// if srun is killed.
func TestOnSlurm(t *testing.T) {
	dir := withSrun(t)
	url := programs.Simulate(t, 1).URLs[0]
	for i, killed := range []bool{false, true} {
		args := []string{"run", "--target", url, "--model", "simulated", "--concurrency", "6", "--isl", "20", "--osl", "20",
			"--duration", "4s", "--on", "eu=slurm:2?partition=load&address=127.0.0.1", "--out", filepath.Join(dir, fmt.Sprint("out", i))}
		p := process.Start(t, programs.Built.Spate, args...)
		p.Await(`Short requests that showed`)
		was := slices.DeleteFunc(pidsIn(dir, "task"), func(p pid) bool { return !p.alive() })
		if len(was) != 2 {
			t.Errorf("tasks %v", was)
		}
		for _, a := range was {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", a))
			if line := string(text); line != "" && (!strings.Contains(line, "token=env:SPATE_JOIN_TOKEN&") || !strings.Contains(line, "--name=slurm-load-")) {
				t.Errorf("arguments %q", line)
			}
		}
		if killed {
			for _, s := range pidsIn(dir, "srun") {
				s.kill(syscall.SIGKILL)
			}
		}
		p.MustExit(0)
		said := p.Printed()
		if killed {
			p.Await(`The agent on slurm:2 has ended: srun: signal: killed`)
		} else if !regexp.MustCompile(`slurm-load-0 +eu .* slurm:2 +shared`).MatchString(said) || !strings.Contains(said, "slurm-load-1") ||
			strings.Contains(said, "PARTIAL") || strings.Contains(said, "has ended") {
			t.Errorf("it says\n%s", said)
		}
		process.Eventually(t, "the agents end", func() bool { return !slices.ContainsFunc(was, pid.alive) })
	}
	for _, of := range []string{"spate-*", "tmp.*"} { // the latter are of mktemp
		if left, _ := filepath.Glob(filepath.Join(dir, of)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// What Slurm refuses is said in its own words, and so is an address that nodes cannot reach.
func TestOnSlurmInVain(t *testing.T) {
	dir := withSrun(t)
	mustRefuse(t, map[string]string{
		"slurm:2?partition=nope":       `--on slurm:2: the agent has ended: srun: error: invalid partition specified: nope`,
		"slurm:2?address=nowhere.test": `--on slurm:2: .*agent has ended: spate: --join: the coordinator at nowhere.test:\d+: `,
		"slurm:0":                      `"0" is not a number of nodes from 1 to 1000: want slurm:NODES`,
		"slurm:2?nodes=3":              `"nodes" is not an option: want one of partition, region, address`,
		"slurm:2?address=a/b":          `address=a/b: want HOST or HOST:PORT`,
	})
	p := process.Start(t, programs.Built.Spate, append(runOn, "slurm:2?partition=full")...)
	process.Eventually(t, "srun waits for nodes", func() bool { return slices.ContainsFunc(pidsIn(dir, "srun"), pid.alive) })
	p.Signal(syscall.SIGINT)
	p.MustExit(4)
	process.Eventually(t, "the agents end", func() bool { return !slices.ContainsFunc(pidsIn(dir, "task"), pid.alive) })
	t.Setenv("PATH", t.TempDir())
	p = process.Start(t, programs.Built.Spate, append(runOn, "slurm:2")...)
	p.MustExit(2)
	p.Await("srun\": executable file not found in .PATH: run spate where people")
}
