// Package command holds what all commands share: exit codes, checks of arguments, flags and other settings, interrupts
// before a run, and the shell of the daemons.
//
// Settings have one precedence: flags, then SPATE_* environment variables, then the configuration file, then defaults.
// Only commands use the package; components take plain structs. spate-agent links it: it knows no sinks and no results.
package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// Exit codes of every command. docs/cli.md and `spate help exit-codes` list them.
const (
	ExitDone    = 0 // success; a run is complete
	ExitFault   = 1 // a fault of Spate or of the machine
	ExitInput   = 2 // the plan, a flag or a setting is wrong; nothing was started
	ExitFailed  = 3 // a run failed, is incomplete, or has a verdict to fail on; what was measured is kept
	ExitStopped = 4 // a person stopped it; what was measured is kept
	ExitMissed  = 5 // a run is complete, and a threshold failed
)

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
func BadInputf(format string, args ...any) error { return BadInput(fmt.Errorf(format, args...)) }

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

// Arguments wraps a check of positional arguments: its errors say how the command is used, suggest a similar subcommand
// if the command has any, and exit with the code for bad input.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case cmd.HasAvailableSubCommands() && len(args) > 0:
			return BadInputf("unknown command %q%s\nsee: %s --help", args[0], nearCommand(cmd, args[0]),
				cmd.CommandPath())
		}
		if strings.Contains(err.Error(), "arg(s)") { // cobra's words for too few or too many
			_, wanted, _ := strings.Cut(cmd.Use, " ")
			err = fmt.Errorf("give %s, got %s", wanted, cmp.Or(strings.Join(args, " "), "nothing"))
		}
		return BadInputf("%w\nusage: %s\nsee: %s --help", err, cmd.UseLine(), cmd.CommandPath())
	}
}

// nearCommand suggests a subcommand with a similar name, if there is one.
func nearCommand(cmd *cobra.Command, name string) string {
	available := lists.Where(cmd.Commands(), (*cobra.Command).IsAvailableCommand)
	return DidYouMean(words.Nearest(name, lists.Each(available, (*cobra.Command).Name)))
}

// DidYouMean ends an error about an unknown name with a suggestion. Empty: there is none.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}
