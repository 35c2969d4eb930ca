package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/storage"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// gate is the disk of a coordinator: all writes of its runs go through it. It can be stopped, as if Sync did not
// return, and it knows what is durable.
type gate struct {
	t testing.TB
	c *Coordinator

	mu      sync.Mutex
	open    chan struct{} // closed while the disk accepts writes
	late    bool          // stopped writes have been written; only Sync does not return
	dead    bool          // the process was killed
	waiting int           // stopped writes
	more    chan struct{} // closed and replaced with each further stopped write
	disk    *durable
}

// durable is the content of a disk, whichever process wrote it. A late write is durable when it returns or when its
// process is killed.
type durable struct {
	kept    sync.Map // keys of snapshots
	started sync.Map // stages whose start is durable
}

// newGate puts an open gate in front of a coordinator's disk.
func newGate(t testing.TB, c *Coordinator) *gate {
	g := &gate{t: t, c: c, open: make(chan struct{}), more: make(chan struct{}), disk: &durable{}}
	close(g.open)
	c.diskOf = func(l *ledger.Ledger) storage.Disk { return gated{g, l} }
	return g
}

// stop stops the disk.
func (g *gate) stop(late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.late = make(chan struct{}), late
}

// restart lets a stopped disk continue.
func (g *gate) restart() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// kill ends the process: stopped writes never return.
func (g *gate) kill() {
	g.mu.Lock()
	g.dead = true
	g.mu.Unlock()
	g.restart()
}

// held waits until n writes are stopped.
func (g *gate) held(n int) {
	g.t.Helper()
	timeout := time.After(clustertest.Patience)
	for {
		g.mu.Lock()
		waiting, more := g.waiting, g.more
		g.mu.Unlock()
		if waiting >= n {
			return
		}
		select {
		case <-more:
		case <-timeout:
			g.t.Fatalf("%d writes wait for the disk, want %d", waiting, n)
		}
	}
}

var errKilled = errors.New("the process was killed")

// pass performs one write. It checks that the lock that heartbeats need is free.
func (g *gate) pass(write func() error) error {
	g.checkLock()
	g.mu.Lock()
	open, late := g.open, g.late
	g.waiting++
	close(g.more)
	g.more = make(chan struct{})
	g.mu.Unlock()
	if late {
		if err := write(); err != nil {
			return err
		}
	}
	<-open
	g.mu.Lock()
	g.waiting--
	dead := g.dead
	g.mu.Unlock()
	switch {
	case dead:
		return errKilled
	case late:
		return nil
	}
	return write()
}

// checkLock fails the test if the writer holds ground.mu.
func (g *gate) checkLock() {
	free := make(chan struct{})
	go func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		close(free)
	}()
	select {
	case <-free:
	case <-time.After(clustertest.Patience):
		g.t.Error("a write to the disk holds the lock that heartbeats need")
	}
}

// gated is the disk of one run.
type gated struct {
	gate   *gate
	ledger *ledger.Ledger
}

func (d gated) Put(change ledger.Change) error {
	stored := false
	err := d.gate.pass(func() error { err := d.ledger.Put(change); stored = err == nil; return err })
	for _, rec := range change.Stages {
		if stored && rec.GetStartTime() != nil {
			d.gate.disk.started.Store(rec.GetStage().GetIndex(), true)
		}
	}
	return err
}

func (d gated) Append(batch []*spatev1.Snapshot) (fresh []bool, err error) {
	stored := false
	err = d.gate.pass(func() error { fresh, err = d.ledger.Append(batch); stored = err == nil; return err })
	for _, s := range batch {
		if stored {
			d.gate.disk.kept.Store(s.GetKey().String(), true)
		}
	}
	return fresh, err
}

// checkTold fails the test if a message to an agent depends on something that is not durable.
func (g *gate) checkTold(m *spatev1.ConnectResponse, ack *spatev1.PushResponse) {
	if arm := m.GetArm(); arm != nil {
		if _, ok := g.disk.started.Load(arm.GetRef().GetStageIndex()); !ok {
			g.t.Error("an agent is armed for a start that is not durable")
		}
	}
	if _, ok := g.disk.kept.Load(ack.GetKey().String()); ack != nil && ack.GetRefused() == "" && !ok {
		g.t.Errorf("snapshot %d is acknowledged and not durable", ack.GetKey().GetSequence())
	}
}

// Whatever waits for the disk, heartbeats of all agents are answered, and no client sees anything that is not
// durable yet.
func TestHeartbeatsDoNotWaitForTheDisk(t *testing.T) {
	for name, late := range map[string]bool{"before it is written": false, "before Sync returns": true} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			s := &stopper{t: t, h: h, late: late, a: h.Agent("a"), b: h.Agent("b")}
			s.whileCalling(s.submit) // the submission, and the start of the run
			s.a.Apply()
			s.while(s.b.Apply) // the start
			s.a.Armed()
			s.b.Armed()
			first := s.a.Snapshot(0)
			s.while(func() { s.push(s.a, first) })
			if ack, err := s.a.Push.Recv(); err != nil || ack.GetRefused() != "" {
				t.Fatal(ack, err)
			}
			s.whileCalling(s.submit) // another run, which waits
			got, all := clustertest.List(t, h.Runs, 0)
			if len(got) != 2 {
				t.Fatal(got)
			}
			s.whileCalling(func() error { return s.stop(all[0].GetRunId()) }) // its end
			s.whileCalling(func() error { return s.stop(all[1].GetRunId()) }) // the stop of the run in progress
			s.a.Stopped()
			s.b.Stopped()
			s.a.Acked(s.a.Last(1))
			last := s.b.Last(0)
			s.while(func() {
				s.push(s.b, last)
				h.gate.held(1)
				if _, ok := h.gate.disk.kept.Load(last.GetKey().String()); ok {
					t.Error("the disk was not stopped")
				}
			})
			h.End(all[1].GetRunId())
		})
	}
}

// stopper does things while the disk is stopped.
type stopper struct {
	t     *testing.T
	h     *harness
	late  bool // the disk stops before Sync returns, not before it writes
	a, b  *clustertest.Agent
	beats uint64
}

// while stops the disk, does something that waits for the disk, checks that heartbeats are answered meanwhile, and lets
// the disk continue.
func (s *stopper) while(do func()) {
	s.t.Helper()
	s.h.gate.stop(s.late)
	do()
	s.h.gate.held(1)
	for range 3 {
		s.beats++
		s.a.Beat(s.beats)
		s.b.Beat(s.beats)
	}
	s.h.gate.restart()
}

// whileCalling is while for a call that does not return before the disk continues.
func (s *stopper) whileCalling(call func() error) {
	s.t.Helper()
	done := make(chan error, 1)
	s.while(func() { go func() { done <- call() }() })
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

// submit submits a run of two agents.
func (s *stopper) submit() error {
	_, err := s.h.Runs.SubmitRun(s.t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 2})
	return err
}

// stop stops a run immediately.
func (s *stopper) stop(id string) error {
	_, err := s.h.Runs.StopRun(s.t.Context(), &spatev1.StopRunRequest{RunId: id, Immediately: true})
	return err
}

// push sends a snapshot and does not wait for the answer.
func (s *stopper) push(a *clustertest.Agent, snapshot *spatev1.Snapshot) {
	if err := a.Push.Send(&spatev1.PushRequest{Snapshot: snapshot}); err != nil {
		s.t.Fatal(err)
	}
}

// An agent whose control stream breaks while the disk is stopped may reconnect, and its heartbeats are answered.
func TestAgentsComeBackWhileTheDiskIsStopped(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	h.Submit(1)
	h.gate.stop(false)
	a.Apply()
	h.gate.held(1)
	again, err := h.Dial("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	again.Beat(1)
	h.gate.restart()
}

// The disk stops at any step of the agents, and the coordinator is killed before the disk continues. Until then
// heartbeats are answered, nothing is told that is not durable, and in the end all requests count once.
func TestACoordinatorIsKilledWhileTheDiskIsStopped(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"before it is written": false, "before Sync returns": true} {
		t.Run(name, func(t *testing.T) {
			stopped := 0
			for at, killed := 1, true; killed; at++ {
				killed = false
				t.Run(fmt.Sprint("step ", at), func(t *testing.T) {
					var held int
					held, killed = playStopped(t, at, late)
					stopped += held
				})
			}
			if stopped == 0 {
				t.Error("nothing ever waited for the disk")
			}
		})
	}
}

// playStopped is playKilled, but stops the disk first at the step. It also returns how many writes were stopped.
func playStopped(t *testing.T, at int, late bool) (held int, killed bool) {
	p := newPlay(t, clustertest.Plan)
	p.atStep(at, func() { p.rig.gate.stop(late) })
	killed = p.run(func() {
		for number := range uint64(3) {
			for _, a := range p.agents {
				a.beats <- number + 1
			}
			for _, a := range p.agents {
				p.renewed(a, number+1)
			}
		}
		p.rig.gate.mu.Lock()
		held = p.rig.gate.waiting
		p.rig.gate.mu.Unlock()
		p.rig.crash()
	})
	return held, killed
}

// renewed waits for the answer to a heartbeat.
func (p *play) renewed(a *actor, number uint64) {
	p.rig.t.Helper()
	select {
	case got := <-a.renewals:
		if got != number {
			p.rig.t.Errorf("%s hears the answer to heartbeat %d, want %d", a.Name, got, number)
		}
	case <-time.After(clustertest.Patience):
		p.rig.t.Fatalf("%s hears no answer to heartbeat %d", a.Name, number)
	}
}

// stuckDisk accepts a write and returns when it is opened.
type stuckDisk struct{ called, open chan struct{} }

func (d stuckDisk) Put(ledger.Change) error {
	close(d.called)
	<-d.open
	return nil
}

func (d stuckDisk) Append([]*spatev1.Snapshot) ([]bool, error) { return nil, nil }

func (d stuckDisk) AppendAll([]*spatev1.Snapshot) error { return nil }

// The clock of a run's machine stands still while the disk is stalled.
func TestTimeStandsStillWhileTheDiskDoes(t *testing.T) {
	begun := make(chan struct{})
	h := start(t, func(c *Config) {
		c.OpenSink = func(string) (sink.Sink, error) { <-begun; return sink.Discard, nil } // only the test ticks
	})
	defer close(begun)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = h.Runs.SubmitRun(ctx, &spatev1.SubmitRunRequest{ // fails because its context is cancelled
			PlanYaml: []byte(keyless), MinAgents: 1, AgentsTimeout: durationpb.New(1),
		})
	}()
	r := h.active()
	ended := func() bool {
		r.tick(lifecycle.View{}, false)
		h.c.mu.Lock()
		defer h.c.mu.Unlock()
		return r.machine.Ended()
	}
	var now atomic.Int64
	stuck := stuckDisk{make(chan struct{}), make(chan struct{})}
	h.c.mu.Lock()
	r.disk = storage.Watch(stuck, func() clock.Instant { return clock.Instant(now.Load()) })
	h.c.mu.Unlock()
	written := make(chan error)
	go func() { written <- r.disk.Put(ledger.Change{}) }()
	<-stuck.called
	now.Store(int64(time.Minute))
	if ended() {
		t.Error("the run stops waiting for agents while the disk is stopped")
	}
	close(stuck.open)
	if err := <-written; err != nil {
		t.Error(err)
	}
	if !ended() {
		t.Error("the run continues to wait")
	}
}

// active waits for a run to be in progress and returns it.
func (h *harness) active() *run {
	h.T.Helper()
	for until := time.Now().Add(clustertest.Patience); time.Now().Before(until); {
		h.c.mu.Lock()
		active := h.c.queue.active
		h.c.mu.Unlock()
		if len(active) > 0 {
			return active[0]
		}
	}
	h.T.Fatal("no run begins")
	return nil
}
