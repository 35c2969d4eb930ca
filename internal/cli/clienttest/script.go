package clienttest

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// This file runs the test scripts of commands: testdata/script/*.txtar, each a terminal session of a user. Only
// tests of commands use it.

// RunScripts runs all scripts of the package. In addition to testscript's own commands, scripts have
//
//	exits CODE PROGRAM [ARGUMENT...]
//
// which runs a program and checks its exit code, and
//
//	awaits PATTERN PROGRAM [ARGUMENT...]
//
// which runs a program again and again until it succeeds and its standard output matches. TestMain names the programs.
// environment lists NAME=VALUE pairs for each script, in addition to its own cache and configuration folders.
func RunScripts(t *testing.T, environment ...string) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "XDG_CACHE_HOME="+e.WorkDir+"/.cache", "XDG_CONFIG_HOME="+e.WorkDir+"/.config")
			e.Vars = append(e.Vars, environment...)
			return nil
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "awaits": awaits},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, err := 0, ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got, err = exit.ExitCode(), nil
	}
	ts.Check(err)
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// awaitTimeout bounds how long awaits tries.
const awaitTimeout = time.Minute

func awaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: awaits PATTERN PROGRAM [ARGUMENT...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err := ts.Exec(args[1], args[2:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Since(begin) > awaitTimeout {
			ts.Fatalf("still not so after %v", awaitTimeout)
		}
	}
}
