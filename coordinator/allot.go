package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/internal/lists"
)

// runOf returns the run that an agent belongs to, nil if there is none. The lock is held.
func (q *queue) runOf(agent string) *run { return q.runs[q.fleet.RunOf(agent)] }

// take makes a connected agent belong to a run. The lock is held.
func (q *queue) take(r *run, s *fleet.Session, at clock.Instant) {
	q.fleet.Take(r.id, s.Info)
	r.feedAt(at, func(m *lifecycle.Run, at clock.Instant) {
		m.Cordon(at, s.Name(), q.fleet.Cordons.Of(s.Name()))
		m.Connected(at, s.Info, s.Incarnation, nil, false)
		r.tellVersion("agent "+s.Name(), s.Info.GetVersion(), at)
	})
}

// allot gives free agents to the runs in progress that want them, and begins the waiting runs that can begin. The lock
// is held.
func (q *queue) allot(at clock.Instant) {
	if q.closed {
		return
	}
	q.allotted = at
	for _, r := range q.active {
		q.letGo(r, at)
	}
	for _, s := range q.fleet.FreeAgents() {
		q.offer(s, at)
	}
	q.beginNext(at)
}

// offer gives a free agent to the first run in progress that wants it. If no run waits, that is all that a new agent
// changes: thousands may connect at once, and allot looks at all of them. The lock is held.
func (q *queue) offer(s *fleet.Session, at clock.Instant) {
	if i := slices.IndexFunc(q.active, func(r *run) bool { return r.wants(s, at) }); i >= 0 {
		q.take(q.active[i], s, at)
	}
}

// allotRegularly is allot, unless that was done a moment ago.
func (q *queue) allotRegularly() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := clock.Now(); now.Sub(q.allotted) >= allotInterval {
		q.allot(now)
	}
}

// allotInterval is how often agents that runs no longer need are given to others.
const allotInterval = time.Second

// letGo frees the agents that a run does not need. What the run has decided so far must be durable first: if a
// restarted coordinator read an older state, two runs would have the same agent. The lock is held.
func (q *queue) letGo(r *run, at clock.Instant) {
	if r.freeing || len(r.unneeded(at)) == 0 {
		return
	}
	r.freeing = true
	r.later(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		r.freeing = false
		now := clock.Now()
		for _, name := range r.unneeded(now) {
			q.fleet.Free(name)
			if s := q.fleet.Session(name); s != nil {
				r.feedAt(now, func(m *lifecycle.Run, at clock.Instant) {
					m.Disconnected(at, name, s.Incarnation, "the run does not need it")
				})
			}
		}
		q.allot(now)
	})
}

// beginNext begins the waiting runs that can begin, and tells the followers of the others what they wait for. The lock
// is held.
func (q *queue) beginNext(at clock.Instant) {
	if len(q.waiting) == 0 {
		return
	}
	waiting := q.waiting
	decisions := allotment.Decide(q.fleet.Allotable(), allotable(q.active), allotable(waiting), q.cfg.MaxRuns)
	q.waiting = nil
	for i, r := range waiting {
		if r.wait = decisions[i]; r.wait.Wait != allotment.None {
			q.waiting = append(q.waiting, r)
		}
	}
	for _, r := range waiting {
		if r.wait.Wait == allotment.None {
			q.begin(r, at)
		}
	}
	q.tellWaits()
}

// begin begins a run with the agents that it was given. The lock is held.
func (q *queue) begin(r *run, now clock.Instant) {
	q.log.Info("run begins", "run", r.id, "entries", len(r.submission.GetPlan()), "agents", len(r.wait.Agents))
	r.begin(now)
	q.active = append(q.active, r)
	for _, name := range r.wait.Agents {
		q.take(r, q.fleet.Session(name), now)
	}
	r.feedAt(now, func(m *lifecycle.Run, at clock.Instant) {
		r.tellVersion("the client", r.client, at)
		m.Tick(at)
	})
}

// allotable describes runs for package allotment.
func allotable(runs []*run) (out []allotment.Run) { return lists.Each(runs, (*run).allotable) }

// tellWaits tells the followers of waiting runs what these wait for, whenever that changes. The lock is held.
func (q *queue) tellWaits() {
	for i, r := range q.waiting {
		text := "waiting: " + q.why(r) + "; " + placeText(i+1)
		if r.told == text {
			continue
		}
		r.told = text
		r.later(func() { r.tellWait(text) })
	}
}

// placeText returns how many runs come before a run in the queue, whose place there is counted from 1.
func placeText(place int) string {
	switch place {
	case 1:
		return "this run is next"
	case 2:
		return "1 run in the queue comes before this one"
	}
	return fmt.Sprintf("%d runs in the queue come before this one", place-1)
}

// why returns what a waiting run waits for, in words. The lock is held.
func (q *queue) why(r *run) string {
	switch r.wait.Wait {
	case allotment.Servers:
		return "the same server is loaded by " + q.namesOf(r.wait.For)
	case allotment.Agents:
		return "agents that it needs belong to " + q.namesOf(r.wait.For)
	case allotment.Missing:
		return "fewer agents than it needs are connected"
	}
	return fmt.Sprintf("as many runs as allowed are in progress (--max-runs %d)", q.cfg.MaxRuns)
}

// mostNamed bounds the runs that are named because another run waits for them.
const mostNamed = 3

// namesOf names runs, each with who submitted it. The lock is held.
func (q *queue) namesOf(ids []string) string {
	var names []string
	for _, id := range ids[:min(len(ids), mostNamed)] {
		name := "run " + id
		if by := q.runs[id].record.GetSubmitter(); by != "" {
			name += " of " + by
		}
		names = append(names, name)
	}
	if more := len(ids) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
