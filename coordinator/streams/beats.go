package streams

import (
	"sync"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Beats makes the heartbeats of one control stream clock probes: it notes when they came, and adds the times to the
// answers. The zero Beats is ready to use. It is safe for concurrent use.
type Beats struct {
	mu     sync.Mutex
	number uint64 // of the last heartbeat
	at     clock.Instant
}

// Received takes what a stream's Recv has returned just now, and returns it.
func (b *Beats) Received(m *spatev1.ConnectRequest, err error) (*spatev1.ConnectRequest, error) {
	if h := m.GetHeartbeat(); h != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.number, b.at = h.GetNumber(), clock.Now()
	}
	return m, err
}

// Answer takes a message that is about to be sent. If it answers the last heartbeat, Answer adds the times by the
// coordinator's clock. there is the offset to that clock: zero at the coordinator itself.
func (b *Beats) Answer(m *spatev1.ConnectResponse, there clock.Offset) {
	r := m.GetRenewed()
	if r == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.GetNumber() != b.number {
		return
	}
	now := clock.Now()
	r.ReceivedClockNs, r.SentClockNs = int64(there.There(b.at)), int64(there.There(now))
	if there.Uncertainty > 0 { // it is that of now; since the heartbeat came the clocks may have drifted
		r.UncertaintyNs = (there.Uncertainty + clock.Drift(now.Sub(b.at))).Nanoseconds()
	}
}
