package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/estimate"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// tellWaits tells the followers of waiting runs what these wait for, whenever that changes, and about how long. c.mu is
// held.
func (c *Coordinator) tellWaits() {
	var estimate func() []*time.Duration
	for i, r := range c.queue {
		text := "waiting: " + c.why(r) + "; " + placeText(i+1)
		if r.told == text {
			continue
		}
		r.told = text
		if estimate == nil {
			estimate = sync.OnceValue(c.estimateWaits())
		}
		c.later(r, func() { c.tellWait(r, text, estimate()[i]) })
	}
}

// tellWait tells the followers of a run what it waits for. It is a task of the run's write queue.
func (c *Coordinator) tellWait(r *run, text string, wait *time.Duration) {
	if wait != nil {
		text += ", in about " + words.Span(wait.Seconds())
	}
	n, ok := r.events.Number(&spatev1.RunEvent{Time: timestamppb.Now(), Event: &spatev1.RunEvent_Notice{
		Notice: &spatev1.Notice{Severity: spatev1.Severity_SEVERITY_INFO, Text: text},
	}})
	if ok {
		c.tryWrite(r, ledger.Change{Events: []*spatev1.FollowRunResponse{n}})
		c.deliver(r, n)
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

// estimateWaits returns a function that estimates how long the waiting runs still wait, in their order. The function
// needs no lock, because it takes milliseconds with many agents and runs. c.mu is held.
func (c *Coordinator) estimateWaits() func() []*time.Duration {
	agents, running, waiting := c.allotmentAgents(), allotmentRuns(c.active), allotmentRuns(c.queue)
	now, limits, queue := clock.Now(), c.limits(), slices.Clone(c.queue)
	for i, r := range c.active {
		c.confined(r, func() { running[i].Left = r.machine.Left(now) })
	}
	return func() []*time.Duration {
		for i, r := range queue {
			waiting[i].Left = estimate.Time(estimate.Plan(r.submission.GetPlan())).Length()
		}
		return allotment.Waits(agents, running, waiting, limits)
	}
}

// limits returns the limits of all runs together. c.mu is held; what is returned needs no lock.
func (c *Coordinator) limits() allotment.Limits {
	policy, plans := c.policy, map[string][]*spatev1.Stage{}
	for _, r := range slices.Concat(c.active, c.queue) {
		plans[r.id] = r.submission.GetPlan()
	}
	return allotment.Limits{Runs: c.cfg.MaxRuns, Exceeded: func(run string, beside []string) string {
		var others [][]*spatev1.Stage
		for _, other := range beside {
			others = append(others, plans[other])
		}
		if err := policy.CheckLoad(plans[run], others...); err != nil {
			return err.Error()
		}
		return ""
	}}
}

// why returns what a waiting run waits for, in words. c.mu is held.
func (c *Coordinator) why(r *run) string {
	switch r.wait.Wait {
	case allotment.Servers:
		return "the same server is loaded by " + c.namesOf(r.wait.For)
	case allotment.Load:
		return strings.ReplaceAll(r.wait.Words, "\n", "; ")
	case allotment.Agents:
		return "agents that it needs belong to " + c.namesOf(r.wait.For)
	case allotment.Missing:
		return "fewer agents than it needs are connected"
	}
	return fmt.Sprintf("as many runs as allowed are in progress (--max-runs %d)", c.cfg.MaxRuns)
}

// mostNamed bounds the runs that are named because another run waits for them.
const mostNamed = 3

// namesOf names runs, each with who submitted it. c.mu is held.
func (c *Coordinator) namesOf(ids []string) string {
	var names []string
	for _, id := range ids[:min(len(ids), mostNamed)] {
		name := "run " + id
		if by := c.runs[id].record.GetSubmitter(); by != "" {
			name += " of " + by
		}
		names = append(names, name)
	}
	if more := len(ids) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
