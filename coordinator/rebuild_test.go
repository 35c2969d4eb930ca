package coordinator

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// moreAgents is how many agents more the run has whose coordinator is restarted.
var moreAgents = flag.Int("more-agents", 0, "agents more in TestARunIsReadWhileItsAgentsContinue")

// pass lets seconds pass for the agents of a shift.
func (s *shift) pass(seconds int) {
	for range seconds {
		time.Sleep(time.Second)
		for _, h := range s.hands {
			h.step()
		}
	}
}

// restart ends the coordinator, and starts the next one, which reads its runs only when reading is closed.
func (s *shift) restart(reading <-chan struct{}) {
	s.t.Helper()
	if err := s.c.end(true); err != nil {
		s.t.Fatal(err)
	}
	for _, h := range s.hands {
		h.session = nil
	}
	s.rebuilds = func(string) { <-reading }
	began := time.Now()
	s.start()
	if took := time.Since(began); took > 0 {
		s.t.Errorf("the coordinator serves after %v", took)
	}
}

// The coordinator of a stage of an hour is restarted near its end, and reads for two minutes, with the stage's end in
// them, before it can continue. Its agents, whose lease is 10 s, do not notice: heartbeats are answered from the start,
// and their snapshots are taken later. The first that reads is ended before it has read all. The run is complete.
func TestARunIsReadWhileItsAgentsContinue(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(50 * 365 * 24 * time.Hour) // instants count from the start of this process
		s := newShift(t, dir, 1)
		defer func() {
			if err := s.c.Close(); err != nil {
				t.Error(err)
			}
		}()
		for i := range uint64(*moreAgents) {
			s.hands = append(s.hands, &hand{s: s, number: 30 + i, version: "v1", info: &spatev1.AgentInfo{
				Name: fmt.Sprint("more-", i), Region: "eu", Weight: 1}})
		}
		s.pass(5)
		answer, err := runService{c: s.c}.SubmitRun(as(t, "anna"), &spatev1.SubmitRunRequest{
			MinAgents: uint32(len(s.hands)), Records: "jsonl",
			PlanYaml: []byte(clustertest.PlanOf("{rate: 300, duration: 1h}") + "on_agent_loss: reassign\n")})
		if err != nil {
			t.Fatal(err)
		}
		s.pass(58 * 60)
		for range 2 {
			reading := make(chan struct{})
			s.restart(reading)
			for range 60 {
				s.pass(1)
				for _, h := range s.hands {
					if time.Since(h.renewed) > 2*time.Second {
						t.Fatalf("the lease of %s was not renewed for %v", h.info.GetName(), time.Since(h.renewed))
					}
				}
			}
			close(reading)
		}
		for s.unended() {
			s.pass(1)
			if s.passed() > 2*time.Hour {
				t.Fatal("the run never ends")
			}
		}
		l, err := ledger.OpenReadOnly(s.c.storage.Ledger(answer.GetRunId()))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		record, err := l.Run()
		if err != nil || !record.GetComplete() || record.GetRestarts() != 1 || s.refused > 0 {
			t.Errorf("%d snapshots refused, record %v, %v", s.refused, record, err)
		}
	})
}

// While a run is being read, its agents' snapshots are not taken, a call that stops it waits, and its agents and
// servers are not given to others. If it cannot be read, its followers are told, and the next run begins.
func TestARunThatCannotBeReadIsLeft(t *testing.T) {
	before := start(t)
	a := before.Agent("a")
	id := before.SubmitPlan(1, keyless)
	a.Apply()
	a.Armed()
	if err := before.c.end(true); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{DataDir: before.dataDir, Logger: before.c.log, Version: "test", Run: leisurely})
	if err != nil {
		t.Fatal(err)
	}
	reading := make(chan struct{})
	c.rebuilds = func(string) { <-reading; panic("a bug") }
	h := serve(t, c, before.dataDir)
	again, err := h.Dial("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	again.Beat(1)
	if _, err := c.receiveSnapshot(a.Snapshot(0), certs.Identity{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a snapshot meanwhile: %v", err)
	}
	next := h.SubmitPlan(1, keyless)
	stopped, told := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id})
		stopped <- err
	}()
	go func() { told <- followOnce(t, h.Runs, id) }()
	for run, want := range map[string]spatev1.RunState{
		id: spatev1.RunState_RUN_STATE_RUNNING, next: spatev1.RunState_RUN_STATE_WAITING,
	} {
		if found, err := c.find(run); err != nil || found[0].GetState() != want {
			t.Errorf("got %v, %v, want %v", found, err, want)
		}
	}
	close(reading)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-told; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a follower is told %v", err)
	}
	if m := again.Hear(); m.GetAssign().GetRef().GetRunId() != next {
		t.Errorf("the agent hears %v, want an assignment of the next run", m)
	}
}
