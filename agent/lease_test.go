package agent

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// answered is a heartbeat with the time of its answer.
type answered struct{ sent, came time.Duration }

// However late and in whatever order answers come, the lease ends at the first moment at which every heartbeat answered
// by then is older than the lease. It never starts again.
func TestLeaseCountsFromAnsweredHeartbeats(t *testing.T) {
	const step, last = time.Millisecond, 400
	rapid.Check(t, func(rt *rapid.T) {
		session := time.Duration(rapid.IntRange(20, 60).Draw(rt, "session's lease")) * step
		own := time.Duration(rapid.SampledFrom([]int{0, 10, 40, 80}).Draw(rt, "assignment's lease")) * step
		var all []answered
		for range rapid.IntRange(0, 12).Draw(rt, "heartbeats") {
			sent := time.Duration(rapid.IntRange(0, last).Draw(rt, "sent")) * step
			all = append(all, answered{sent, sent + time.Duration(rapid.IntRange(0, 100).Draw(rt, "later"))*step})
		}
		length := session
		if own > 0 {
			length = min(length, own)
		}
		// The oracle checks every moment.
		renewed, want := time.Duration(0), time.Duration(0)
		for at := time.Duration(0); want == 0; at += step {
			if at >= renewed+length {
				want = at
				break
			}
			for _, a := range all {
				if a.came == at {
					renewed = max(renewed, a.sent)
				}
			}
		}
		var got time.Duration
		synctest.Test(t, func(*testing.T) { got = leaseEnd(session, own, all, step, 2*last) })
		if got != want {
			rt.Fatalf("ended at %v, not %v", got, want)
		}
	})
}

// leaseEnd plays answers to a runner and returns when it ended its assignment. It runs in a bubble.
func leaseEnd(session, own time.Duration, all []answered, step time.Duration, steps int) time.Duration {
	begin, ended := clock.Now(), time.Duration(0)
	r := &runner{outbox: outbox.New("a", 1, 1<<20), logger: slog.New(slog.DiscardHandler)}
	r.setTerms(begin, session)
	r.lease.renewed = begin // the bubble's clock is below zero, which means none
	r.mu.Lock()
	r.current = &assignment{ref: &spatev1.AssignmentRef{RunId: "run"}, helloSent: begin, lease: own,
		cancel: func() { ended = clock.Now().Sub(begin) }}
	r.watchLease()
	r.mu.Unlock()
	for at := range steps {
		for _, a := range all {
			if a.came == time.Duration(at)*step {
				r.renewLease(begin.Add(a.sent))
			}
		}
		time.Sleep(step)
		synctest.Wait()
	}
	r.close("the test is over")
	return ended
}

func TestHeartbeatsWaitForTheirAnswers(t *testing.T) {
	var b beats
	for n := range uint64(100) {
		b.remember(n+1, clock.Instant(n)*1000)
	}
	if _, known := b.answered(3); known {
		t.Error("an old one is remembered for ever")
	}
	if at, known := b.answered(90); !known || at != 89_000 {
		t.Errorf("sent at %d, %t", at, known)
	}
	if _, known := b.answered(90); known {
		t.Error("answered twice")
	}
	if _, known := b.answered(80); known {
		t.Error("one before the last that was answered still waits")
	}
	if at, known := b.answered(100); !known || at != 99_000 || len(b.sent) != 0 {
		t.Errorf("sent at %d, %t, %d left", at, known, len(b.sent))
	}
}

// A coordinator that hears nothing, or says nothing, ends the load just as one that is gone, although the connection
// looks healthy.
func TestLeaseRunsWhileConnected(t *testing.T) {
	c := newCoordinator(t)
	c.lease = 700 * time.Millisecond
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	c.begin(endless(e))
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 0 })
	c.setMute(true)
	totals := c.totals(0)
	if !strings.Contains(totals.GetFailure(), "longer than the lease of 700ms") ||
		totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("totals %v", totals)
	}
	if c.hellos != 1 {
		t.Errorf("%d sessions", c.hellos)
	}
}

func TestAssignmentShortensTheLease(t *testing.T) {
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	a := endless(enginetest.New(t, time.Millisecond, 0))
	a.Lease = durationpb.New(1500 * time.Millisecond)
	c.begin(a)
	began := time.Now()
	enginetest.Eventually(t, "renewals beyond the lease", func() bool { return time.Since(began) > 2200*time.Millisecond })
	if c.agent.runner.ref() == nil {
		t.Fatal("the lease ended though heartbeats were answered")
	}
	c.setMute(true)
	if failure := c.totals(0).GetFailure(); !strings.Contains(failure, "longer than the lease of 1.5s") {
		t.Errorf("failure %q", failure)
	}
}

// A session in which nothing is heard ends, and the load survives that.
func TestSilentSessionIsClosed(t *testing.T) {
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := endless(e)
	c.begin(a)
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 0 })
	c.setMute(true)
	hello := c.next().GetHello()
	if !proto.Equal(hello.GetResume(), a.GetRef()) || !hello.GetArmed() {
		t.Errorf("hello %v", hello)
	}
	c.setMute(false)
	sofar := len(e.Requests())
	enginetest.Eventually(t, "more load", func() bool { return len(e.Requests()) > sofar+5 })
	c.stop(a.GetRef())
	if totals := c.totals(0); totals.GetFailure() != "" || !totals.GetStopped() {
		t.Errorf("totals %v", totals)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range c.heartbeats {
		if h.GetNumber() == 0 || i > 0 && h.GetNumber() <= c.heartbeats[i-1].GetNumber() {
			t.Fatalf("heartbeat %d has number %d", i, h.GetNumber())
		}
	}
}
