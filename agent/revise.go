package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// errEnded is why a load takes nothing over any more.
var errEnded = errors.New("the load has ended: what it was to take over is sent by nobody")

// revise changes what of the schedule is the agent's: the same with more handovers. What it takes over it sends, late
// if need be. It is an error, and changes nothing, if the stripe is any other change, if it takes away what may have
// been sent by now, if what comes is beyond the agent's own limits, or if the load has ended. It may be called at any
// time from any goroutine, and blocks for as long as it takes to walk a second of the schedule.
func (l *load) revise(stripe *spatev1.Stripe) error {
	l.revising.Lock()
	defer l.revising.Unlock()
	if l.ended || l.starting.Err() != nil || l.running.Err() != nil {
		return errEnded
	}
	if err := l.checkGiven(stripe, clock.Now().Sub(l.start)); err != nil {
		return err
	}
	if err := l.share.revise(stripe); err != nil {
		return err
	}
	if l.revised != nil {
		l.revised()
	}
	return nil
}

// checkGiven returns an error if a handover that is new takes arrivals of this agent's that were due before now.
func (l *load) checkGiven(stripe *spatev1.Stripe, now time.Duration) error {
	if l.closed != nil {
		return nil // whose slots are not taken at all
	}
	for i, h := range stripe.GetHandovers() {
		if from := time.Duration(h.GetFromNs()); i >= len(l.stripe.GetHandovers()) &&
			h.GetFromRank() == stripe.GetRank() && from <= now {
			return fmt.Errorf("handover %d takes this agent's arrivals from %v on, and it came at %v: what was due since may have been sent",
				i, from, now.Round(time.Millisecond))
		}
	}
	return nil
}

// revise changes a share that is no load yet, or one of a load that has its lock.
func (s *share) revise(stripe *spatev1.Stripe) error {
	part, err := s.part.Revised(stripe)
	if err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	if s.closed != nil {
		if err := s.reviseClosed(part); err != nil {
			return fmt.Errorf("stripe: %w", err)
		}
	} else {
		s.scout.Revise(part) // in this order: whoever hears of the second has the first
		s.open.Revise(part)
	}
	s.stripe, s.part = stripe, part
	return nil
}

// reviseClosed changes a closed loop, unless it were to have more slots than the agent may.
func (s *share) reviseClosed(part arrival.Share) error {
	next, err := arrival.NewClosed(s.stage.GetLoad(), s.stage.GetSeed(), part)
	if err != nil {
		return err
	}
	f := countFiles()
	f.open = max(f.open-s.closed.Slots(), 0) // their connections count among those of the new number
	if err := s.limits.checkStreams(next.Slots(), f); err != nil {
		return err
	}
	return s.closed.Revise(part)
}

// attend begins to tell of each revision, nil not to. It returns once no call is under way.
func (l *load) attend(revised func()) {
	l.revising.Lock()
	defer l.revising.Unlock()
	l.revised = revised
}

// reopen takes drain back, if nothing but the end of the schedule was its reason, and reports whether the load may go
// on.
func (l *load) reopen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starting.Err() != nil || l.draining != nil &&
		!l.draining.Stop() { // that one is cancelling what is in flight already
		return false
	}
	l.draining = nil
	if l.taking.Err() != nil {
		l.taking, l.stopTaking = context.WithCancel(l.starting)
	}
	if l.closed != nil {
		l.over = 0
		l.endBy(max(clock.Now().Sub(l.start), 0))
	}
	return true
}
