package executor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/executor/balance"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// accepting is an engine that records when its connections came.
type accepting struct {
	*enginetest.Engine
	mu   sync.Mutex
	came []clock.Instant
}

func newAccepting(t *testing.T) *accepting {
	a := &accepting{Engine: &enginetest.Engine{Delay: 50 * ms}}
	a.Server = httptest.NewUnstartedServer(a.Engine)
	a.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.came = append(a.came, clock.Now())
		}
	}
	a.Start()
	t.Cleanup(a.Close)
	return a
}

// since counts the connections that came after one instant, up to another.
func (a *accepting) since(after, until clock.Instant) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.came {
		if at > after && at <= until {
			n++
		}
	}
	return n
}

// TestConnectionsBeforeTheStart: all slots that start together find their connections open, and send no request before
// the start. Each connection is counted once.
func TestConnectionsBeforeTheStart(t *testing.T) {
	t.Parallel()
	const slots = 40
	for _, kind := range []string{"", "random", balance.LeastOutstanding} {
		t.Run("balance "+kind, func(t *testing.T) {
			t.Parallel()
			a, b := newAccepting(t), newAccepting(t)
			stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: slots, Requests: slots}, a.Engine)
			stage.Target.Endpoints = []string{a.URL, b.URL}
			stage.Target.Balance = kind
			s, err := ready.Prepare(t.Context(), enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
			if err != nil {
				t.Fatal(err)
			}
			armed := clock.Now()
			u := startAt(t, s, armed.Add(time.Second))
			o := u.Wait(t)
			if all := a.since(armed, u.start) + b.since(armed, u.start); all != slots {
				t.Errorf("%d connections were opened before the start, want %d", all, slots)
			}
			if later := a.since(u.start, clock.Now()) + b.since(u.start, clock.Now()); later != 0 {
				t.Errorf("%d connections were opened after the start", later)
			}
			if n := o.Totals.GetCounters().GetConnections(); n != slots {
				t.Errorf("%d connections were told", n)
			}
			for _, row := range o.rows {
				if row.ConnectNs == nil || row.GetStartNs() < 0 {
					t.Errorf("request %d started at %d ns, connected in %v", row.GetIndex(), row.GetStartNs(),
						row.ConnectNs)
				}
			}
		})
	}
}

// TestNoConnectionsBeforeTheStart: slots that start later, and requests with one connection each, open their own
// connections.
func TestNoConnectionsBeforeTheStart(t *testing.T) {
	for name, change := range map[string]func(*spatev1.Stage){
		"staggered":             func(s *spatev1.Stage) { s.Load.Stagger = span(100 * ms) },
		"no connection is kept": func(s *spatev1.Stage) { s.Target.Connection = &spatev1.Connection{Reuse: "new"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccepting(t)
			stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 10, Requests: 20}, a.Engine)
			change(stage)
			s, err := ready.Prepare(t.Context(), enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
			if err != nil {
				t.Fatal(err)
			}
			armed := clock.Now()
			u := startAt(t, s, armed.Add(300*ms))
			o := u.Wait(t)
			if before := a.since(armed, u.start); before > 1 { // the first slot of a stagger starts at once
				t.Errorf("%d connections were opened before the start", before)
			}
			if c := o.Totals.GetCounters(); c.GetCompleted() < 20 || c.GetFailed() > 0 {
				t.Errorf("totals %v", c)
			}
		})
	}
}

// TestOpeningEndsBeforeTheStart: a server with slow handshakes delays no start; requests open their own connections,
// and report errors.
func TestOpeningEndsBeforeTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 3}, enginetest.New(t, 0, 0))
	s, err := ready.Prepare(t.Context(), enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	s.Client.Close()
	s.Client, err = stream.New(stream.Config{
		Endpoints: []string{"https://" + l.Addr().String()}, // where no handshake is answered
		API:       "completions", Model: "m", ConnectTimeout: 400 * ms, RequestTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := startAt(t, s, clock.Now().Add(200*ms)).Wait(t)
	if late := time.Duration(o.Totals.GetStartErrorNs()); late > 100*ms {
		t.Errorf("the start was %v late", late)
	}
	if n := o.Totals.GetCounters().GetFailed(); n != 3 {
		t.Errorf("%d requests failed, want 3", n)
	}
	if !slices.ContainsFunc(o.rows, func(r *spatev1.RequestRecord) bool {
		return r.GetErrorClass() == spatev1.ErrorClass_ERROR_CLASS_CONNECT
	}) {
		t.Errorf("rows %v", o.rows)
	}
}
