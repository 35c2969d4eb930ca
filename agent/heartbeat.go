package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// A session ends when nothing is heard for silentBeats heartbeat intervals, but at least minSilence: a
	// connection whose other end is gone may look healthy for minutes.
	silentBeats = 3
	minSilence  = 3 * time.Second
	// maxBeats is how many unanswered heartbeats are remembered.
	maxBeats = 64
)

// beats are the unanswered heartbeats of a session. The zero value is ready for use. They are safe for concurrent use.
type beats struct {
	mu   sync.Mutex
	sent []beat // oldest first
}

type beat struct {
	number uint64
	at     clock.Instant
}

// remember remembers a heartbeat that is about to be sent.
func (b *beats) remember(number uint64, at clock.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sent) == maxBeats {
		b.sent = append(b.sent[:0], b.sent[1:]...)
	}
	b.sent = append(b.sent, beat{number, at})
}

// answered returns when a heartbeat was sent, or false if it is not waiting for an answer. It forgets all earlier
// heartbeats too.
func (b *beats) answered(number uint64) (at clock.Instant, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range b.sent {
		if s.number == number {
			b.sent = append(b.sent[:0], b.sent[i+1:]...)
			return s.at, true
		}
	}
	return 0, false
}

// heartbeats sends a heartbeat at once, then every interval, and whenever the supervisor requests one.
func (s *session) heartbeats(interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		h := s.heartbeat()
		s.beats.remember(h.GetNumber(), clock.Now())
		err := s.send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: h}})
		if err != nil {
			return reason.Unsent(s.ctx, err)
		}
		select {
		case <-tick.C:
		case <-s.agent.supervisor.HeartbeatRequests():
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// heartbeat returns the next heartbeat, with the agent's current state.
func (s *session) heartbeat() *spatev1.Heartbeat {
	h := &spatev1.Heartbeat{
		Number:           s.agent.heartbeats.Add(1),
		InFlight:         s.agent.supervisor.InFlight(),
		UnackedSnapshots: uint32(s.agent.outbox.Waiting()),
		Ended:            s.agent.supervisor.EndedRef(),
		Leaving:          s.agent.leaving.Load(),
	}
	cpu, at := clock.CPU(), clock.Now()
	if passed := at.Sub(s.lastAt); passed > 0 {
		h.CpuCores = (cpu - s.lastCPU).Seconds() / passed.Seconds()
	}
	s.lastCPU, s.lastAt = cpu, at
	if o, known := s.clock.Now(); known {
		h.ClockOffsetNs, h.ClockUncertaintyNs = o.Nanos, o.Uncertainty.Nanoseconds()
	}
	return h
}

// markHeard records that a message came from the coordinator.
func (s *session) markHeard() { s.heard.Store(int64(clock.Now())) }

// watchSilence returns an error when the coordinator has been silent for longer than limit, or when the session ends.
func (s *session) watchSilence(limit time.Duration) error {
	for {
		until := clock.Instant(s.heard.Load()).Add(limit)
		if left := clock.Until(until); left <= 0 {
			return fmt.Errorf("no message for %v: connection closed", limit)
		}
		if !clock.SleepUntil(s.ctx, until) {
			return s.ctx.Err()
		}
	}
}
