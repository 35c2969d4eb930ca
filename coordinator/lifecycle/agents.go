package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agent is one process of an agent as the run sees it.
type agent struct {
	info        *spatev1.AgentInfo
	incarnation uint64
	broken      string        // why its control stream does not stand; empty: it does
	lost        string        // why it is lost; empty: it is not
	replaced    bool          // another process has its name: it cannot come back
	heard       clock.Instant // last sign of life over its control stream
	absent      bool          // it has not come back since the coordinator was started anew
	inFlight    uint32        // by its last heartbeat
}

func (a *agent) name() string { return a.info.GetName() }

// Connected says that an agent's control stream stands: a new agent, or one that comes back. Resume names the
// assignment that it works on, nil if it has none; armed says that this one is armed or under way. A run that waits for
// agents looks at the next tick who is there, so that it takes all that are there when it begins, and not only as many
// as it needs.
func (r *Run) Connected(at clock.Instant, info *spatev1.AgentInfo, incarnation uint64, resume *spatev1.AssignmentRef,
	armed bool) {
	if r.Ended() {
		return
	}
	old := r.agents[info.GetName()]
	a := old
	if old == nil || old.incarnation != incarnation {
		a = &agent{incarnation: incarnation}
		r.agents[info.GetName()] = a
	}
	a.info, a.heard, a.broken, a.absent = info, at, "", false
	switch {
	case old == nil:
		r.welcome(at, a)
	case old != a:
		r.supersede(at, old)
	default:
		r.returned(at, a)
	}
	r.remind(at, a, resume, armed)
}

// supersede takes a process for lost whose name another one has. It may have been lost before.
func (r *Run) supersede(at clock.Instant, old *agent) {
	const reason = "its process was started anew"
	old.replaced = true
	r.lose(at, old, reason)
	p := r.shareOf(old)
	if p != nil && p.away() && !p.out && (r.phase == running || r.phase == stopping) && r.replaceable(p) {
		r.replace(at, p, reason)
	}
}

// maxGreeted is how many agents that come during a run are spoken of.
const maxGreeted = 256

// welcome says what becomes of an agent that was not known.
func (r *Run) welcome(at clock.Instant, a *agent) {
	switch {
	case r.greeted[a.name()] || len(r.greeted) == maxGreeted: // it comes and goes: that is no news
	case r.phase == gathering || r.stage != nil && r.mayJoin(r.stage.record.GetStage()):
	case !eligible(a, r.regions()):
		r.greeted[a.name()] = true
		r.notice(at, spatev1.Severity_SEVERITY_INFO,
			"agent %s came during the run and takes no part in it: the plan has no region %q", a.name(),
			a.info.GetRegion())
	default:
		r.greeted[a.name()] = true
		r.notice(at, spatev1.Severity_SEVERITY_INFO,
			"agent %s came during the run: it takes part from the next stage on", a.name())
	}
}

// Disconnected says that an agent's control stream is broken. That is no loss yet: its process comes back, or is silent
// for too long.
func (r *Run) Disconnected(_ clock.Instant, name string, incarnation uint64, reason string) {
	a := r.agents[name]
	if a == nil || a.incarnation != incarnation {
		return
	}
	a.broken = cmp.Or(reason, "control stream broken")
	if !r.takesPart(a) {
		delete(r.agents, name)
	}
}

// takesPart says whether an agent's process is of the run, or is about to be.
func (r *Run) takesPart(a *agent) bool {
	return slices.Contains(r.roster, a) || r.joining != nil && r.joining.agent == a
}

// Heard is a heartbeat of an agent over its standing control stream. One that was only silent is back.
func (r *Run) Heard(at clock.Instant, name string, h *spatev1.Heartbeat) {
	a := r.agents[name]
	if a == nil || r.Ended() {
		return
	}
	a.heard, a.inFlight = at, h.GetInFlight()
	if a.lost != "" {
		r.returned(at, a)
		r.catchUp(at, r.shareOf(a))
	}
}

// heldUp is how long the machine may go without a tick before it takes silences for its own.
const heldUp = time.Second

// listen notes the time. What agents said while the coordinator was held up waits to be read: their silence counts from
// now.
func (r *Run) listen(at clock.Instant) {
	if r.ticked != 0 && at.Sub(r.ticked) > heldUp {
		r.deaf = at
	}
	r.ticked = at
}

// heardOf is when an agent was last heard, as far as its silence is its own.
func (r *Run) heardOf(a *agent) clock.Instant { return max(a.heard, r.deaf) }

// loseSilent loses the agents that have said nothing for too long.
func (r *Run) loseSilent(at clock.Instant) {
	for _, a := range r.byName() {
		if silent := at.Sub(r.heardOf(a)); a.lost == "" && silent >= r.patienceWith(a) {
			r.lose(at, a, silence(a, silent.Round(100*time.Millisecond)))
		}
	}
}

// patienceWith is how long an agent may be silent. One that was there when the coordinator's process ended goes on for
// its lease, and may take as long to come back.
func (r *Run) patienceWith(a *agent) time.Duration {
	if a.absent {
		return max(r.lease(), r.cfg.Silence)
	}
	return r.cfg.Silence
}

// silence says for people how an agent was lost.
func silence(a *agent, silent time.Duration) string {
	switch {
	case a.absent:
		return fmt.Sprintf("it did not come back within %v of the coordinator's new start", silent)
	case a.broken != "":
		return fmt.Sprintf("%s; no heartbeat for %v", a.broken, silent)
	default:
		return fmt.Sprintf("no heartbeat for %v", silent)
	}
}

// lose takes an agent for lost. What it owes to the stage in progress goes the way of the stage's policy.
func (r *Run) lose(at clock.Instant, a *agent, reason string) {
	if a.lost != "" {
		return
	}
	a.lost = reason
	r.dropJoining(at, a, "lost: "+reason)
	switch r.phase {
	case pausing:
		r.lostInPause(at, a)
	case applying, running, stopping:
		if p := r.shareOf(a); p != nil && !p.done() {
			r.loseShare(at, p, reason)
		}
	}
}

// lostInPause says what the loss means for the stage to come.
func (r *Run) lostInPause(at clock.Instant, a *agent) {
	if !slices.Contains(r.roster, a) {
		return
	}
	follows := "the run ends unless it is back when the pause is over"
	if policyOf(r.pending) != fail || observersOf(r.roster, r.pending)[a] {
		follows = "the run goes on without it unless it is back when the pause is over"
	}
	r.notice(at, spatev1.Severity_SEVERITY_WARNING, "agent %s lost in the pause: %s; %s", a.name(), a.lost, follows)
}

// byName returns all agents by name, so that what follows does not depend on a map's order.
func (r *Run) byName() []*agent {
	out := make([]*agent, 0, len(r.agents))
	for _, a := range r.agents {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *agent) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// there says whether an agent can be given work. One of the run whose stream broke a moment ago is there until it is
// lost.
func (r *Run) there(at clock.Instant, a *agent) bool {
	return a.lost == "" && at.Sub(r.heardOf(a)) < r.patienceWith(a) && (a.broken == "" || r.takesPart(a))
}
