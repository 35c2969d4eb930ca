package regions

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/netlab"
)

// patience is how long anything is waited for that should come at once. It is long: a machine may be busy.
const patience = 60 * time.Second

// process is a running program on a host. It is killed at the end of the test, and shows what it said if the test failed.
type process struct {
	t      *testing.T
	name   string
	cmd    *netlab.Command
	stdout output
	stderr output
	ended  chan struct{}
}

// start starts a program on a host in a directory of its own, away from settings of the person who tests. Its clocks since boot are ahead by
// skew.
func start(t *testing.T, on *netlab.Host, skew time.Duration, program string, args ...string) *process {
	t.Helper()
	home := t.TempDir()
	p := &process{t: t, name: on.Name() + ": " + filepath.Base(program), ended: make(chan struct{})}
	p.cmd = on.SkewedCommand(t.Context(), skew, program, args...)
	p.cmd.Cancel = func() error { return nil } // Cleanup ends it, which shows what it said before
	p.cmd.Dir, p.cmd.Env = home, append(cleanEnvironment(), "HOME="+home, "XDG_CONFIG_HOME="+home)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code says it
		close(p.ended)
	}()
	t.Cleanup(p.end)
	return p
}

// cleanEnvironment is the environment without Spate's settings.
func cleanEnvironment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SPATE_") {
			env = append(env, pair)
		}
	}
	return env
}

// end kills the process if it runs and shows what it said if the test failed.
func (p *process) end() {
	p.kill()
	if p.t.Failed() {
		p.t.Logf("%s %s\n--- said:\n%s%s---", p.name, strings.Join(p.cmd.Args[1:], " "), p.stdout.String(), p.stderr.String())
	}
}

// kill ends the process as kill -9 does, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// exit waits for the process's end and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * patience):
		p.t.Fatalf("%s does not end", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// await waits until the process has said what matches the pattern, on either output, and returns the match and its groups.
func (p *process) await(pattern string) []string {
	p.t.Helper()
	wanted, late := regexp.MustCompile(pattern), time.After(patience)
	for {
		out, outChanged := p.stdout.now()
		log, logChanged := p.stderr.now()
		if match := wanted.FindStringSubmatch(out + log); match != nil {
			return match
		}
		select {
		case <-outChanged:
		case <-logChanged:
		case <-p.ended:
			if match := wanted.FindStringSubmatch(p.said()); match != nil {
				return match
			}
			p.t.Fatalf("%s has ended and never said %q", p.name, pattern)
		case <-late:
			p.t.Fatalf("%s does not say %q", p.name, pattern)
		}
	}
}

// said is all that the process has said.
func (p *process) said() string { return p.stdout.String() + p.stderr.String() }

// output keeps what a process says.
type output struct {
	mu      sync.Mutex
	said    bytes.Buffer
	changed chan struct{}
}

// Write takes in what the process says.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.said.Write(b)
}

// now returns what was said, and a channel that is closed when there is more.
func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.said.String(), o.changed
}

func (o *output) String() string {
	said, _ := o.now()
	return said
}
