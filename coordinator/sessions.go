package coordinator

import (
	"context"
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
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/membership"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// session is the control stream of one agent. Coordinator.mu guards all fields but the channels.
type session struct {
	access.Origin
	info        *spatev1.AgentInfo
	incarnation uint64
	hello       *spatev1.Hello
	heard       clock.Instant
	heartbeat   *spatev1.Heartbeat
	outbox      chan *spatev1.ConnectResponse
	ended       bool
	reason      error
	gone        chan struct{} // closed by end: the handler returns reason
}

// outboxSize is more than the number of messages that an agent is ever sent before it answers.
const outboxSize = 64

// end tells the session's handler to return.
func (s *session) end(reason error) {
	if !s.ended {
		s.ended, s.reason = true, reason
		close(s.gone)
	}
}

// send queues a message. It never blocks: if the queue is full because the agent does not read, the session ends.
func (s *session) send(m *spatev1.ConnectResponse) {
	select {
	case s.outbox <- m:
	default:
		s.end(status.Error(codes.ResourceExhausted, "the agent does not read its control stream"))
	}
}

// join registers an agent's session. The same process may reconnect before its old connection is known to be broken.
// Another process with the same name is refused until the first one is gone.
func (c *Coordinator) join(h *spatev1.Hello, from access.Origin) (*session, error) {
	s := &session{
		Origin: from, info: h.GetAgent(), incarnation: h.GetIncarnation(), hello: h, heard: clock.Now(),
		outbox: make(chan *spatev1.ConnectResponse, outboxSize), gone: make(chan struct{}),
	}
	name := s.info.GetName()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, status.Error(codes.Unavailable, "the coordinator is closing")
	}
	if err := c.checkOwner(name, owner{incarnation: s.incarnation, who: s.Who}); err != nil {
		return nil, err
	}
	if old := c.sessions[name]; old != nil {
		if err := c.supersede(old, s); err != nil {
			return nil, err
		}
	}
	c.sessions[name] = s
	c.own(name, owner{incarnation: s.incarnation, who: s.Who})
	s.send(c.welcome())
	c.stopStale(s)
	c.log.Info("agent connected", "agent", name, "region", s.info.GetRegion(), "address", s.Address)
	if r := c.runOf(name); r != nil {
		c.taken[name] = taken{r, s.info}
		c.rejoin(r, s)
		return s, nil
	}
	switch now := clock.Now(); {
	case len(c.queue) > 0:
		c.allot(now)
	case !c.barred(name):
		c.offer(s, now)
	}
	return s, nil
}

// rejoin tells the machine of a run that an agent of the run is connected, and what the agent works on. c.mu is held.
func (c *Coordinator) rejoin(r *run, s *session) {
	c.feed(r, func(r *run, at clock.Instant) {
		r.machine.Connected(at, s.info, s.incarnation, s.hello.GetResume(), s.hello.GetArmed())
		c.tellVersion(r, "agent "+s.info.GetName(), s.info.GetVersion(), at)
	})
}

// tellVersion tells a run's followers, once per program, that a program has another version. Both versions speak the
// same protocol and measure by the same definitions. c.mu is held.
func (c *Coordinator) tellVersion(r *run, who, version string, at clock.Instant) {
	if version == "" || c.cfg.Version == "" || version == c.cfg.Version || r.skewed[who] || len(r.skewed) == maxSkewed {
		return
	}
	if r.skewed == nil {
		r.skewed = make(map[string]bool)
	}
	r.skewed[who] = true
	c.log.Warn("program of another version", "who", who, "version", version, "coordinator_version", c.cfg.Version)
	r.machine.Warn(at, fmt.Sprintf("%s has version %s, the coordinator has %s: they work together, but may differ "+
		"in bug fixes",
		who, version, c.cfg.Version))
}

// maxSkewed bounds the programs of another version that a run's followers are told about.
const maxSkewed = 16

// owner is an agent's process and the identity in its certificate.
type owner struct {
	incarnation uint64
	who         certs.Identity
	heard       clock.Instant // last message, once it has no session; 0: it has one
}

// mostOwners is the number of names beyond which names without a session are forgotten, unless most have one.
const mostOwners = 1 << 14

// checkOwner refuses a peer that gives the incarnation of a process known by another certificate. Incarnations are in
// ledgers, which every client may fetch, so knowing one proves nothing. c.mu is held.
func (c *Coordinator) checkOwner(name string, o owner) error {
	if known, ok := c.owners[name]; ok && known.incarnation == o.incarnation && known.who != o.who {
		c.admission.CallsRefused.Add(1)
		return status.Errorf(codes.PermissionDenied,
			"agent %s is a process that is known by the certificate of %s: %s cannot take its place",
			name, known.who, o.who)
	}
	return nil
}

// own notes which process a name belongs to. It forgets names without a session if there are too many. c.mu is held.
func (c *Coordinator) own(name string, o owner) {
	if len(c.owners) >= max(mostOwners, 2*len(c.sessions)) {
		maps.DeleteFunc(c.owners, func(old string, _ owner) bool { return c.sessions[old] == nil })
	}
	c.owners[name] = o
}

// stopStale tells an agent to stop work for a run that it does not belong to. c.mu is held.
func (c *Coordinator) stopStale(s *session) {
	resume := s.hello.GetResume()
	if r := c.runOf(s.info.GetName()); resume == nil || r != nil && r.id == resume.GetRunId() {
		return
	}
	s.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: resume, Immediately: true, Reason: fmt.Sprintf("run %s is not in progress at this coordinator, "+
			"or continued without the agent", resume.GetRunId()),
	}}})
}

// supersede ends the session that already has the new session's name, or refuses the new session.
func (c *Coordinator) supersede(old, s *session) error {
	name := s.info.GetName()
	silent := clock.Now().Sub(old.heard)
	if old.incarnation == s.incarnation {
		old.end(status.Error(codes.Aborted, "the agent has reconnected"))
		return nil
	}
	if silent < c.cfg.Run.Silence {
		return status.Errorf(codes.AlreadyExists, "agent name %s is taken by a process at %s that was heard %v ago: "+
			"give this agent another name", name, old.Address, silent.Round(time.Millisecond))
	}
	c.drop(old, fmt.Sprintf("silent for %v, and another process took its name", silent.Round(time.Millisecond)))
	return nil
}

// renew answers a heartbeat at once, which renews the agent's lease. An agent whose load has ended also learns whether
// the load of all others has ended. c.mu is held.
func (c *Coordinator) renew(s *session, h *spatev1.Heartbeat) {
	c.renewals.Add(1)
	r := c.runOf(s.info.GetName())
	answer := &spatev1.Renewed{Number: h.GetNumber(), Released: h.GetLeaving() && c.released(s.info.GetName())}
	if r != nil && r.isRebuilt() && h.GetEnded() != nil {
		answer.AllEnded = r.machine.LoadEnded(s.info.GetName(), h.GetEnded())
	}
	s.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{Renewed: answer}})
}

// released reports whether no run needs an agent that is about to end, or drained. c.mu is held.
func (c *Coordinator) released(name string) bool {
	r := c.runOf(name)
	return r == nil || r.isRebuilt() && r.machine.Released(name)
}

func (c *Coordinator) welcome() *spatev1.ConnectResponse {
	return &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Welcome{Welcome: &spatev1.Welcome{
		HeartbeatInterval: durationpb.New(c.cfg.HeartbeatInterval), Lease: durationpb.New(c.cfg.Lease),
		Coordinator: c.cfg.Name,
	}}}
}

// leave drops a session whose stream has ended.
func (c *Coordinator) leave(s *session, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(s, reason)
}

// drop ends a session and removes it, unless another session has taken its place. c.mu is held.
func (c *Coordinator) drop(s *session, reason string) {
	name := s.info.GetName()
	s.end(status.Error(codes.Aborted, reason))
	if c.sessions[name] != s {
		return
	}
	delete(c.sessions, name)
	known := c.owners[name]
	known.heard = s.heard
	c.owners[name] = known
	c.log.Info("agent disconnected", "agent", name, "reason", reason)
	c.feedAgent(name, func(r *run, at clock.Instant) { r.machine.Disconnected(at, name, s.incarnation, reason) })
}

// maxSaid bounds a message of an agent's control stream, in bytes: parts of messages are kept in records and shown to
// people.
const maxSaid = 64 << 10

// hear handles a message from an agent.
func (c *Coordinator) hear(s *session, m *spatev1.ConnectRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.heard = clock.Now()
	name := s.info.GetName()
	if c.sessions[name] != s {
		return
	}
	if size := proto.Size(m); size > maxSaid {
		s.end(status.Errorf(codes.InvalidArgument, "a message of %d bytes on the control stream: at most %d are "+
			"accepted",
			size, maxSaid))
		return
	}
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectRequest_Heartbeat:
		if err := access.CheckHeartbeat(m.Heartbeat); err != nil {
			s.end(err)
			return
		}
		s.heartbeat = m.Heartbeat
		c.renew(s, m.Heartbeat)
		c.feedAgent(name, func(r *run, at clock.Instant) { r.machine.Heard(at, name, m.Heartbeat) })
	case *spatev1.ConnectRequest_Applied:
		c.feedAgent(name, func(r *run, at clock.Instant) { r.machine.Applied(at, name, m.Applied) })
	case *spatev1.ConnectRequest_Rejected:
		c.feedAgent(name, func(r *run, at clock.Instant) { r.machine.Rejected(at, name, m.Rejected) })
	case *spatev1.ConnectRequest_Measuring:
		c.feedAgent(name, func(r *run, at clock.Instant) { r.machine.Measuring(at, name, m.Measuring) })
	default:
		s.end(status.Error(codes.InvalidArgument,
			"the coordinator does not understand this message; a Hello comes first and once"))
	}
}

// ListAgents lists the agents that have a control stream and the agents that only gossip has found.
func (s runService) ListAgents(context.Context, *spatev1.ListAgentsRequest) (*spatev1.ListAgentsResponse, error) {
	out := s.c.agents()
	slices.SortFunc(out, func(a, b *spatev1.AgentStatus) int {
		return strings.Compare(a.GetAgent().GetName(), b.GetAgent().GetName())
	})
	return &spatev1.ListAgentsResponse{Agents: out}, nil
}

// agents describes the agents that have a session, that only gossip has found, or that are cordoned.
func (c *Coordinator) agents() []*spatev1.AgentStatus {
	c.mu.Lock()
	cluster := c.cluster
	out := c.connected(clock.Now(), func(string) bool { return true })
	c.mu.Unlock()
	if cluster != nil {
		out = append(out, found(cluster.Members(), out)...)
	}
	left := c.cordons.All()
	for _, a := range out {
		if name := a.GetAgent().GetName(); a.GetHealth() == spatev1.AgentHealth_AGENT_HEALTH_FOUND {
			a.Cordon = left[name].Is
		}
		delete(left, a.GetAgent().GetName())
	}
	for name, said := range left {
		out = append(out, missing(&spatev1.AgentInfo{Name: name, Region: said.Region}, said.Is))
	}
	for _, a := range c.cfg.Expected.Missing(infos(out)) {
		out = append(out, missing(a, spatev1.Cordon_CORDON_UNSPECIFIED))
	}
	return c.lastHeard(out)
}

// missing describes an agent that should be connected and is not.
func missing(a *spatev1.AgentInfo, cordon spatev1.Cordon) *spatev1.AgentStatus {
	return &spatev1.AgentStatus{Agent: a, Health: spatev1.AgentHealth_AGENT_HEALTH_MISSING, Cordon: cordon}
}

// infos returns the agents of a list.
func infos(list []*spatev1.AgentStatus) (out []*spatev1.AgentInfo) {
	for _, s := range list {
		out = append(out, s.GetAgent())
	}
	return out
}

// lastHeard adds when the agents of a list that are missing were heard last, as far as this process knows.
func (c *Coordinator) lastHeard(list []*spatev1.AgentStatus) []*spatev1.AgentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range list {
		heard := c.owners[s.GetAgent().GetName()].heard
		if s.GetHealth() == spatev1.AgentHealth_AGENT_HEALTH_MISSING && heard != 0 {
			s.SilentFor = durationpb.New(clock.Now().Sub(heard))
		}
	}
	return list
}

// cordonActions are the changes that a person can make.
var cordonActions = map[spatev1.Cordon]access.Action{
	spatev1.Cordon_CORDON_UNSPECIFIED: access.Uncordon, spatev1.Cordon_CORDON_CORDONED: access.Cordon,
	spatev1.Cordon_CORDON_DRAINED: access.Drain,
}

// mostCordoned is how many agents one call may name.
const mostCordoned = 1000

// CordonAgents changes which agents take runs. The change is durable when it answers.
func (s runService) CordonAgents(
	ctx context.Context, q *spatev1.CordonAgentsRequest,
) (*spatev1.CordonAgentsResponse, error) {
	if s.c.cfg.Local {
		return nil, status.Error(codes.FailedPrecondition, "the agents of a local run end with it")
	}
	caller := access.CallerOf(ctx)
	if err := s.c.permit(caller, s.c.cfg.Access.Policy().MayOperate(caller)); err != nil {
		return nil, err
	}
	if n := len(q.GetAgents()); n == 0 || n > mostCordoned || cordonActions[q.GetCordon()] == "" {
		return nil, status.Errorf(codes.InvalidArgument, "name 1 to %d agents, and cordon, drain or uncordon them",
			mostCordoned)
	}
	known, regions := map[string]string{}, map[string]string{}
	for _, a := range s.c.agents() {
		known[a.GetAgent().GetName()] = a.GetAgent().GetRegion()
	}
	for _, name := range q.GetAgents() {
		region, ok := known[name]
		if !ok || name == "" {
			return nil, status.Errorf(codes.NotFound, "there is no agent %.80q: nothing was changed", name)
		}
		regions[name] = region
	}
	if err := s.c.cordons.Set(regions, q.GetCordon()); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	s.c.log.Info("agents are cordoned, drained or uncordoned", "agents", q.GetAgents(), "to", q.GetCordon())
	s.c.record(access.AuditEntry{
		Action: cordonActions[q.GetCordon()], Caller: caller, Agents: q.GetAgents(),
	})
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, name := range q.GetAgents() {
		s.c.feedAgent(name, func(r *run, at clock.Instant) { // what is said now: another call may have been faster
			r.machine.Cordon(at, name, s.c.cordons.Of(name))
		})
	}
	s.c.allot(clock.Now())
	return &spatev1.CordonAgentsResponse{}, nil
}

// cordon returns whether an agent takes runs, and whether a drained one has handed its part over. c.mu is held.
func (c *Coordinator) cordon(name string) spatev1.Cordon {
	is := c.cordons.Of(name)
	if is == spatev1.Cordon_CORDON_DRAINED && !c.released(name) {
		return spatev1.Cordon_CORDON_DRAINING
	}
	return is
}

// connected describes the agents that have a session and are asked for. c.mu is held.
func (c *Coordinator) connected(now clock.Instant, asked func(name string) bool) []*spatev1.AgentStatus {
	var out []*spatev1.AgentStatus
	for name, s := range c.sessions {
		if !asked(name) {
			continue
		}
		silent := now.Sub(s.heard)
		out = append(out, &spatev1.AgentStatus{
			Agent: proto.CloneOf(s.info), Health: c.health(name, silent), Heartbeat: proto.CloneOf(s.heartbeat),
			SilentFor: durationpb.New(silent), Address: s.Address, Cordon: c.cordon(name),
		})
	}
	return out
}

// statuses describes the agents of a run that have a session.
func (c *Coordinator) statuses(r *run) []*spatev1.AgentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected(clock.Now(), func(name string) bool { return c.runOf(name) == r })
}

// health returns the health of an agent that was last heard this long ago. c.mu is held.
func (c *Coordinator) health(name string, silent time.Duration) spatev1.AgentHealth {
	switch r := c.runOf(name); {
	case silent > 2*c.cfg.HeartbeatInterval:
		return spatev1.AgentHealth_AGENT_HEALTH_SILENT
	case c.sessions[name].heartbeat.GetLeaving():
		return spatev1.AgentHealth_AGENT_HEALTH_LEAVING
	case r != nil && (!r.isRebuilt() || r.machine.Busy(name)) && c.cordon(name) != spatev1.Cordon_CORDON_DRAINED:
		return spatev1.AgentHealth_AGENT_HEALTH_BUSY
	}
	return spatev1.AgentHealth_AGENT_HEALTH_READY
}

// found describes the members that are agents and have no session.
func found(members []membership.Member, connected []*spatev1.AgentStatus) []*spatev1.AgentStatus {
	known := map[string]bool{}
	for _, s := range connected {
		known[s.GetAgent().GetName()] = true
	}
	var out []*spatev1.AgentStatus
	for _, m := range members {
		if m.Role == membership.RoleAgent && !known[m.Process] {
			known[m.Process] = true
			out = append(out, &spatev1.AgentStatus{
				Agent:   &spatev1.AgentInfo{Name: m.Process, Region: m.Region},
				Health:  spatev1.AgentHealth_AGENT_HEALTH_FOUND,
				Address: m.Gossip,
			})
		}
	}
	return out
}
