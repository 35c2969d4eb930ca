// Package command holds what all commands share: exit codes, checks of arguments, groups of flags, and interrupts before
// a run.
package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes of every command. docs/cli.md and `spate help exit-codes` list them.
const (
	ExitDone    = 0 // success; a run is complete
	ExitFault   = 1 // a fault of Spate or of the machine
	ExitInput   = 2 // the plan, a flag or a setting is wrong; nothing was started
	ExitFailed  = 3 // a run failed, is incomplete, or has a verdict to fail on; what was measured is kept
	ExitStopped = 4 // a person stopped it; what was measured is kept
)

// ExitHelp explains the codes in --help.
const ExitHelp = `Exit codes:
  0  done; a run is complete, and its verdict is not one that --fail-on names
  1  a fault of Spate or of this machine
  2  a mistake in a plan, flag or setting; nothing was started
  3  a run failed, or is incomplete (a dead target, a lost agent, a search without an answer), or its verdict is one that --fail-on
     names (default: INVALID); what was measured is kept
  4  stopped by a person; what was measured is kept
More: spate help exit-codes`

// NewExitCodes is the help topic about exit codes.
func NewExitCodes() *cobra.Command {
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

// Exit gives an error the exit code of the program.
func Exit(code int, err error) error { return &exitError{code, err} }

// BadInput marks an error as a person's mistake, unless it already has another exit code.
func BadInput(err error) error {
	var marked *exitError
	if err == nil || errors.As(err, &marked) {
		return err
	}
	return Exit(ExitInput, err)
}

// BadInputf makes an error that is a person's mistake.
func BadInputf(format string, args ...any) error {
	return BadInput(fmt.Errorf(format, args...))
}

// ExitCode returns the exit code of a command's error.
func ExitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.code
	}
	return ExitFault
}

// Stopped reports whether a command ended because a person wanted it to.
func Stopped(err error) bool { return ExitCode(err) == ExitStopped }

// ErrPrinted goes with an exit code whose reason the command has already printed.
var ErrPrinted = errors.New("see above")

// Arguments wraps a check of positional arguments so that mistakes in them exit with the code for bad input.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return BadInputf("%w\nsee: %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}
