package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/membership"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// join registers an agent's session, and tells the run that the agent belongs to. An error is a status.
func (c *Coordinator) join(h *spatev1.Hello, address string, who certs.Identity) (*fleet.Session, error) {
	s := fleet.NewSession(h, address, who)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosing
	}
	if err := c.checkOwner(s.Name(), s.Incarnation, s.Who); err != nil {
		return nil, err
	}
	old, reason, err := c.fleet.Superseded(s)
	if err != nil {
		return nil, err
	}
	if old != nil {
		c.drop(old, reason)
	}
	c.fleet.Join(s)
	s.Send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Welcome{Welcome: &spatev1.Welcome{
		HeartbeatInterval: durationpb.New(c.cfg.HeartbeatInterval), Lease: durationpb.New(c.cfg.Lease),
		Coordinator: c.cfg.Name,
	}}})
	c.stopStale(s)
	c.log.Info("agent connected", "agent", s.Name(), "region", s.Info.GetRegion(), "address", s.Address)
	if r := c.queue.runOf(s.Name()); r != nil {
		r.connected(s)
		return s, nil
	}
	switch now := clock.Now(); {
	case len(c.queue.waiting) > 0:
		c.queue.allot(now)
	case c.fleet.Barred(s.Name()) == "":
		c.queue.offer(s, now)
	}
	return s, nil
}

// checkOwner refuses a peer that gives the incarnation of a process known by another certificate, and counts it. The
// lock is held. An error is a status.
func (c *Coordinator) checkOwner(name string, incarnation uint64, who certs.Identity) error {
	err := c.fleet.CheckOwner(name, incarnation, who)
	if err != nil {
		c.admission.CallsRefused.Add(1)
	}
	return err
}

// stopStale tells an agent to stop work for a run that it does not belong to. The lock is held.
func (c *Coordinator) stopStale(s *fleet.Session) {
	resume := s.Hello.GetResume()
	if resume == nil || c.fleet.RunOf(s.Name()) == resume.GetRunId() {
		return
	}
	s.Send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: resume, Immediately: true, Reason: fmt.Sprintf("run %s is not in progress at this coordinator, "+
			"or continued without the agent", resume.GetRunId()),
	}}})
}

// renew answers a heartbeat at once, which renews the agent's lease. An agent whose load has ended also learns whether
// the load of all others has ended. The lock is held.
func (c *Coordinator) renew(s *fleet.Session, h *spatev1.Heartbeat) {
	c.renewals.Add(1)
	r := c.queue.runOf(s.Name())
	_, released := r.needs(s.Name())
	answer := &spatev1.Renewed{Number: h.GetNumber(), Released: h.GetLeaving() && released}
	if r != nil && r.isRebuilt() && h.GetEnded() != nil {
		answer.AllEnded = r.machine.LoadEnded(s.Name(), h.GetEnded())
	}
	s.Send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{Renewed: answer}})
}

// leave drops a session whose stream has ended.
func (c *Coordinator) leave(s *fleet.Session, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(s, reason)
}

// drop ends a session and removes it, unless another session has taken its place. The lock is held.
func (c *Coordinator) drop(s *fleet.Session, reason string) {
	s.End(status.Error(codes.Aborted, reason))
	if !c.fleet.Leave(s) {
		return
	}
	c.log.Info("agent disconnected", "agent", s.Name(), "reason", reason)
	c.feedAgent(s.Name(), func(m *lifecycle.Run, at clock.Instant) {
		m.Disconnected(at, s.Name(), s.Incarnation, reason)
	})
}

// maxSaid bounds a message of an agent's control stream, in bytes: parts of messages are kept in records and shown to
// people.
const maxSaid = 64 << 10

// hear handles a message from an agent.
func (c *Coordinator) hear(s *fleet.Session, m *spatev1.ConnectRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Heard = clock.Now()
	name := s.Name()
	if c.fleet.Session(name) != s {
		return
	}
	if size := proto.Size(m); size > maxSaid {
		s.End(status.Errorf(codes.InvalidArgument, "a message of %d bytes on the control stream: at most %d are "+
			"accepted", size, maxSaid))
		return
	}
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectRequest_Heartbeat:
		if err := access.CheckHeartbeat(m.Heartbeat); err != nil {
			s.End(err)
			return
		}
		s.Heartbeat = m.Heartbeat
		c.renew(s, m.Heartbeat)
		c.feedAgent(name, func(run *lifecycle.Run, at clock.Instant) { run.Heard(at, name, m.Heartbeat) })
	case *spatev1.ConnectRequest_Applied:
		c.feedAgent(name, func(run *lifecycle.Run, at clock.Instant) { run.Applied(at, name, m.Applied) })
	case *spatev1.ConnectRequest_Rejected:
		c.feedAgent(name, func(run *lifecycle.Run, at clock.Instant) { run.Rejected(at, name, m.Rejected) })
	case *spatev1.ConnectRequest_Waiting:
		c.feedAgent(name, func(run *lifecycle.Run, at clock.Instant) { run.Waiting(at, m.Waiting) })
	case *spatev1.ConnectRequest_Measuring:
		c.feedAgent(name, func(run *lifecycle.Run, at clock.Instant) { run.Measuring(at, name, m.Measuring) })
	default:
		s.End(status.Error(codes.InvalidArgument,
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
	c.mu.Unlock()
	var found []*spatev1.AgentStatus
	if cluster != nil {
		found = foundBy(cluster.Members())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.fleet.Statuses(func(string) bool { return true }, c.work)
	return append(all, c.fleet.Absent(found)...)
}

// work is fleet.Work. The lock is held.
func (c *Coordinator) work(name string) (busy, released bool) { return c.queue.runOf(name).needs(name) }

// feedAgent gives an event about an agent, which happens now, to the machine of its run. The lock is held.
func (c *Coordinator) feedAgent(agent string, event func(m *lifecycle.Run, at clock.Instant)) {
	if r := c.queue.runOf(agent); r != nil {
		r.feed(event)
	}
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
	known := map[string]bool{}
	for _, a := range s.c.agents() {
		known[a.GetAgent().GetName()] = true
	}
	for _, name := range q.GetAgents() {
		if !known[name] {
			return nil, status.Errorf(codes.NotFound, "there is no agent %.80q: nothing was changed", name)
		}
	}
	if err := s.c.fleet.Cordons.Set(q.GetAgents(), q.GetCordon()); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	s.c.log.Info("agents are cordoned, drained or uncordoned", "agents", q.GetAgents(), "to", q.GetCordon())
	s.c.record(access.AuditEntry{Action: cordonActions[q.GetCordon()], Caller: caller, Agents: q.GetAgents()})
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, name := range q.GetAgents() {
		s.c.feedAgent(name, func(m *lifecycle.Run, at clock.Instant) {
			m.Cordon(at, name, s.c.fleet.Cordons.Of(name)) // what is said now: another call may have been faster
		})
	}
	s.c.queue.allot(clock.Now())
	return &spatev1.CordonAgentsResponse{}, nil
}

// foundBy describes the members that are agents.
func foundBy(members []membership.Member) (out []*spatev1.AgentStatus) {
	known := map[string]bool{}
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
