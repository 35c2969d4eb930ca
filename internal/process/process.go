// Package process runs programs for tests: each in a directory of its own and away from the settings of the person who
// tests. It tells what they say, waits for it, and ends them with the test. Only tests and the packages that start
// servers for them import it. It knows nothing of what the programs do.
package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience is how long anything is waited for that should come at once. It is long: a machine may be busy.
const Patience = 60 * time.Second

// Process is a running program. It is killed at the end of the test, and shows what it said if the test failed.
type Process struct {
	// Name is what it is called in messages.
	Name string
	// Dir is the directory it was started in, which is its home as well.
	Dir string
	// Stdout and Stderr keep what it says.
	Stdout, Stderr Output

	tb    testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a program in a directory of its own.
func Start(tb testing.TB, program string, args ...string) *Process {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), program, args...)
	return Launch(tb, filepath.Base(program), cmd, cmd)
}

// StartIn starts a program in a directory that it shares with others.
func StartIn(tb testing.TB, dir, program string, args ...string) *Process {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), program, args...)
	cmd.Dir = dir
	return Launch(tb, filepath.Base(program), cmd, cmd)
}

// Starter starts a command and waits for its end, as exec.Cmd does.
type Starter interface {
	// Start starts it.
	Start() error
	// Wait waits for its end. It is called once.
	Wait() error
}

// Launch starts a command of tb.Context() by way of a starter, in its directory or else in one of its own.
func Launch(tb testing.TB, name string, cmd *exec.Cmd, by Starter) *Process {
	tb.Helper()
	home := cmd.Dir
	if home == "" {
		home = tb.TempDir()
	}
	p := &Process{Name: name, Dir: home, tb: tb, cmd: cmd, ended: make(chan struct{})}
	cmd.Cancel = func() error { return nil } // Cleanup ends it, which shows what it said before.
	cmd.Dir, cmd.Env = home, append(Environment(), "HOME="+home, "XDG_CONFIG_HOME="+home)
	cmd.Stdout, cmd.Stderr = &p.Stdout, &p.Stderr
	if err := by.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = by.Wait() // The exit code says it.
		close(p.ended)
	}()
	tb.Cleanup(p.end)
	return p
}

// Settings are NAME=VALUE pairs that a package's tests give all their programs. TestMain sets them.
var Settings []string

// Environment is the environment with Settings in place of Spate's.
func Environment() (env []string) {
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SPATE_") {
			env = append(env, pair)
		}
	}
	return append(env, Settings...)
}

// end kills the process if it runs and shows what it said if the test failed.
func (p *Process) end() {
	p.Kill()
	if p.tb.Failed() {
		p.tb.Logf("%s %s\n--- said:\n%s---", p.Name, strings.Join(p.cmd.Args[1:], " "), p.Said())
	}
}

// PID is the process's number, which /proc has it under.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and waits for it. It may be called again.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // It may have ended already.
	<-p.ended
}

// Signal sends a signal to the process, unless it has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Fatal(err)
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit waits for the process's end and returns its exit code.
func (p *Process) Exit() int {
	p.tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * Patience):
		p.tb.Fatalf("%s does not end", p.Name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// MustExit fails the test unless the process ends with the code.
func (p *Process) MustExit(code int) {
	p.tb.Helper()
	if got := p.Exit(); got != code {
		p.tb.Fatalf("%s exits with %d, want %d", p.Name, got, code)
	}
}

// Said is all that the process has said.
func (p *Process) Said() string { return p.Stdout.String() + p.Stderr.String() }

// Await waits until the process has said what matches the pattern, on either output, and returns the match and its
// groups.
func (p *Process) Await(pattern string) []string {
	p.tb.Helper()
	wanted, late := regexp.MustCompile(pattern), time.After(Patience)
	for {
		out, outChanged := p.Stdout.now()
		log, logChanged := p.Stderr.now()
		if match := wanted.FindStringSubmatch(out + log); match != nil {
			return match
		}
		select {
		case <-outChanged:
		case <-logChanged:
		case <-p.ended:
			if match := wanted.FindStringSubmatch(p.Said()); match != nil {
				return match
			}
			p.tb.Fatalf("%s has ended and never said %q", p.Name, pattern)
		case <-late:
			p.tb.Fatalf("%s does not say %q", p.Name, pattern)
		}
	}
}

// Eventually polls until the condition holds.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for begin := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > Patience {
			tb.Fatalf("waited in vain: %s", what)
		}
	}
}
