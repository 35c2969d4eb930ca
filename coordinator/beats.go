package coordinator

import (
	"sync"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// beats makes the heartbeats of one control stream clock probes: it notes when they came, and adds the times to the
// answers. The zero value is ready to use. It is safe for concurrent use.
type beats struct {
	mu     sync.Mutex
	number uint64 // of the last heartbeat
	at     clock.Instant
}

// received takes what a stream's Recv has returned just now, and returns it.
func (b *beats) received(m *spatev1.ConnectRequest, err error) (*spatev1.ConnectRequest, error) {
	if h := m.GetHeartbeat(); h != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.number, b.at = h.GetNumber(), clock.Now()
	}
	return m, err
}

// answer takes a message that is about to be sent. If it answers the last heartbeat, answer adds the times.
func (b *beats) answer(m *spatev1.ConnectResponse) {
	r := m.GetRenewed()
	if r == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.GetNumber() == b.number {
		r.ReceivedClockNs, r.SentClockNs = int64(b.at), int64(clock.Now())
	}
}
