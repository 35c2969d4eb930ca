// Package process runs programs for tests, each in its own directory and independent of the settings of the person who
// runs the tests. It captures their output, waits for them, and ends them with the test. Only tests, and the packages
// that start servers for tests, import it. It knows nothing of what the programs do.
package process

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/lists"
)

// Timeout is how long tests wait for what should happen at once. It is long because a machine may be busy.
const Timeout = 60 * time.Second

// Process is a running program. It is killed at the end of the test. If the test failed, its output is logged.
type Process struct {
	// Name of the process in messages.
	Name string
	// Dir is the directory in which it was started, and its home.
	Dir string
	// Stdout and Stderr keep its output.
	Stdout, Stderr Output

	tb    testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a program in its own directory.
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
	// Start starts the command.
	Start() error
	// Wait waits for its end. It is called once.
	Wait() error
}

// Launch uses a Starter to start a command of tb.Context(), in the command's directory or else in its own.
func Launch(tb testing.TB, name string, cmd *exec.Cmd, by Starter) *Process {
	tb.Helper()
	if _, err := os.Stat(cmd.Path); err != nil { // Which also tells go test's cache that the result depends on it.
		tb.Fatal(err)
	}
	home := cmd.Dir
	if home == "" {
		home = tb.TempDir()
	}
	p := &Process{Name: name, Dir: home, tb: tb, cmd: cmd, ended: make(chan struct{})}
	cmd.Cancel = func() error { return nil } // Cleanup ends the process, after logging its output.
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

// Settings are NAME=VALUE pairs that a package's tests pass to all their programs. TestMain sets them.
var Settings []string

// Environment returns the environment with Settings in place of all SPATE_ variables.
func Environment() (env []string) {
	env = lists.Where(os.Environ(), func(pair string) bool { return !strings.HasPrefix(pair, "SPATE_") })
	return append(env, Settings...)
}

// end kills the process if it is running, and logs its output if the test failed.
func (p *Process) end() {
	p.Kill()
	if p.tb.Failed() {
		p.tb.Logf("%s %s\n--- said:\n%s---", p.Name, strings.Join(p.cmd.Args[1:], " "), p.Printed())
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and waits for it. It may be called more than once.
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

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit waits for the process's end and returns its exit code.
func (p *Process) Exit() int {
	p.tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * Timeout):
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

// Printed returns everything that the process has printed.
func (p *Process) Printed() string { return p.Stdout.String() + p.Stderr.String() }

// Await waits until the output of the process, on either stream, matches the pattern. It returns the match and its
// groups.
func (p *Process) Await(pattern string) []string {
	p.tb.Helper()
	wanted, late := regexp.MustCompile(pattern), time.After(Timeout)
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
			if match := wanted.FindStringSubmatch(p.Printed()); match != nil {
				return match
			}
			p.tb.Fatalf("%s has ended and never said %q", p.Name, pattern)
		case <-late:
			p.tb.Fatalf("%s does not say %q", p.Name, pattern)
		}
	}
}

// FreeAddress returns ports from lowestPort to highestPort. Linux gives connections ports from 32768 on, and macOS and
// Windows from 49152 on, unless they are configured otherwise.
const lowestPort, highestPort = 20_000, 31_999

// given holds the addresses that FreeAddress has returned.
var given sync.Map

// FreeAddress returns host and port of loopback where nothing listens, for a program that cannot choose a port itself,
// or that is restarted at the same address. It returns none twice, and no connection gets the port meanwhile. Another
// program may take it, which is unlikely.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	const tries = 100
	var err error
	for range tries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort+1)))
		if _, known := given.LoadOrStore(address, true); known {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address); err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
		return address
	}
	tb.Fatalf("no free port in %d tries: %v", tries, err)
	return ""
}

// Eventually polls until the condition holds.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for begin := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > Timeout {
			tb.Fatalf("waited in vain: %s", what)
		}
	}
}

// Output keeps what a process prints. It may be read while the process runs.
type Output struct {
	mu      sync.Mutex
	said    bytes.Buffer
	changed chan struct{}
}

// Write appends what the process prints.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.said.Write(b)
}

// now returns the output so far, and a channel that is closed when there is more.
func (o *Output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.said.String(), o.changed
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.String()
}

// Parallel lets n tests of a package run at once, unless a person has set -parallel. TestMain calls it in packages
// whose tests wait for networks, programs and clocks more than they need processors: Go runs as many at once as there
// are processors.
func Parallel(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if set {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
