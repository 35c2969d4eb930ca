package supervisor

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/ready"
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

// leaseEnd plays answers to a supervisor and returns when it ended its assignment. It runs in a bubble.
func leaseEnd(session, own time.Duration, all []answered, step time.Duration, steps int) time.Duration {
	begin, ended := clock.Now(), time.Duration(0)
	r := New(&ready.Resources{Logger: slog.New(slog.DiscardHandler)}, outbox.New("a", 1, 1<<20), nil)
	r.SetTerms(begin, session)
	r.lease.renewed = begin // the bubble's clock is below zero, which means none
	r.mu.Lock()
	r.current = &assignment{ref: &spatev1.AssignmentRef{RunId: "run"}, helloSent: begin, lease: own,
		cancel: func() { ended = clock.Now().Sub(begin) }}
	r.watchLease()
	r.mu.Unlock()
	for at := range steps {
		for _, a := range all {
			if a.came == time.Duration(at)*step {
				r.RenewLease(begin.Add(a.sent))
			}
		}
		time.Sleep(step)
		synctest.Wait()
	}
	r.Close("the test is over")
	return ended
}

// The lease of an assignment is the shorter one of the session's and its own.
func TestAssignmentShortensTheLease(t *testing.T) {
	for own, want := range map[time.Duration]time.Duration{0: time.Minute, time.Second: time.Second,
		time.Hour: time.Minute} {
		s := supervisorOf(t, ready.Limits{}, 1<<20)
		a := enginetest.AssignOf(
			enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, enginetest.New(t, 0, 0)),
			0,
		)
		a.Lease = durationpb.New(own)
		said := make(said, 1)
		s.Assign(a, said)
		if got := <-said; got != "applied" {
			t.Fatal(got)
		}
		s.mu.Lock()
		_, length := s.lease.of(s.current)
		s.mu.Unlock()
		if length != want {
			t.Errorf("own lease %v: it lasts %v, want %v", own, length, want)
		}
	}
}
