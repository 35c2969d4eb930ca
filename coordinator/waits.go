package coordinator

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/coordinator/allotment"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// tellWaits tells the followers of waiting runs what these wait for, whenever that changes. c.mu is held.
func (c *Coordinator) tellWaits() {
	for i, r := range c.queue {
		if text := "waiting: " + c.why(r) + "; " + placeText(i+1); r.told != text {
			r.told = text
			notice := &spatev1.Notice{Severity: spatev1.Severity_SEVERITY_INFO, Text: text}
			c.announce(r, &spatev1.RunEvent{Time: timestamppb.Now(), Event: &spatev1.RunEvent_Notice{Notice: notice}})
		}
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

// why returns what a waiting run waits for, in words. c.mu is held.
func (c *Coordinator) why(r *run) string {
	switch r.wait.Wait {
	case allotment.Servers:
		return "the same server is loaded by " + c.namesOf(r.wait.For)
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
