package fleet

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Work returns whether an agent takes part in a run, and whether no run needs it that is about to end, or drained.
type Work func(name string) (busy, released bool)

// Statuses describes the agents that have a session and are asked for.
func (f *Fleet) Statuses(asked func(name string) bool, work Work) (out []*spatev1.AgentStatus) {
	now := clock.Now()
	for name, s := range f.sessions {
		if !asked(name) {
			continue
		}
		health, cordon := f.status(s, now, work)
		out = append(out, &spatev1.AgentStatus{
			Agent: proto.CloneOf(s.Info), Health: health, Heartbeat: proto.CloneOf(s.Heartbeat),
			SilentFor: durationpb.New(now.Sub(s.Heard)), Address: s.Address, Cordon: cordon,
		})
	}
	return out
}

// Health counts the agents that have a session by their health.
func (f *Fleet) Health(work Work) map[spatev1.AgentHealth]int {
	out, now := map[spatev1.AgentHealth]int{}, clock.Now()
	for _, s := range f.sessions {
		health, _ := f.status(s, now, work)
		out[health]++
	}
	return out
}

// status returns the health of an agent, and whether it takes runs: one that is drained and still has a part of a run
// is draining.
func (f *Fleet) status(s *Session, now clock.Instant, work Work) (spatev1.AgentHealth, spatev1.Cordon) {
	busy, released := work(s.Name())
	cordon := f.Cordons.Of(s.Name())
	if cordon == spatev1.Cordon_CORDON_DRAINED && !released {
		cordon = spatev1.Cordon_CORDON_DRAINING
	}
	switch {
	case now.Sub(s.Heard) > 2*f.interval:
		return spatev1.AgentHealth_AGENT_HEALTH_SILENT, cordon
	case s.Heartbeat.GetLeaving():
		return spatev1.AgentHealth_AGENT_HEALTH_LEAVING, cordon
	case busy && cordon != spatev1.Cordon_CORDON_DRAINED:
		return spatev1.AgentHealth_AGENT_HEALTH_BUSY, cordon
	}
	return spatev1.AgentHealth_AGENT_HEALTH_READY, cordon
}

// Absent describes the agents that have no session: those that are found by gossip, those that are cordoned, and those
// that are expected. Of those that are missing it says when they were heard last, as far as this process knows.
func (f *Fleet) Absent(found []*spatev1.AgentStatus, expected Expected) (out []*spatev1.AgentStatus) {
	left, present := f.Cordons.All(), f.Connected()
	for _, s := range f.sessions {
		delete(left, s.Name())
	}
	for _, a := range found {
		if name := a.GetAgent().GetName(); f.sessions[name] == nil {
			a.Cordon = left[name].Is
			delete(left, name)
			out, present = append(out, a), append(present, a.GetAgent())
		}
	}
	for name, said := range left {
		a := &spatev1.AgentInfo{Name: name, Region: said.Region}
		out, present = append(out, f.missing(a, said.Is)), append(present, a)
	}
	for _, a := range expected.Missing(present) {
		out = append(out, f.missing(a, spatev1.Cordon_CORDON_UNSPECIFIED))
	}
	return out
}

// missing describes an agent that should be connected and is not.
func (f *Fleet) missing(a *spatev1.AgentInfo, cordon spatev1.Cordon) *spatev1.AgentStatus {
	s := &spatev1.AgentStatus{Agent: a, Health: spatev1.AgentHealth_AGENT_HEALTH_MISSING, Cordon: cordon}
	if heard := f.owners[a.GetName()].heard; heard != 0 {
		s.SilentFor = durationpb.New(clock.Now().Sub(heard))
	}
	return s
}
