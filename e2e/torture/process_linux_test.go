package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/internal/process"
)

// launched is a running program. It dies with the test.
type launched struct {
	t     *testing.T
	name  string
	log   string // file with its output
	cmd   *exec.Cmd
	ended chan struct{}
}

// launch starts a program, whose clocks since boot are ahead by skew.
func launch(t *testing.T, dir, name string, skew time.Duration, program string, args ...string) *launched {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	p := &launched{t: t, name: name, log: log.Name(), cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.Env = append(process.Environment(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	// The signal comes when the thread ends; the thread waits for the process.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.ended)
		defer log.Close()
		err := p.begin(skew)
		begun <- err
		if err == nil {
			_ = p.cmd.Wait() // ProcessState has how it ended
		}
	}()
	if err := <-begun; err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(p.kill)
	return p
}

// begin starts the process from the calling thread.
func (p *launched) begin(skew time.Duration) error {
	if skew != 0 {
		if err := netlab.Skew(skew); err != nil {
			p.t.Logf("%s runs with the machine's clocks: %v", p.name, err)
		}
	}
	return p.cmd.Start()
}

// signal sends a signal, unless the process has ended.
func (p *launched) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process at once.
func (p *launched) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// endsWithin reports whether the process ends within a time.
func (p *launched) endsWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// await waits until the process's output matches, and returns the groups.
func (p *launched) await(pattern string) []string {
	p.t.Helper()
	wanted := regexp.MustCompile(pattern)
	var match []string
	process.Eventually(p.t, fmt.Sprintf("%s says %q", p.name, pattern), func() bool {
		said, err := os.ReadFile(p.log)
		match = wanted.FindStringSubmatch(string(said))
		return err == nil && match != nil
	})
	return match
}
