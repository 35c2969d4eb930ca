package coordinator

import (
	"strings"
	"testing"
)

// A panic ends only its own run, and the next run begins. This holds even if the end of the run cannot be determined
// because its machine is faulty.
func TestAFaultEndsItsRunOnly(t *testing.T) {
	for name, spoil := range map[string]func(*Coordinator, *run){
		"at work for the run": func(c *Coordinator, r *run) { c.guarded(r, func() { panic("a bug") }) },
		"in the machine": func(c *Coordinator, r *run) {
			c.mu.Lock()
			defer c.mu.Unlock()
			r.machine = nil // so that the next tick panics
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			a := h.agent("a")
			id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
			next := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
			a.apply()
			a.armed()
			h.c.mu.Lock()
			r := h.c.active
			h.c.mu.Unlock()
			spoil(h.c, r)
			<-r.ended
			if name == "at work for the run" {
				if end := h.end(id); !strings.Contains(end.GetReason(), "internal fault of the coordinator: a bug") {
					t.Errorf("ended with %v", end)
				}
			}
			h.c.mu.Lock()
			defer h.c.mu.Unlock()
			if h.c.active == nil || h.c.active.id != next {
				t.Error("the next run does not begin")
			}
			if h.c.faults.Load() == 0 {
				t.Error("no fault was counted")
			}
		})
	}
}
