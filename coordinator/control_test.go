package coordinator

import (
	"errors"
	"testing"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Only the answer to the last heartbeat gets times: those of earlier ones are gone.
func TestOnlyTheLastHeartbeatIsAClockProbe(t *testing.T) {
	var b beats
	receive := func(number uint64) {
		t.Helper()
		beat := &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{Number: number}}
		m, err := b.received(&spatev1.ConnectRequest{Message: beat}, nil)
		if m.GetHeartbeat().GetNumber() != number || err != nil {
			t.Errorf("%v, %v", m, err)
		}
	}
	answer := func(number uint64) *spatev1.Renewed {
		r := &spatev1.Renewed{Number: number}
		b.answer(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{Renewed: r}})
		return r
	}
	receive(1)
	first := clock.Now()
	receive(2)
	if r := answer(1); r.GetSentClockNs() != 0 || r.GetReceivedClockNs() != 0 {
		t.Errorf("an earlier heartbeat: %v", r)
	}
	r := answer(2)
	came := r.GetReceivedClockNs()
	if came < int64(first) || r.GetSentClockNs() < came {
		t.Errorf("the last heartbeat: %v", r)
	}
	ended := errors.New("ended")
	if m, err := b.received(nil, ended); m != nil || !errors.Is(err, ended) {
		t.Errorf("the end of a stream: %v, %v", m, err)
	}
	b.answer(&spatev1.ConnectResponse{}) // not an answer to a heartbeat
}
