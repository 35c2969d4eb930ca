package spatecmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/daemon"
)

// Exit codes of every command. docs/cli.md and `spate help exit-codes` list them.
const (
	exitDone    = 0 // success; a run is complete
	exitFault   = 1 // a fault of Spate or of the machine
	exitInput   = 2 // the plan, a flag or a setting is wrong; nothing was started
	exitFailed  = 3 // a run failed, is incomplete, or has a verdict to fail on; what was measured is kept
	exitStopped = 4 // a person stopped it; what was measured is kept
)

// exitHelp explains the codes in --help.
const exitHelp = `Exit codes:
  0  done; a run is complete, and its verdict is not one that --fail-on names
  1  a fault of Spate or of this machine
  2  a mistake in a plan, flag or setting; nothing was started
  3  a run failed, or is incomplete (a dead target, a lost agent, a search without an answer), or its verdict is one that --fail-on
     names (default: INVALID); what was measured is kept
  4  stopped by a person; what was measured is kept
More: spate help exit-codes`

// newExitCodes is the help topic about exit codes.
func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `The exit codes are the same for all commands, and the same however the end of a run is learned: run, resume, follow (with and without
--no-fetch) and fetch exit alike.

  CODE  RUN, RESUME, FOLLOW, FETCH                                                OTHER COMMANDS
  0     the run is complete, and its verdict is not one that --fail-on names      done
  1     a fault of Spate or of this machine; the coordinator was lost             the same
  2     a mistake in the plan, its files, a flag or a setting; nothing started     a mistake in what was given
  3     the run failed: a target was dead or hopeless, an agent was lost          validate, plans: never
        the run is incomplete: a part is missing, or a search has no answer       calibrate: no load was safe
        --fail-on invalid (default): the verdict on a measurement is INVALID      export: points were refused
        --fail-on suspect: it is SUSPECT or INVALID
  4     a person stopped it; what was measured is kept, and marked as partial     a person stopped it

--fail-on never leaves verdicts out. SPATE_FAIL_ON and the configuration file set it too. Of a search's probes only the one at the load that
it found counts. spate-coordinator and spate-agent exit with 0, 1 or 2.`,
	}
}

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error as a person's mistake, unless it already has another exit code.
func badInput(err error) error {
	var marked *exitError
	if err == nil || errors.As(err, &marked) {
		return err
	}
	return &exitError{exitInput, err}
}

// badInputf makes an error that is a person's mistake.
func badInputf(format string, args ...any) error {
	return badInput(fmt.Errorf(format, args...))
}

// exitCode returns the exit code of a command's error.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &e):
		return e.code
	case daemon.IsBadInput(err):
		return exitInput
	}
	return exitFault
}

// stopped reports whether a command ended because a person wanted it to.
func stopped(err error) bool { return exitCode(err) == exitStopped }
