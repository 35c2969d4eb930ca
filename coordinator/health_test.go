package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// heartbeats returns the points of an agent that have a heartbeat.
func (r *recorder) heartbeats(agent string) (out []sink.AgentPoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.agents {
		if p.Agent == agent && p.Heartbeat != nil {
			out = append(out, p)
		}
	}
	return out
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Each heartbeat is written once, with its time of arrival. Without heartbeats the silence is written.
func TestHealthIsHandedOn(t *testing.T) {
	watch := &recorder{}
	h := start(t, func(c *Config) {
		c.OpenSink = func(string) (sink.Sink, error) { return watch, nil }
		c.HeartbeatInterval = time.Millisecond
	})
	a := h.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
	began := time.Now()
	for n := range uint64(3) {
		a.say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{
			Heartbeat: &spatev1.Heartbeat{Number: n + 1, InFlight: 7, CpuCores: 0.5, ClockUncertaintyNs: 1000},
		}})
		eventually(t, "the heartbeat is handed on", func() bool { return len(watch.heartbeats("a")) == int(n)+1 })
	}
	silent := func() (seconds float64) {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		p := watch.agents[len(watch.agents)-1]
		if p.Heartbeat != nil || p.RunID != id {
			return 0
		}
		return *p.SilentSeconds
	}
	eventually(t, "the silence is handed on", func() bool { return silent() > 0.2 })
	beats := watch.heartbeats("a")
	if p := beats[2]; p.Heartbeat.GetInFlight() != 7 || p.Time.Before(began) || !p.Time.After(beats[0].Time) ||
		p.Plan != "p" {
		t.Errorf("health %+v", p)
	}
	a.apply()
	for range beats {
		a.hear() // the heartbeat's answer
	}
	a.armed()
	a.acked(closing(values(a.snapshot(3), 4, time.Millisecond)))
	h.end(id)
}

// Beyond the bound only the first agents by name are written, whatever their order.
func TestHealthIsBounded(t *testing.T) {
	h := start(t)
	all := make([]sink.AgentPoint, maxHealth+2)
	for i := range all {
		all[i].Agent = fmt.Sprintf("%04d", len(all)-i)
	}
	of := &health{c: h.c, run: &run{id: "r"}}
	if got := of.bound(all); len(got) != maxHealth || got[0].Agent != "0001" || got[maxHealth-1].Agent != "1000" ||
		!of.said {
		t.Errorf("%d agents from %s to %s, said: %v", len(got), got[0].Agent, got[len(got)-1].Agent, of.said)
	}
}
