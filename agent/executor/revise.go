package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// errEnded is returned when a load can take over nothing more.
var errEnded = errors.New("the load has ended: it cannot take over arrivals")

// Revise changes which arrivals are the agent's: the new stripe must be the old one with more handovers. The agent
// sends the arrivals that it takes over, late if necessary. revise returns an error, and changes nothing, if the stripe
// differs in any other way, if it takes away arrivals that may already be sent, if the new stripe exceeds the agent's
// limits, or if the load has ended. It may be called at any time from any goroutine. It blocks for as long as it takes
// to walk a second of the schedule.
func (l *Load) Revise(stripe *spatev1.Stripe) error {
	l.revising.Lock()
	defer l.revising.Unlock()
	if l.ended || l.starting.Err() != nil || l.running.Err() != nil {
		return errEnded
	}
	if err := l.checkHandovers(stripe, clock.Now().Sub(l.start)); err != nil {
		return err
	}
	if err := l.Stage.Revise(stripe); err != nil {
		return err
	}
	if l.revised != nil {
		l.revised()
	}
	return nil
}

// checkHandovers returns an error if a new handover takes arrivals of this agent's that were due before now.
func (l *Load) checkHandovers(stripe *spatev1.Stripe, now time.Duration) error {
	if l.Closed != nil {
		return nil // closed.Revise rejects any handover that takes slots from the agent
	}
	for i, h := range stripe.GetHandovers() {
		if from := time.Duration(h.GetFromNs()); i >= len(l.Stripe.GetHandovers()) &&
			h.GetFromRank() == stripe.GetRank() && from <= now {
			return fmt.Errorf("handover %d takes this agent's arrivals from %v on, but came at %v: arrivals due in "+
				"between may have been sent",
				i, from, now.Round(time.Millisecond))
		}
	}
	return nil
}

// setRevised sets the function that is called after each revision; nil: none. It returns once no call is under way.
func (l *Load) setRevised(revised func()) {
	l.revising.Lock()
	defer l.revising.Unlock()
	l.revised = revised
}

// reopen reverts a drain whose only reason was the end of the schedule, and reports whether the load may continue.
func (l *Load) reopen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starting.Err() != nil || l.draining != nil &&
		!l.draining.Stop() { // the drain is already cancelling what is in flight
		return false
	}
	l.draining = nil
	if l.taking.Err() != nil {
		l.taking, l.stopTaking = context.WithCancel(l.starting)
	}
	if l.Closed != nil {
		l.timeEnd = 0
		l.endBy(max(clock.Now().Sub(l.start), 0))
	}
	return true
}
