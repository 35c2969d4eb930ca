// Package fleet is the agents of a coordinator: which are connected, which process a name belongs to, which run an
// agent belongs to, and which take no new runs. It knows nothing of what runs do.
package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Fleet is the agents of a coordinator. The coordinator's lock guards it, except Cordons.
//
// An agent belongs to one run at most, from when the run takes it until the run ends, or no longer needs it. It stays
// with its run while it is disconnected.
type Fleet struct {
	// Cordons are the agents that take no new runs.
	Cordons Cordons

	interval time.Duration // between two heartbeats
	silence  time.Duration // after which another process may take a name
	sessions map[string]*Session
	owners   map[string]owner // process that last connected, by agent's name
	taken    map[string]taken // agents that belong to a run, by name
}

// owner is an agent's process and the identity in its certificate.
type owner struct {
	incarnation uint64
	who         certs.Identity
	heard       clock.Instant // last message, once it has no session; 0: it has one
}

// taken is an agent that belongs to a run.
type taken struct {
	run  string
	info *spatev1.AgentInfo
}

// New returns a fleet without agents. interval is the time between two heartbeats. A name can be taken by another
// process once its own was silent for as long as silence.
func New(interval, silence time.Duration) *Fleet {
	return &Fleet{interval: interval, silence: silence, sessions: map[string]*Session{}, owners: map[string]owner{},
		taken: map[string]taken{}}
}

// mostOwners is the number of names beyond which names without a session are forgotten, unless most have one.
const mostOwners = 1 << 14

// Superseded returns the session of another process with the name of a new one, which the caller drops for the reason,
// nil if there is none. It refuses the new session unless the other process has been silent. The same process may
// reconnect before its old connection is known to be broken: its old session ends. An error is a status.
func (f *Fleet) Superseded(s *Session) (old *Session, reason string, err error) {
	old = f.sessions[s.Name()]
	if old == nil {
		return nil, "", nil
	}
	if old.Incarnation == s.Incarnation {
		old.End(status.Error(codes.Aborted, "the agent has reconnected"))
		return nil, "", nil
	}
	exact := clock.Now().Sub(old.Heard)
	silent := exact.Round(time.Millisecond)
	if exact < f.silence {
		return nil, "", status.Errorf(codes.AlreadyExists, "agent name %s is taken by a process at %s that was heard "+
			"%v ago: give this agent another name", s.Name(), old.Address, silent)
	}
	return old, fmt.Sprintf("silent for %v, and another process took its name", silent), nil
}

// Join registers an agent's session in place of one that it has superseded.
func (f *Fleet) Join(s *Session) {
	name := s.Name()
	f.sessions[name] = s
	if len(f.owners) >= max(mostOwners, 2*len(f.sessions)) {
		maps.DeleteFunc(f.owners, func(old string, _ owner) bool { return f.sessions[old] == nil })
	}
	f.owners[name] = owner{incarnation: s.Incarnation, who: s.Who}
	if t, ok := f.taken[name]; ok {
		f.taken[name] = taken{t.run, s.Info}
	}
}

// Leave removes a session. It returns false if another session has taken its place.
func (f *Fleet) Leave(s *Session) bool {
	name := s.Name()
	if f.sessions[name] != s {
		return false
	}
	delete(f.sessions, name)
	known := f.owners[name]
	known.heard = s.Heard
	f.owners[name] = known
	return true
}

// CheckOwner refuses a peer that gives the incarnation of a process known by another certificate. Incarnations are in
// ledgers, which every client may fetch, so knowing one proves nothing. An error is a status.
func (f *Fleet) CheckOwner(name string, incarnation uint64, who certs.Identity) error {
	if known, ok := f.owners[name]; ok && known.incarnation == incarnation && known.who != who {
		return status.Errorf(codes.PermissionDenied,
			"agent %s is a process that is known by the certificate of %s: %s cannot take its place",
			name, known.who, who)
	}
	return nil
}

// Session returns the session of an agent, nil if it has none.
func (f *Fleet) Session(name string) *Session { return f.sessions[name] }

// Sessions returns all sessions, by name.
func (f *Fleet) Sessions() []*Session {
	return slices.SortedFunc(maps.Values(f.sessions), func(a, b *Session) int {
		return strings.Compare(a.Name(), b.Name())
	})
}

// RunOf returns the run that an agent belongs to, empty if there is none.
func (f *Fleet) RunOf(agent string) string { return f.taken[agent].run }

// Take makes an agent belong to a run.
func (f *Fleet) Take(run string, a *spatev1.AgentInfo) { f.taken[a.GetName()] = taken{run, a} }

// Free makes an agent free.
func (f *Fleet) Free(agent string) { delete(f.taken, agent) }

// FreeAll makes all agents of a run free.
func (f *Fleet) FreeAll(run string) {
	maps.DeleteFunc(f.taken, func(_ string, t taken) bool { return t.run == run })
}

// TakenBy returns the names of the agents that belong to a run, in any order.
func (f *Fleet) TakenBy(run string) (names []string) {
	for name, t := range f.taken {
		if t.run == run {
			names = append(names, name)
		}
	}
	return names
}

// Barred returns in a word why an agent takes no new run, empty if it does.
func (f *Fleet) Barred(name string) string {
	switch f.Cordons.Of(name) {
	case spatev1.Cordon_CORDON_DRAINED:
		return "drained"
	case spatev1.Cordon_CORDON_CORDONED:
		return "cordoned"
	}
	if s := f.sessions[name]; s != nil && s.Heartbeat.GetLeaving() {
		return "about to end"
	}
	return ""
}

// FreeAgents returns the sessions of the agents that belong to no run and may take one, by name.
func (f *Fleet) FreeAgents() []*Session {
	return slices.DeleteFunc(f.Sessions(), func(s *Session) bool {
		return f.RunOf(s.Name()) != "" || f.Barred(s.Name()) != ""
	})
}

// Allotable describes the agents for package allotment.
func (f *Fleet) Allotable() (out []allotment.Agent) {
	for name, t := range f.taken {
		out = append(out, allotment.Agent{Info: t.info, Run: t.run, Barred: f.Barred(name) != ""})
	}
	free := func(s *Session) allotment.Agent { return allotment.Agent{Info: s.Info} }
	return append(out, lists.Each(f.FreeAgents(), free)...)
}

// Others returns in words which connected agents do not belong to a run, whose first stage is given, and why.
func (f *Fleet) Others(run string, first *spatev1.Stage) (out []string) {
	for _, s := range f.Sessions() {
		name := s.Name()
		switch other, why, barred := f.RunOf(name), allotment.Unfit(s.Info, first), f.Barred(name); {
		case other == run:
		case why != "":
			out = append(out, name+": "+why)
		case other != "":
			out = append(out, fmt.Sprintf("%s: run %s has it", name, other))
		case barred != "":
			out = append(out, name+": it is "+barred)
		}
	}
	return out
}

// Session is the control stream of one agent. The coordinator's lock guards all but the channels.
type Session struct {
	// Address is where the agent's messages come from, Who the identity in its certificate; zero without one.
	Address string
	Who     certs.Identity
	// Info and Incarnation are from Hello, with which the agent introduced itself.
	Info        *spatev1.AgentInfo
	Incarnation uint64
	Hello       *spatev1.Hello
	// Heard is when the last message came. Heartbeat is the last one, nil before the first.
	Heard     clock.Instant
	Heartbeat *spatev1.Heartbeat
	// Outbox has the messages to be sent to the agent.
	Outbox chan *spatev1.ConnectResponse
	// Gone is closed when the session has ended, for Reason.
	Gone   chan struct{}
	Reason error
}

// outboxSize is more than the number of messages that an agent is ever sent before it answers.
const outboxSize = 64

// NewSession returns the session of an agent that has just introduced itself.
func NewSession(h *spatev1.Hello, address string, who certs.Identity) *Session {
	return &Session{
		Address: address, Who: who, Info: h.GetAgent(), Incarnation: h.GetIncarnation(), Hello: h, Heard: clock.Now(),
		Outbox: make(chan *spatev1.ConnectResponse, outboxSize), Gone: make(chan struct{}),
	}
}

// Name returns the agent's name.
func (s *Session) Name() string { return s.Info.GetName() }

// End tells the session's handler to return. The first reason is kept.
func (s *Session) End(reason error) {
	if s.Reason == nil {
		s.Reason = reason
		close(s.Gone)
	}
}

// Send queues a message. It never blocks: if the queue is full because the agent does not read, the session ends.
func (s *Session) Send(m *spatev1.ConnectResponse) {
	select {
	case s.Outbox <- m:
	default:
		s.End(status.Error(codes.ResourceExhausted, "the agent does not read its control stream"))
	}
}

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

// Health counts the agents that have a session by their health, in a word: "ready", "busy".
func (f *Fleet) Health(work Work) map[string]int {
	out, now := map[string]int{}, clock.Now()
	for _, s := range f.sessions {
		health, _ := f.status(s, now, work)
		out[strings.ToLower(strings.TrimPrefix(health.String(), "AGENT_HEALTH_"))]++
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

// Absent describes the agents that have no session: those that are found by gossip, and those that are cordoned. Of the
// latter it says when they were heard last, as far as this process knows.
func (f *Fleet) Absent(found []*spatev1.AgentStatus) (out []*spatev1.AgentStatus) {
	left := f.Cordons.All()
	for name := range f.sessions {
		delete(left, name)
	}
	for _, a := range found {
		if name := a.GetAgent().GetName(); f.sessions[name] == nil {
			a.Cordon = left[name]
			delete(left, name)
			out = append(out, a)
		}
	}
	for name, is := range left {
		s := &spatev1.AgentStatus{Agent: &spatev1.AgentInfo{Name: name},
			Health: spatev1.AgentHealth_AGENT_HEALTH_MISSING, Cordon: is}
		if heard := f.owners[name].heard; heard != 0 {
			s.SilentFor = durationpb.New(clock.Now().Sub(heard))
		}
		out = append(out, s)
	}
	return out
}
