package agent

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A coordinator that hears nothing, or says nothing, ends the load just as one that is gone, although the connection
// looks healthy.
func TestLeaseRunsWhileConnected(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.lease = 2 * time.Second // longer than a busy machine may delay heartbeats, and shorter than minSilence
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	c.begin(endless(e))
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 0 })
	c.setMute(true)
	totals := c.totals(0)
	if !strings.Contains(totals.GetFailure(), "longer than the lease of 2s") ||
		totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("totals %v", totals)
	}
	if c.hellos != 1 {
		t.Errorf("%d sessions", c.hellos)
	}
}

// A session in which nothing is heard ends, and the load survives that.
func TestSilentSessionIsClosed(t *testing.T) {
	t.Parallel()
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

func TestHeartbeatsWaitForTheirAnswers(t *testing.T) {
	var b beats
	for n := range uint64(100) {
		b.remember(n+1, clock.Instant(n)*1000)
	}
	if _, known := b.answered(3); known {
		t.Error("an old one is remembered forever")
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
