package streams

import (
	"errors"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Only the answer to the last heartbeat gets times: those of earlier ones are gone.
func TestBeats(t *testing.T) {
	var b Beats
	receive := func(number uint64) {
		t.Helper()
		beat := &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{Number: number}}
		m, err := b.Received(&spatev1.ConnectRequest{Message: beat}, nil)
		if m.GetHeartbeat().GetNumber() != number || err != nil {
			t.Errorf("%v, %v", m, err)
		}
	}
	answer := func(number uint64, there clock.Offset) *spatev1.Renewed {
		r := &spatev1.Renewed{Number: number}
		b.Answer(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{Renewed: r}}, there)
		return r
	}
	receive(1)
	first := clock.Now()
	receive(2)
	if r := answer(1, clock.Offset{}); r.GetSentClockNs() != 0 || r.GetReceivedClockNs() != 0 {
		t.Errorf("an earlier heartbeat: %v", r)
	}
	r := answer(2, clock.Offset{})
	came := r.GetReceivedClockNs()
	if came < int64(first) || r.GetSentClockNs() < came || r.GetUncertaintyNs() != 0 {
		t.Errorf("by the coordinator: %v", r)
	}
	there := clock.Offset{Nanos: int64(time.Hour), Uncertainty: time.Millisecond}
	if by := answer(2, there); by.GetReceivedClockNs() != r.GetReceivedClockNs()+int64(time.Hour) ||
		by.GetSentClockNs() < by.GetReceivedClockNs() || by.GetUncertaintyNs() <= int64(time.Millisecond) {
		t.Errorf("by a relay: %v", by)
	}
	ended := errors.New("ended")
	if m, err := b.Received(nil, ended); m != nil || !errors.Is(err, ended) {
		t.Errorf("the end of a stream: %v, %v", m, err)
	}
	b.Answer(&spatev1.ConnectResponse{}, there) // not an answer to a heartbeat
}
