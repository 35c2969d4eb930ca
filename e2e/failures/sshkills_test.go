//go:build linux

package failures

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// TestNothingIsLeftOnHosts: at whatever moment of a run with --on (copying, starting, running, ending) and by whichever
// signal the command, one of its connections, or the server's end of one is ended: within the lease, no process and no
// file is left on the hosts, but for the program and datasets.
func TestNothingIsLeftOnHosts(t *testing.T) {
	s := startSSH(t)
	here := t.TempDir()
	t.Setenv("TMPDIR", here)
	url := programs.Simulate(t, 1).URLs[0]
	cache := filepath.Join(s.dir, "spate")
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}
	const whole = 8 * time.Second // of a run, about
	moments, ended := map[string]int{}, map[string]int{}
	for i := range *kills {
		if i%5 == 0 { // it is copied again
			copies, _ := filepath.Glob(filepath.Join(cache, "spate-*"))
			for _, program := range copies {
				_ = os.Remove(program) // agents that run keep it
			}
		}
		p := process.StartIn(t, t.TempDir(), programs.Built.Spate, "run", "--target", url, "--model", "simulated",
			"--concurrency", "4", "--isl", "20", "--osl", "20", "--duration", "2s", "--on", "eu=a,b")
		select {
		case <-p.Ended():
			if !strings.Contains(p.Printed(), "Trust:") {
				t.Errorf("it has ended by itself:\n%s", p.Printed())
			}
			continue
		case <-time.After(rand.N(whole)): // not a wait: the moment is what is random
		}
		said, moment := p.Printed(), "before all"
		for _, c := range [][2]string{{"Copying", "copying"}, {"AGENT ", "running"}, {"Trust:", "ending"}} {
			if strings.Contains(said, c[0]) {
				moment = c[1]
			}
		}
		victims := map[string][]int{"spate": {p.PID()}, "ssh": children(p.PID()), "sshd": s.sessions()}
		kind := []string{"spate", "ssh", "sshd"}[rand.IntN(3)]
		if len(victims[kind]) == 0 {
			kind = "spate"
		}
		signal := signals[i%len(signals)]
		err := syscall.Kill(victims[kind][rand.IntN(len(victims[kind]))], signal)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		moments[moment]++
		ended[kind+" by "+signal.String()]++
		p.Exit()
	}
	var files, processes []string
	process.Eventually(t, "nothing is left on the hosts", func() bool {
		files, processes = s.left(t), marked(filepath.Join(cache, "spate-"))
		return len(files)+len(processes)+len(s.sessions()) == 0
	})
	t.Logf("%d runs, hit when %v, of which ended %v: %d files and %d processes are left", *kills, moments, ended, len(files), len(processes))
}
