package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// follower follows one run to its end, across broken connections and restarts of its coordinator.
type follower struct {
	client  spatev1.RunServiceClient
	id      string
	address string // of the coordinator. Empty: it is embedded
	watches bool   // the run is somebody else's: an interrupt does not affect it
	view    *terminal.View
	screen  *terminal.Screen     // nil: there is none
	wishes  <-chan terminal.Wish // from the screen's keys
	persist persistence
	servers *servers // of the run's targets, which this command starts; nil: none

	after   uint64      // number of the last event that was seen
	began   atomic.Bool // the run has begun
	waiting atomic.Bool // the run waits for others to end
}

// newFollower makes a follower. patience is how long its coordinator may be gone.
func newFollower(
	client spatev1.RunServiceClient, id, address string, patience time.Duration, v *terminal.View,
) *follower {
	f := &follower{client: client, id: id, address: address, view: v}
	f.persist.say = f.show
	f.persist.awake = func(ctx context.Context) error {
		_, err := client.ListRuns(ctx, &spatev1.ListRunsRequest{Limit: 1}, grpc.WaitForReady(true))
		return err
	}
	if address != "" {
		f.persist.patience = patience
	}
	return f
}

// follow shows the run's events until it has ended, and acts on interrupts.
func (f *follower) follow(ctx context.Context) (*spatev1.RunEnded, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stopSignals := f.passOnSignals(ctx, giveUp)
	defer stopSignals()
	if f.screen != nil {
		f.screen.Open()
		defer f.screen.Close()
	}
	defer f.view.Close()
	defer f.servers.end()
	var ended *spatev1.RunEnded
	err := f.persist.do(ctx, func(ctx context.Context) (err error) {
		ended, err = f.stream(ctx)
		return err
	})
	if err != nil {
		return nil, f.lost(cmp.Or(context.Cause(ctx), err))
	}
	return ended, nil
}

// stream shows the run's events that were not seen yet, until the run's end.
func (f *follower) stream(ctx context.Context) (*spatev1.RunEnded, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.client.FollowRun(ctx, &spatev1.FollowRunRequest{
		RunId: f.id, After: f.after, Windows: f.screen != nil,
	})
	if err != nil {
		return nil, err
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, status.Error(codes.Unavailable, "the events ended before the run")
		}
		if err != nil {
			return nil, err
		}
		if n := response.GetNumber(); n > 0 && n <= f.after {
			continue // seen before the connection broke
		}
		f.after = max(f.after, response.GetNumber())
		if ended := f.take(response.GetEvent()); ended != nil {
			return ended, nil
		}
	}
}

// take shows one event. It returns the run's end, or nil for other events.
func (f *follower) take(e *spatev1.RunEvent) *spatev1.RunEnded {
	if e.GetRunStarted() != nil {
		f.began.Store(true)
		f.waiting.Store(false)
	}
	if w := e.GetServerWanted(); w != nil && f.servers != nil {
		f.servers.wanted <- w
	}
	f.show(e)
	return e.GetRunEnded()
}

// show shows an event on the screen, if there is one, or else in lines.
func (f *follower) show(e *spatev1.RunEvent) {
	if f.screen != nil {
		f.screen.Show(e)
		return
	}
	f.view.Show(e)
}

// neverBegan reports whether an ended run was removed from the queue. Such a run has no data.
func (f *follower) neverBegan(ended *spatev1.RunEnded) bool {
	return f.waiting.Load() && !f.began.Load() && ended.GetOutcome() == spatev1.Outcome_OUTCOME_STOPPED
}

// lost returns an error that says what is known of a run that is no longer followed, and what can be done.
func (f *follower) lost(err error) error {
	if f.address == "" {
		return fmt.Errorf("lost the embedded coordinator while following run %s: %w", f.id, err)
	}
	again := fmt.Sprintf("spate runs follow %s --coordinator %s", f.id, f.address)
	switch {
	case errors.Is(err, errLeft):
		return command.Exit(command.ExitStopped, fmt.Errorf("left run %s, which continues; to follow it again: %s\n"+
			"or stop it: spate runs stop %s --coordinator %s", f.id, again, f.id, f.address))
	case errors.Is(err, errPatience):
		return fmt.Errorf("the coordinator at %s was gone for %s while run %s was followed\nif it is restarted with the same "+
			"--data-dir, the run continues; follow it then with: %s\nif not, what was measured is in its data directory, under "+
			"%[3]s: spate report makes the results from it", f.address, words.Span(f.persist.patience.Seconds()), f.id, again)
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("the coordinator at %s does not know run %s: %s", f.address, f.id, reason.Of(err))
	}
	return fmt.Errorf("cannot follow run %s on the coordinator at %s: %s\nto follow it again: %s", f.id, f.address,
		reason.Of(err), again)
}

// notFetched returns an error that says why the results of an ended run are not here, and what can be done.
func (f *follower) notFetched(err error) error {
	why := reason.Of(err)
	if errors.Is(err, errPatience) {
		why = "the coordinator was gone for " + words.Span(f.persist.patience.Seconds())
	}
	if f.address == "" {
		return fmt.Errorf("the results of run %s are not complete here: %w", f.id, err)
	}
	return fmt.Errorf("the results of run %s were not fetched: %s\nto try again: spate runs fetch %s --coordinator %s", f.id,
		why, f.id, f.address)
}

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
