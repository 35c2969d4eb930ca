package clustertest

import (
	"context"
	"sync"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
)

// Recorder is a sink that keeps all points.
type Recorder struct {
	Mu      sync.Mutex // guards all below
	windows []sink.WindowPoint
	stages  []sink.StagePoint
	events  []sink.EventPoint
	Agents  []sink.AgentPoint
	closed  int
	late    bool // a point came after Close
}

// Put keeps a point.
func (r *Recorder) Put(p sink.Point) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	switch p := p.(type) {
	case sink.WindowPoint:
		r.windows = append(r.windows, p)
	case sink.StagePoint:
		r.stages = append(r.stages, p)
	case sink.EventPoint:
		if p.Kind != sink.Doubt && p.Kind != sink.Warning { // a busy machine has its own
			r.events = append(r.events, p)
		}
	case sink.AgentPoint:
		r.Agents = append(r.Agents, p)
	}
	r.late = r.late || r.closed > 0
}

// Close counts how often it is called.
func (r *Recorder) Close(context.Context) error {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.closed++
	return nil
}

// Check expects two stages of two windows by two agents of one region at one endpoint: 2 x 2 x (whole, region,
// endpoint, a, b).
func (r *Recorder) Check(t *testing.T) {
	t.Helper()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if len(r.windows) != 20 || len(r.stages) != 6 || len(r.events) != 6 || r.closed != 1 || r.late {
		t.Fatalf("the sink got %d windows, %d stages, %d events, was closed %d times, was called after that: %v",
			len(r.windows), len(r.stages), len(r.events), r.closed, r.late)
	}
	whole := r.windows[0]
	if whole.Measures.Counters.GetCompleted() != 2 || whole.Scope.Agent != "" || whole.StageStart.IsZero() {
		t.Errorf("first window: %+v", whole)
	}
	last := r.windows[5]
	if last.Window != 1 || last.ToDate == nil || last.ToDate.Counters.GetCompleted() != 4 {
		t.Errorf("second window: %+v", last)
	}
	if s := r.stages[3]; !s.Complete || s.Scope.StageIndex != 1 || s.Measures.Counters.GetCompleted() != 4 {
		t.Errorf("second stage: %+v", s)
	}
}

// Heartbeats returns the points of an agent that have a heartbeat.
func (r *Recorder) Heartbeats(agent string) (out []sink.AgentPoint) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, p := range r.Agents {
		if p.Agent == agent && p.Heartbeat != nil {
			out = append(out, p)
		}
	}
	return out
}
