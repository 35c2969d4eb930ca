package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rig is a coordinator that is killed and restarted in the same directory, and a client that stays.
type rig struct {
	t    *testing.T
	cfg  Config
	conn *grpc.ClientConn
	runs spatev1.RunServiceClient

	mu       sync.Mutex
	c        *Coordinator
	gate     *gate
	listener *wire
	served   chan error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, cfg: Config{
		// as a pattern the directory is a bad one
		DataDir: filepath.Join(t.TempDir(), "[1] runs ["), Logger: slog.New(slog.DiscardHandler), Version: "test",
		Run: lifecycle.Config{Silence: time.Hour, NearLead: time.Millisecond},
	}}
	conn, err := grpc.NewClient("passthrough:///rig", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: clustertest.Patience,
			Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond, Multiplier: 1.5}}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			r.mu.Lock()
			l := r.listener
			r.mu.Unlock()
			return l.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	r.conn, r.runs = conn, spatev1.NewRunServiceClient(conn)
	r.start()
	t.Cleanup(func() {
		r.gate.restart() // a test that failed has left it stopped
		if err := errors.Join(conn.Close(), r.c.Close(), <-r.served); err != nil {
			t.Error(err)
		}
	})
	return r
}

// wire is a listener whose connections can all be broken at once.
type wire struct {
	*bufconn.Listener
	mu    sync.Mutex
	conns []net.Conn
}

// Accept accepts a connection and remembers it.
func (w *wire) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	return c, err
}

// cut closes the listener and all connections. Messages that were not received yet are lost.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.Close() // it never fails
	for _, c := range w.conns {
		if c != nil {
			_ = c.Close() // may be closed already
		}
	}
}

// start starts a coordinator in the rig's directory.
func (r *rig) start() {
	r.t.Helper()
	c, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	g := newGate(r.t, c)
	if r.gate != nil { // the disk stays
		g.disk = r.gate.disk
	}
	l, served := &wire{Listener: bufconn.Listen(1 << 20)}, make(chan error, 1)
	go func() { served <- c.Serve(l) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c, r.gate, r.listener, r.served = c, g, l, served
}

// awaitRuns waits until the coordinator lists these runs with their states: it serves before it has read them.
func (r *rig) awaitRuns(want ...string) {
	r.t.Helper()
	clustertest.Eventually(r.t, fmt.Sprint("runs ", want), func() bool {
		got, _ := clustertest.List(r.t, r.runs, 0)
		return slices.Equal(got, want)
	})
}

// crash ends the coordinator without notice: as far as possible within one process, nothing more is written, sent or
// closed properly.
func (r *rig) crash() {
	r.t.Helper()
	r.c.mu.Lock()
	r.listener.cut()
	left := slices.Concat(r.c.queue.waiting, r.c.queue.active)
	r.c.queue.active, r.c.queue.waiting, r.c.closed = nil, nil, true
	for _, run := range left {
		run.inProgress = false
	}
	if err := r.c.lock.Release(); err != nil { // as the kernel would
		r.t.Error(err)
	}
	r.c.mu.Unlock()
	r.gate.kill()
	for _, run := range left {
		if !run.isRebuilt() {
			continue // what reads its ledger closes it
		}
		if err := run.ledger.Close(); err != nil {
			r.t.Error(err)
		}
		run.over() // its worker returns
	}
	close(r.c.closing)
	r.c.once.Do(func() {})
	r.c.server.Stop()
	r.c.workers.Wait()
	if err := <-r.served; err != nil && !strings.Contains(err.Error(), "closed") { // its listener was closed
		r.t.Error(err)
	}
	clustertest.Eventually(r.t, "the client knows that its connection is gone", func() bool {
		return r.conn.GetState() != connectivity.Ready
	})
}

// actor is an agent that follows the protocol, whatever happens to its coordinator.
type actor struct {
	clustertest.Agent
	rig     *rig
	step    func()
	ref     *spatev1.AssignmentRef
	armed   bool
	pending []*spatev1.Snapshot // not acknowledged
	sent    int                 // number of requests, one per snapshot
	secrets []string            // secrets from assignments

	beats    chan uint64 // heartbeats to be sent; nil: none
	renewals chan uint64 // answers to heartbeats
}

// act plays the agent until ctx ends.
func (a *actor) act(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.session(ctx); err == nil {
			return
		}
	}
}

// session plays the agent over one connection.
func (a *actor) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	control, err := spatev1.NewControlServiceClient(a.rig.conn).Connect(ctx)
	if err != nil {
		return err
	}
	push, err := spatev1.NewMetricsServiceClient(a.rig.conn).Push(ctx)
	if err != nil {
		return err
	}
	hello := &spatev1.Hello{
		Protocol: access.Protocol, Definitions: measure.Definitions, Incarnation: a.Incarnation,
		Agent: &spatev1.AgentInfo{Name: a.Name, Region: "eu", Weight: 1}, Resume: a.ref, Armed: a.armed,
	}
	if err := control.Send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	for _, s := range a.pending {
		if err := push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
			return err
		}
	}
	told, quitControl := receive(control.Recv)
	defer quitControl()
	acks, quitPush := receive(push.Recv)
	defer quitPush()
	for {
		select {
		case m := <-told:
			if m.err != nil {
				return m.err
			}
			if err := a.handle(control, push, m.message); err != nil {
				return err
			}
		case m := <-acks:
			if m.err != nil {
				return m.err
			}
			a.rig.checkTold(nil, m.message)
			a.acknowledge(m.message)
		case n := <-a.beats:
			if err := control.Send(clustertest.Heartbeat(n)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// received is one message of a stream, or its end.
type received[M any] struct {
	message M
	err     error
}

// receive reads a stream in a goroutine of its own, until an error, which is the last message, or quit.
func receive[M any](recv func() (M, error)) (in <-chan received[M], quit func()) {
	out, done := make(chan received[M]), make(chan struct{})
	go func() {
		for {
			m, err := recv()
			select {
			case out <- received[M]{m, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out, func() { close(done) }
}

// handle carries out a message from the coordinator.
func (a *actor) handle(
	control spatev1.ControlService_ConnectClient, push spatev1.MetricsService_PushClient, m *spatev1.ConnectResponse,
) error {
	a.rig.checkTold(m, nil)
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectResponse_Renewed:
		a.renewals <- m.Renewed.GetNumber()
	case *spatev1.ConnectResponse_Assign:
		a.step()
		if !proto.Equal(a.ref, m.Assign.GetRef()) {
			a.ref, a.armed, a.Assigned, a.First = m.Assign.GetRef(), false, m.Assign, a.Sequence
		}
		a.secrets = append(a.secrets, m.Assign.GetSecrets()["env:KEY"])
		defer a.step()
		applied := &spatev1.Applied{Ref: a.ref, ClockUncertaintyNs: 1000}
		return control.Send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: applied}})
	case *spatev1.ConnectResponse_Arm:
		a.step()
		if a.armed || !proto.Equal(a.ref, m.Arm.GetRef()) {
			return nil
		}
		a.armed = true
		a.pending = append(a.pending, a.Snapshot(0), a.Last(1))
		a.sent += 2
		a.ref, a.armed = nil, false // its totals are on their way
		for _, s := range a.pending {
			a.step()
			if err := push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
				return err
			}
		}
	case *spatev1.ConnectResponse_Stop:
		a.rig.t.Errorf("%s is told to stop: %v", a.Name, m.Stop)
	}
	return nil
}

// acknowledge handles the answer to a snapshot and discards the snapshot.
func (a *actor) acknowledge(m *spatev1.PushResponse) {
	a.step()
	if m.GetRefused() != "" {
		a.rig.t.Errorf("%s: snapshot %d refused: %s", a.Name, m.GetKey().GetSequence(), m.GetRefused())
	}
	if len(a.pending) > 0 && a.pending[0].GetKey().GetSequence() == m.GetKey().GetSequence() {
		a.pending = a.pending[1:]
	}
}

// followAll reads a run's events to the end, across all restarts.
func (r *rig) followAll(ctx context.Context, id string) ([]*spatev1.RunEvent, error) {
	var events []*spatev1.RunEvent
	after := uint64(0)
	for ctx.Err() == nil {
		stream, err := r.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: id, After: after})
		if err != nil {
			continue // the coordinator was killed just then
		}
		for {
			m, err := stream.Recv()
			if err != nil {
				break
			}
			if m.GetNumber() <= after {
				return nil, fmt.Errorf("event %d after %d", m.GetNumber(), after)
			}
			after, events = m.GetNumber(), append(events, m.GetEvent())
			if m.GetEvent().GetRunEnded() != nil {
				return events, nil
			}
		}
	}
	return nil, ctx.Err()
}

// play is a plan that two agents run.
type play struct {
	rig     *rig
	plan    string
	agents  []*actor
	reached chan struct{} // closed at the step

	mu   sync.Mutex
	step int // steps taken by the agents
	at   int
	then func()
}

// newPlay sets up a play.
func newPlay(t *testing.T, plan string) *play {
	p := &play{rig: newRig(t), plan: plan, reached: make(chan struct{})}
	for _, name := range []string{"a", "b"} {
		p.agents = append(p.agents, &actor{
			Agent: clustertest.Agent{Name: name, Incarnation: 7}, rig: p.rig, step: p.count,
			beats: make(chan uint64, 1), renewals: make(chan uint64, 1),
		})
	}
	return p
}

// atStep sets what happens at a step of the agents.
func (p *play) atStep(at int, then func()) { p.at, p.then = at, then }

// count counts a step.
func (p *play) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.step++; p.step == p.at {
		p.then()
		close(p.reached)
	}
}

// run plays the plan, ends the coordinator after the step, and starts the next one. It reports whether the run reached
// the step.
func (p *play) run(end func()) (killed bool) {
	t, r := p.rig.t, p.rig
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var acting sync.WaitGroup
	for _, a := range p.agents {
		acting.Go(func() { a.act(ctx) })
	}
	answer, err := r.runs.SubmitRun(ctx, &spatev1.SubmitRunRequest{
		PlanYaml: []byte(p.plan), MinAgents: 2, Secrets: map[string]string{"env:KEY": clustertest.SecretKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := answer.GetRunId()
	type followed struct {
		events []*spatev1.RunEvent
		err    error
	}
	done := make(chan followed, 1)
	go func() {
		events, err := r.followAll(ctx, id)
		done <- followed{events, err}
	}()
	var f followed
	select {
	case <-p.reached:
		killed = true
		end()
		r.start()
		f = <-done
	case f = <-done:
	}
	cancel()
	acting.Wait()
	if f.err != nil {
		t.Fatal(f.err)
	}
	checkWhole(t, filepath.Join(r.cfg.DataDir, id), f.events, p.agents)
	return killed
}

// playKilled runs a plan and ends the coordinator at a step of its agents. It reports whether the run reached the step.
func playKilled(t *testing.T, plan string, at int, end func(*rig)) (killed bool) {
	p := newPlay(t, plan)
	p.atStep(at, func() {})
	return p.run(func() { end(p.rig) })
}

// checkTold checks a message to an agent against the disk of the current coordinator.
func (r *rig) checkTold(m *spatev1.ConnectResponse, ack *spatev1.PushResponse) {
	r.mu.Lock()
	g := r.gate
	r.mu.Unlock()
	g.checkTold(m, ack)
}

// checkWhole checks that nothing is missing and nothing is counted twice.
func checkWhole(t *testing.T, dir string, events []*spatev1.RunEvent, agents []*actor) {
	t.Helper()
	l, err := ledger.OpenReadOnly(filepath.Join(dir, ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	result, err := results.Of(l)
	if err != nil {
		t.Fatal(err)
	}
	var got, sent uint64
	for _, s := range result.Stages {
		got += s.Requests.Completed
	}
	for _, a := range agents {
		sent += uint64(a.sent)
	}
	if !result.Run.Complete || got != sent {
		t.Errorf("complete %v, %d requests of %d: %+v", result.Run.Complete, got, sent, events[len(events)-1])
	}
	var kinds []string
	for _, e := range events {
		kind, _, _ := strings.Cut(fmt.Sprintf("%T", e.GetEvent())[len("*spatev1.RunEvent_"):], " ")
		if kind != "Notice" && kind != "StageProgress" {
			kinds = append(kinds, kind)
		}
	}
	want := "RunStarted" + strings.Repeat(" StageStarted StageEnded", len(result.Stages)) + " RunEnded"
	if text := strings.Join(kinds, " "); text != want {
		t.Errorf("events %s, want %s", text, want)
	}
}

// searchPlan is a plan with a search in which every probe keeps the objectives.
var searchPlan = strings.Replace(clustertest.Plan, "  - concurrency: [1, 2]\n    requests: 4\n",
	"  - search: {concurrency: {from: 1, to: 4}, keep: {latencies: [{metric: ttft, percentile: 99, at_most: "+
		"500ms}]}, probes: 4}\n    requests: 4\n", 1)

// leave ends the coordinator properly and leaves its run to the next one.
func (r *rig) leave() {
	r.t.Helper()
	if err := errors.Join(r.c.end(true), <-r.served); err != nil {
		r.t.Error(err)
	}
}

// A coordinator may be killed, or leave, at any step of its agents: the run continues, its result is complete, totals
// match, nothing counts twice, and followers see each event once.
func TestAKilledCoordinatorContinues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan   string
		stride int
		end    func(*rig)
	}{"sweep": {clustertest.Plan, 1, (*rig).crash}, "search": {searchPlan, 3, (*rig).crash},
		"sweep it leaves": {clustertest.Plan, 2, (*rig).leave}} {
		t.Run(name, func(t *testing.T) {
			for at, killed := 1, true; killed; at += tc.stride {
				killed = false
				t.Run(fmt.Sprint("step ", at), func(t *testing.T) { killed = playKilled(t, tc.plan, at, tc.end) })
			}
		})
	}
}

// A coordinator that is killed with two runs in progress and one that waits resumes all of them, each with its agents.
func TestSeveralRunsGoOn(t *testing.T) {
	t.Parallel()
	for at, killed := 1, true; killed; at += 2 {
		killed = false
		t.Run(fmt.Sprint("step ", at), func(t *testing.T) { killed = severalKilled(t, at) })
	}
}

func severalKilled(t *testing.T, at int) (killed bool) {
	p := newPlay(t, "")
	p.atStep(at, func() {})
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var acting sync.WaitGroup
	for _, a := range p.agents {
		acting.Go(func() { a.act(ctx) })
	}
	var ids []string
	for _, server := range []string{"one", "two", "one"} {
		answer, err := p.rig.runs.SubmitRun(ctx,
			&spatev1.SubmitRunRequest{PlanYaml: []byte(clustertest.PlanOn(1, server)), MinAgents: 1})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, answer.GetRunId())
	}
	done := make(chan error)
	for _, id := range ids {
		go func() {
			events, err := p.rig.followAll(ctx, id)
			if end := events[max(0, len(events)-1)].GetRunEnded(); err == nil && !end.GetComplete() {
				err = fmt.Errorf("run %s: %v", id, end)
			}
			done <- err
		}()
	}
	left := len(ids)
	take := func(err error) {
		if left--; err != nil {
			t.Error(err)
		}
	}
	for !killed && left > 0 {
		select {
		case <-p.reached:
			killed = true
			p.rig.crash()
			p.rig.start()
		case err := <-done:
			take(err)
		}
	}
	for left > 0 {
		take(<-done)
	}
	cancel()
	acting.Wait()
	sent := 0
	for _, a := range p.agents {
		sent += a.sent
	}
	for _, id := range ids {
		l, err := ledger.OpenReadOnly(filepath.Join(p.rig.cfg.DataDir, id, ledger.File))
		if err != nil {
			t.Fatal(err)
		}
		if got := clustertest.AgentsIn(t, l); len(got) != 1 {
			t.Errorf("run %s has the agents %v", id, got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if sent != 2*len(ids) {
		t.Errorf("%d requests, want two for each run", sent)
	}
	return killed
}
