package main

import (
	"errors"
	"fmt"
)

// Exit codes of every command. README.md and `spate --help` list them.
const (
	exitDone    = 0 // all went well; a run is complete
	exitFault   = 1 // something of Spate's own or of the machine failed
	exitInput   = 2 // the plan, a flag or a setting is wrong; nothing was started
	exitFailed  = 3 // a run ended early, or reached its end with something missing: a dead target, a lost agent; what was measured is kept
	exitStopped = 4 // a person stopped it; what a run has measured is kept
)

// exitHelp explains the codes in --help.
const exitHelp = `Exit codes:
  0  done; a run is complete
  1  a fault of Spate or of this machine
  2  a mistake in a plan, flag or setting; nothing was started
  3  a run failed, or is done and something is missing (a dead target, a lost agent); what was measured is kept
  4  stopped by a person; what was measured is kept`

// exitError is an error that asks for a certain exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error as a person's mistake, unless it has another exit code already.
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
	}
	return exitFault
}

// stopped says whether a command has ended because a person wanted it.
func stopped(err error) bool { return exitCode(err) == exitStopped }
