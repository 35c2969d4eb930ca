package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// say makes this test's own program print as a started program.
const say = "say"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == say {
		speak()
		return
	}
	goleak.VerifyTestMain(m)
}

// speak prints what a test asks for, on both outputs, and then waits to be ended, or exits with code 3.
func speak() {
	dir, _ := os.Getwd()
	fmt.Println("in", dir, "home", os.Getenv("HOME"), "settings", os.Getenv("SPATE_COORDINATOR"))
	fmt.Fprintln(os.Stderr, "ready at 127.0.0.1:7700")
	if slices.Contains(os.Args, "end") {
		os.Exit(3)
	}
	time.Sleep(time.Hour) // the runtime ends a program all of whose goroutines wait for each other
}

func own(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// A program runs in its own directory, without the settings of the person who runs the tests, and both of its outputs
// are captured.
func TestStart(t *testing.T) {
	t.Setenv("SPATE_COORDINATOR", "10.0.0.1:7700")
	p := Start(t, own(t), say, "end")
	if match := p.Await(`ready at (\S+)`); match[1] != "127.0.0.1:7700" {
		t.Errorf("it heard %q", match)
	}
	p.MustExit(3)
	if want := fmt.Sprintf("in %s home %s settings \n", p.Dir, p.Dir); p.Stdout.String() != want ||
		!strings.HasPrefix(p.Printed(), want) {
		t.Errorf("it said %q, want %q", p.Printed(), want)
	}
}

// A program ends when it is killed, at the latest with its test.
func TestKill(t *testing.T) {
	var last *Process
	t.Run("left running", func(t *testing.T) {
		last = Start(t, own(t), say)
		killed := Start(t, own(t), say)
		killed.Await("ready")
		killed.Kill()
		killed.Kill()
		if code := killed.Exit(); code != -1 {
			t.Errorf("it was killed and ended with %d", code)
		}
		last.Await("ready")
	})
	select {
	case <-last.Ended():
	default:
		t.Error("it outlives its test")
	}
}

// failing is a test that another test inspects.
type failing struct {
	testing.TB
	said   strings.Builder
	failed bool
	after  []func()
}

func (f *failing) Helper()           {}
func (f *failing) Failed() bool      { return f.failed }
func (f *failing) Cleanup(do func()) { f.after = append(f.after, do) }

func (f *failing) Logf(format string, args ...any) { fmt.Fprintf(&f.said, format, args...) }

func (f *failing) Skipf(format string, args ...any) {
	f.Logf("SKIP "+format, args...)
	panic(f)
}

func (f *failing) Fatalf(format string, args ...any) {
	f.failed = true
	f.Logf(format, args...)
	panic(f)
}

// Waiting in vain fails with a message, and a failed test logs the output of its programs.
func TestAwaitInVain(t *testing.T) {
	f := &failing{TB: t}
	p := Start(f, own(t), say, "end")
	func() {
		defer func() { _ = recover() }() // of Fatalf
		p.Await("never")
	}()
	for _, do := range f.after {
		do()
	}
	for _, want := range []string{`has ended and never said "never"`, "ready at", "in " + p.Dir} {
		if !strings.Contains(f.said.String(), want) {
			t.Errorf("it says %q, without %q", f.said.String(), want)
		}
	}
}

// A server that tests need is skipped with the command that tests against it, or must be at the module's root.
func TestTool(t *testing.T) {
	for servers, want := range map[string]string{
		"":                 "SKIP NOT TESTED AGAINST NOTHING: make test-databases",
		"influxd,nothings": "SKIP NOT TESTED AGAINST NOTHING: make test-databases",
		"influxd,nothing":  "NO NOTHING: stat " + moduleFile(t, ".bin/nothing") + ": no such file or directory: make .bin/nothing",
	} {
		t.Setenv(Servers, servers)
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }() // of Fatalf and Skipf
			Tool(f, "nothing", "Nothing")
		}()
		if got := f.said.String(); got != want {
			t.Errorf("%s=%s: it says %q, want %q", Servers, servers, got, want)
		}
	}
}

// moduleFile returns the path of a file at the root of this module.
func moduleFile(t *testing.T, name string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, name)
}
