package runcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/plans"
)

// showFlags say how a run is shown while it is in progress.
type showFlags struct {
	Live  bool          `flag:"live" help:"show the run in full screen, with keys to look at it and to stop it"`
	Quiet bool          `rare:"yes" flag:"no-progress" help:"print only the run directory and problems"` // neither progress nor tables
	log   *terminal.Log // of the parts of a run in this process; nil: there are none
}

// settle resolves --live and --no-progress, of which a typed one wins over the other from the environment or the
// configuration file.
func (s *showFlags) settle(flags *pflag.FlagSet) error {
	command.Prefer(flags, "live", "no-progress")
	if s.Live && s.Quiet {
		return errors.New("--live and --no-progress exclude one another")
	}
	return nil
}

// logTo returns a writer for the log of the parts of a run in this process.
func (s *showFlags) logTo(w io.Writer) io.Writer {
	s.log = terminal.NewLog(w)
	return s.log
}

// onScreen makes a follower show its run in full screen, if that is wanted and there is a terminal for it. Otherwise it
// shows lines. plan is what is known before the run; nil: nothing.
func (s *showFlags) onScreen(cmd *cobra.Command, f *follower, plan *plans.Plan) {
	if s.log != nil {
		s.log.Within(nil, f.view)
	}
	if !s.Live {
		return
	}
	if !terminal.Possible(cmd.InOrStdin(), cmd.ErrOrStderr()) {
		if command.Typed(cmd.Flags(), "live") {
			fmt.Fprintln(cmd.ErrOrStderr(), "spate: --live needs a terminal for input and standard error: showing lines")
		}
		return
	}
	wishes := make(chan terminal.Wish, 4)
	f.wishes = wishes
	f.screen = terminal.NewScreen(terminal.ScreenOptions{
		In: os.Stdin, Out: os.Stderr, RunID: f.id, Plan: plan, Watches: f.watches, Lines: f.view,
		Ask: func(w terminal.Wish) {
			select {
			case wishes <- w:
			default: // a person who presses faster than that has been heard
			}
		},
	})
	if s.log != nil {
		s.log.Within(f.screen, f.view)
	}
}
