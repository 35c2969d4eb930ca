package ready

import (
	"fmt"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

// Schedule makes the schedule of a stripe's arrivals.
func (s *Stage) Schedule(stripe *spatev1.Stripe, l Limits) (err error) {
	if s.Part, err = schedule.NewShare(stripe); err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	s.Stripe, s.limits = stripe, l
	s.Counted = schedule.Counted(s.Assigned.GetLoad())
	if s.Assigned.GetLoad().GetConcurrency() > 0 {
		return s.scheduleClosed(l)
	}
	return s.scheduleOpen(l)
}

func (s *Stage) scheduleClosed(l Limits) (err error) {
	if s.Closed, err = schedule.NewClosed(s.Assigned.GetLoad(), s.Assigned.GetSeed(), s.Part); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := l.checkStreams(s.Closed.Slots(), countFiles()); err != nil {
		return err
	}
	return l.checkPorts(s.Closed.Slots(), l.portsTowards(s.Target()))
}

func (s *Stage) scheduleOpen(l Limits) (err error) {
	for _, o := range []**schedule.Open{&s.Open, &s.Scout} {
		if *o, err = s.newOpen(); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	f := countFiles()
	if limit := s.Assigned.GetLoad().GetMaxInFlight(); limit > 0 {
		return s.holdBack(limit, f)
	}
	s.MaxStreams = l.streams(f)
	if most := l.portsTowards(s.Target()).connections(l.AgentsInProcess); most > 0 {
		s.MaxStreams = min(s.MaxStreams, most)
	}
	return l.checkStreams(1, f)
}

// holdBack sets the agent's part of a limit on the requests in flight. It returns an error if the agent has no part of
// it, or may not hold that many.
func (s *Stage) holdBack(limit uint32, f files) error {
	places := s.Part.Places(limit)
	if places == 0 {
		return fmt.Errorf("load: max_in_flight %d over all agents leaves this agent none, so it could never send its "+
			"arrivals: raise max_in_flight, or use fewer agents", limit)
	}
	if err := s.limits.checkStreams(places, f); err != nil {
		return err
	}
	s.MaxStreams = places
	return s.limits.checkPorts(places, s.limits.portsTowards(s.Target()))
}

// newOpen returns an open loop's schedule, from its start.
func (s *Stage) newOpen() (*schedule.Open, error) {
	load := s.Assigned.GetLoad()
	if load.GetReplaySpeed() == 0 {
		return schedule.NewOpen(load, s.Assigned.GetSeed(), s.Part)
	}
	times, err := s.times()
	if err != nil {
		return nil, err
	}
	return schedule.NewReplay(load, s.Assigned.GetSeed(), times, s.Part)
}

// times returns the times of the trace, or of all traces of a mixture.
func (s *Stage) times() (schedule.Times, error) {
	var all []workload.TraceTimes
	for i, part := range content.Parts(s.Assigned.GetWorkload()) {
		if s.rows[i] == nil {
			return nil, fmt.Errorf("a replay needs a workload with a trace, but %s has no rows", part.GetName())
		}
		all = append(all, s.rows[i])
	}
	if s.Assigned.GetWorkload().GetMix() == nil {
		return s.rows[0], nil
	}
	if s.traces == nil {
		var err error
		if s.traces, err = workload.NewTraces(all); err != nil {
			return nil, err
		}
	}
	return s.traces, nil
}

// varies reports whether a load's phases change its rate.
func varies(load *spatev1.LoadPoint) bool {
	phases := load.GetPhases()
	return slices.ContainsFunc(phases, func(p *spatev1.Phase) bool {
		return p.GetFrom() != phases[0].GetFrom() || p.To != nil && p.GetTo() != p.GetFrom()
	})
}

// Revise changes a stage that has no load yet, or whose load has locked revising.
func (s *Stage) Revise(stripe *spatev1.Stripe) error {
	part, err := s.Part.Revised(stripe)
	if err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	if s.Closed != nil {
		err = s.reviseClosed(part)
	} else {
		err = s.reviseHeld(part)
	}
	if err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	if s.Closed == nil {
		s.Scout.Revise(part) // in this order: a reader that sees the second change sees the first, too
		s.Open.Revise(part)
	}
	s.Stripe, s.Part = stripe, part
	return nil
}

// reviseClosed changes a closed loop, unless it would have more slots than the agent may hold.
func (s *Stage) reviseClosed(part schedule.Share) error {
	next, err := schedule.NewClosed(s.Assigned.GetLoad(), s.Assigned.GetSeed(), part)
	if err != nil {
		return err
	}
	f := countFiles()
	f.open = max(f.open-s.Closed.Slots(), 0) // connections of current slots count among those of the new number
	if err := s.limits.checkStreams(next.Slots(), f); err != nil {
		return err
	}
	return s.Closed.Revise(part)
}

// reviseHeld changes the agent's part of an open loop's limit, if there is one, unless it would have more requests in
// flight than the agent may hold.
func (s *Stage) reviseHeld(part schedule.Share) error {
	limit := s.Assigned.GetLoad().GetMaxInFlight()
	if limit == 0 {
		return nil
	}
	places, f := part.Places(limit), countFiles()
	f.open = max(f.open-s.MaxStreams, 0) // connections of current places count among those of the new number
	if err := s.limits.checkStreams(places, f); err != nil {
		return err
	}
	s.MaxStreams = places
	return nil
}
