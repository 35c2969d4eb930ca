package agent

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// outboxBytes bounds the snapshots that wait for their acks. Once it is passed the stage is ended; what it measured until then is
// kept all the same.
const outboxBytes = 256 << 20

// outbox keeps snapshots, in order, until the coordinator has acked them. It gives each its sequence number. A connection takes
// them from the first unacked one on; the next connection begins there again. It is safe for concurrent use.
type outbox struct {
	agent       string
	incarnation uint64
	limit       int // bytes

	mu        sync.Mutex
	sequences map[string]uint64 // last one by run
	unacked   []*parcel
	bytes     int
	sent      int           // how many of unacked went over this connection
	changed   chan struct{} // closed when something changes
}

// parcel is a snapshot and its size.
type parcel struct {
	snapshot *spatev1.Snapshot
	bytes    int
}

func newOutbox(agent string, incarnation uint64, limit int) *outbox {
	return &outbox{
		agent: agent, incarnation: incarnation, limit: limit,
		sequences: map[string]uint64{}, changed: make(chan struct{}),
	}
}

// size is that of the snapshots that are not acked, in bytes.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// add takes a snapshot of an assignment and names it. It reports whether the outbox is within its limit still; the snapshot is
// kept in any case.
func (o *outbox) add(ref *spatev1.AssignmentRef, s *spatev1.Snapshot) (within bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	run := ref.GetRunId()
	o.sequences[run]++
	s.Key = &spatev1.SnapshotKey{RunId: run, Agent: o.agent, Incarnation: o.incarnation, Sequence: o.sequences[run]}
	s.StageIndex, s.Revision = ref.GetStageIndex(), ref.GetRevision()
	p := &parcel{snapshot: s, bytes: proto.Size(s)}
	o.unacked = append(o.unacked, p)
	o.bytes += p.bytes
	o.change()
	return o.bytes <= o.limit
}

// next returns the next snapshot to send over this connection. It blocks until there is one or ctx ends.
func (o *outbox) next(ctx context.Context) (*spatev1.Snapshot, error) {
	for {
		s, changed := o.poll()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (o *outbox) poll() (*spatev1.Snapshot, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sent == len(o.unacked) {
		return nil, o.changed
	}
	o.sent++
	return o.unacked[o.sent-1].snapshot, nil
}

// answered lets go of a snapshot that was acked or refused, and returns it: nil if it was not waited for.
func (o *outbox) answered(key *spatev1.SnapshotKey) *spatev1.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, p := range o.unacked[:o.sent] {
		if proto.Equal(p.snapshot.GetKey(), key) {
			o.unacked = slices.Delete(o.unacked, i, i+1)
			o.sent--
			o.bytes -= p.bytes
			o.change()
			return p.snapshot
		}
	}
	return nil
}

// rewind begins a new connection: everything unacked is sent again.
func (o *outbox) rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = 0
}

// waiting is the number of snapshots not acked yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unacked)
}

// flushed blocks until every snapshot is acked or ctx ends, and reports which.
func (o *outbox) flushed(ctx context.Context) bool {
	for {
		o.mu.Lock()
		empty, changed := len(o.unacked) == 0, o.changed
		o.mu.Unlock()
		if empty {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// change wakes those who wait. The outbox is locked.
func (o *outbox) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}
