package lifecycle_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// crowd plays a run of many agents of which some fall silent at once, in virtual time. Messages take no time.
type crowd struct {
	run     *lifecycle.Run
	at      clock.Instant
	agents  []*spatev1.AgentInfo
	silent  int // the first agents, which have fallen silent
	ref     *spatev1.AssignmentRef
	stripes []*spatev1.Stripe

	armed, lost clock.Instant
	revised     int // messages about handovers
	handovers   int // in the newest of them
	commits     int // batches with a record
	written     int // bytes of these records
	finish      *lifecycle.Finish
}

// crowdLength is how long the load of a crowd is.
const crowdLength = 20 * time.Second

func newCrowd(agents int) *crowd {
	plan := []*spatev1.Stage{{
		Target: &spatev1.Target{Name: "east", Endpoints: []string{"http://e"}}, Workload: &spatev1.Workload{Name: "w"},
		Load:        &spatev1.LoadPoint{Rate: 1e6, Arrival: "poisson", Duration: durationpb.New(crowdLength)},
		OnAgentLoss: "reassign",
	}}
	c := &crowd{at: clock.Instant(time.Hour), stripes: make([]*spatev1.Stripe, agents)}
	c.run = lifecycle.New(lifecycle.Config{MinAgents: agents}, "r", plan, c.at, time.Unix(0, 0))
	for i := range agents {
		c.agents = append(c.agents, &spatev1.AgentInfo{Name: fmt.Sprintf("agent-%06d", i), Region: "eu", Cores: 4, Weight: 1})
		c.run.Connected(c.at, c.agents[i], 1, nil, false)
	}
	return c
}

// tick lets some time pass.
func (c *crowd) tick(d time.Duration) {
	c.at = c.at.Add(d)
	c.run.Tick(c.at)
	c.carryOut()
}

// carryOut plays the shell.
func (c *crowd) carryOut() {
	for effects := c.run.Effects(); len(effects) > 0; effects = c.run.Effects() {
		before := c.written
		for _, e := range effects {
			switch e := e.(type) {
			case lifecycle.Send:
				c.receive(e)
			case lifecycle.PutStage:
				c.written += proto.Size(e.Record)
			case lifecycle.PutCheckpoint:
				c.written += proto.Size(e.Stage) + proto.Size(c.run.Checkpoint())
			case lifecycle.Emit:
				if changed := e.Event.GetAgentChanged(); changed != nil && !changed.GetJoined() && c.lost == 0 {
					c.lost = c.at
				}
			case lifecycle.CloseStage:
				c.run.Closed(c.at, false, series.Outcome{})
			case lifecycle.Finish:
				c.finish = &e
			}
		}
		if c.written > before {
			c.commits++
		}
	}
}

// receive plays the agents.
func (c *crowd) receive(e lifecycle.Send) {
	var i int
	_, _ = fmt.Sscanf(e.Agent, "agent-%d", &i)
	switch m := e.Message.GetMessage().(type) {
	case *spatev1.ConnectResponse_Assign:
		c.ref, c.stripes[i] = m.Assign.GetRef(), m.Assign.GetStripe()
	case *spatev1.ConnectResponse_Arm:
		c.armed = clock.Instant(m.Arm.GetStartClockNs())
	case *spatev1.ConnectResponse_Revise:
		c.ref, c.revised = m.Revise.GetRef(), c.revised+1
		c.handovers = len(m.Revise.GetStripe().GetHandovers())
	}
}

// apply lets all agents get ready.
func (c *crowd) apply() {
	for _, a := range c.agents {
		c.run.Applied(c.at, a.GetName(), &spatev1.Applied{Ref: c.ref, ClockUncertaintyNs: 1e6})
	}
	c.carryOut()
}

// second lets a second of the load pass: each agent that is not silent sends a heartbeat and a snapshot, the last one
// with its totals.
func (c *crowd) second(window uint32, last bool) {
	for range 4 {
		c.tick(250 * time.Millisecond)
	}
	for i, a := range c.agents {
		if i < c.silent {
			continue
		}
		c.run.Heard(c.at, a.GetName(), &spatev1.Heartbeat{Number: uint64(window) + 1})
		s := &spatev1.Snapshot{
			Key:    &spatev1.SnapshotKey{RunId: "r", Agent: a.GetName(), Incarnation: 1, Sequence: uint64(window) + 1},
			Window: window, Revision: c.ref.GetRevision(),
		}
		if last {
			s.Totals = &spatev1.Totals{Snapshots: uint64(window) + 1}
		}
		c.run.Merged(c.at, s)
		c.carryOut()
	}
}

// A crowd's run ends although agents fall silent together. All others are told once, and take the parts of all over.
func TestCrowdSurvivesLosses(t *testing.T) {
	const agents, lost = 500, 20
	c := newCrowd(agents)
	c.playAll(lost, func(string) {})
	if c.finish == nil || c.finish.Outcome != spatev1.Outcome_OUTCOME_DONE {
		t.Errorf("finish: %+v", c.finish)
	}
	if c.revised != agents-lost || c.handovers != lost || c.lost == 0 {
		t.Errorf("%d messages, the last about %d handovers, after a loss at %v", c.revised, c.handovers, c.lost)
	}
	for i, s := range c.stripes {
		if s.GetRank() != uint32(i) || len(s.GetWeights()) != agents {
			t.Fatalf("agent %d has rank %d of %d", i, s.GetRank(), len(s.GetWeights()))
		}
	}
}

// fallsSilent is the window in which agents fall silent.
const fallsSilent = 3

// playAll plays a run to its end, with some agents lost, and calls done after each part of it.
func (c *crowd) playAll(lost int, done func(part string)) {
	c.tick(time.Second)
	done("assign")
	c.apply()
	done("apply")
	c.at = c.armed
	for w := range uint32(crowdLength / time.Second) {
		if w == fallsSilent {
			c.silent = lost
		}
		c.second(w, w+1 == uint32(crowdLength/time.Second))
		switch w {
		case fallsSilent - 2:
			done("second")
		case fallsSilent + 14: // beyond the lease
			done("loss")
		}
	}
	for range 600 {
		if c.finish != nil {
			break
		}
		c.tick(100 * time.Millisecond)
	}
	done("end")
}

// BenchmarkCrowd measures what the machine takes for a run of many agents: CPU time by part of the run, live memory
// after assigning, commits and their bytes; and how long it takes in virtual time to arm the stage and notice a loss.
func BenchmarkCrowd(b *testing.B) {
	for _, of := range []struct{ agents, lost int }{{1000, 1}, {1000, 100}, {10_000, 1}, {100_000, 1}} {
		b.Run(fmt.Sprintf("%d-%d", of.agents, of.lost), func(b *testing.B) {
			for b.Loop() {
				c := newCrowd(of.agents)
				begin, last := c.at, clock.CPU()
				c.playAll(of.lost, func(part string) {
					now := clock.CPU()
					b.ReportMetric((now-last).Seconds()*1e3, part+"-ms")
					if part == "apply" {
						b.ReportMetric(c.armed.Sub(begin).Seconds(), "arm-s")
						var m runtime.MemStats
						runtime.GC()
						runtime.ReadMemStats(&m)
						b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
					}
					last = clock.CPU()
				})
				if c.finish == nil {
					b.Fatal("the run did not end")
				}
				silent := c.armed.Add(fallsSilent * time.Second)
				b.ReportMetric(c.lost.Sub(silent).Seconds(), "notice-s")
				b.ReportMetric(float64(c.commits), "commits")
				b.ReportMetric(float64(c.written)/(1<<20), "written-MiB")
			}
		})
	}
}
