package agent

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/merge"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// outboxBytes bounds the snapshots that wait for acks. Beyond it, snapshots that were never sent are merged.
	outboxBytes = 256 << 20
	// maxSent is how many snapshots are sent and not acked at a time. All others can still be merged.
	maxSent = 16
)

// outbox keeps snapshots, in order, until the coordinator has acked them:
//
//	add -> fresh -> next: named by a sequence number -> sent -> answered
//	         |                                           ^  |
//	      merged, when there are too many                +--+ next, over another connection
//
// A snapshot that was sent never changes again, because the coordinator may have it. One that was not sent has no
// number yet and can be merged with its neighbour without leaving a hole. An outbox is safe for concurrent use.
type outbox struct {
	agent       string
	incarnation uint64
	limit       int // bytes

	mu           sync.Mutex
	counts       map[string]*count // by run
	sent         []*parcel         // oldest first
	onConnection int               // how many of sent went over the current connection
	fresh        []*parcel         // oldest first, all newer than sent
	bytes        int               // of all snapshots
	merges       uint64
	dropped      uint64        // rows
	changed      chan struct{} // closed when something changes
}

// count numbers the snapshots of a run.
type count struct {
	sequence uint64 // of the last snapshot
	stage    uint32
	ofStage  uint64 // number of that stage's snapshots
}

// parcel is a snapshot in the outbox.
type parcel struct {
	snapshot    *spatev1.Snapshot
	run         string
	bytes       int  // size of the snapshot
	rows        int  // size of its rows, in bytes
	unmergeable bool // cannot be merged with the next one
}

func newOutbox(agent string, incarnation uint64, limit int) *outbox {
	return &outbox{agent: agent, incarnation: incarnation, limit: limit, counts: map[string]*count{},
		changed: make(chan struct{})}
}

func newParcel(run string, s *spatev1.Snapshot) *parcel {
	p := &parcel{snapshot: s, run: run, bytes: proto.Size(s)}
	if len(s.GetRecords()) > 0 {
		p.rows = proto.Size(&spatev1.Snapshot{Records: s.GetRecords()})
	}
	return p
}

// mergedWith returns the parcel of the sum with the next one. It does not measure the rows again: there may be many.
func (p *parcel) mergedWith(next *parcel, sum *spatev1.Snapshot) *parcel {
	rows := sum.Records
	sum.Records = nil
	both := &parcel{snapshot: sum, run: p.run, rows: p.rows + next.rows}
	both.bytes = both.rows + proto.Size(sum)
	sum.Records = rows
	return both
}

// pressure is what adding a snapshot cost.
type pressure struct {
	merges int // pairs of snapshots merged
	rows   int // rows dropped
}

// add adds a snapshot of an assignment. It never refuses one.
func (o *outbox) add(ref *spatev1.AssignmentRef, s *spatev1.Snapshot) pressure {
	s.StageIndex, s.Revision = ref.GetStageIndex(), ref.GetRevision()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, piece := range merge.Split(s) {
		p := newParcel(ref.GetRunId(), piece)
		o.fresh = append(o.fresh, p)
		o.bytes += p.bytes
	}
	done := o.shrink()
	o.merges, o.dropped = o.merges+uint64(done.merges), o.dropped+uint64(done.rows)
	o.change()
	return done
}

// shrink brings the outbox within its limit: by merging, and when nothing more can be merged by dropping rows, the
// oldest first. The caller holds o.mu.
func (o *outbox) shrink() (done pressure) {
	for o.bytes > o.limit {
		if i := o.closestPair(); i >= 0 {
			if o.mergeAt(i) {
				done.merges++
			}
			continue
		}
		rows := o.dropRows()
		if rows == 0 {
			break
		}
		done.rows += rows
	}
	return done
}

// closestPair returns the index of the first of two neighbours to merge, or -1 if none can be merged. It picks the pair
// that covers the least time together, the oldest of several. This keeps windows about equally long and merges no
// snapshot more often than necessary.
func (o *outbox) closestPair() int {
	at, least := -1, uint32(0)
	for i := range len(o.fresh) - 1 {
		a, b := o.fresh[i], o.fresh[i+1]
		if !a.mergeable(b) {
			continue
		}
		if span := b.snapshot.GetWindow() - merge.FirstWindow(a.snapshot); at < 0 || span < least {
			at, least = i, span
		}
	}
	return at
}

// mergeable reports whether a parcel may be merged with the next one.
func (p *parcel) mergeable(next *parcel) bool {
	return !p.unmergeable && p.run == next.run && p.snapshot.GetStageIndex() == next.snapshot.GetStageIndex() &&
		p.rows+next.rows+max(p.bytes-p.rows, next.bytes-next.rows) <= merge.MaxBytes
}

// mergeAt merges a fresh snapshot with the next one, and reports whether they fit.
func (o *outbox) mergeAt(i int) bool {
	a, b := o.fresh[i], o.fresh[i+1]
	sum, fits := merge.Snapshots(a.snapshot, b.snapshot)
	if !fits {
		a.unmergeable = true
		return false
	}
	p := a.mergedWith(b, sum)
	if p.bytes > merge.MaxBytes {
		a.unmergeable = true
		return false
	}
	o.bytes += p.bytes - a.bytes - b.bytes
	o.fresh = slices.Replace(o.fresh, i, i+2, p)
	return true
}

// dropRows drops the rows of the oldest fresh snapshot that has any, and returns their number.
func (o *outbox) dropRows() int {
	for i, p := range o.fresh {
		if p.rows == 0 {
			continue
		}
		n := merge.DropRecords(p.snapshot)
		bare := newParcel(p.run, p.snapshot)
		o.bytes += bare.bytes - p.bytes
		o.fresh[i] = bare
		if i > 0 {
			o.fresh[i-1].unmergeable = false
		}
		return n
	}
	return 0
}

// next returns the next snapshot to send over the current connection. It blocks until there is one or ctx ends.
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
	if o.onConnection == len(o.sent) {
		if len(o.sent) >= maxSent || len(o.fresh) == 0 {
			return nil, o.changed
		}
		p := o.fresh[0]
		o.assignKey(p)
		o.fresh, o.sent = slices.Delete(o.fresh, 0, 1), append(o.sent, p)
	}
	o.onConnection++
	return o.sent[o.onConnection-1].snapshot, nil
}

// assignKey gives a snapshot its number, and sets the number of snapshots in the totals of a stage. The caller holds
// o.mu.
func (o *outbox) assignKey(p *parcel) {
	c := o.counts[p.run]
	if c == nil {
		c = &count{}
		o.counts[p.run] = c
	}
	s := p.snapshot
	if c.stage != s.GetStageIndex() {
		c.stage, c.ofStage = s.GetStageIndex(), 0
	}
	c.sequence, c.ofStage = c.sequence+1, c.ofStage+1
	s.Key = &spatev1.SnapshotKey{RunId: p.run, Agent: o.agent, Incarnation: o.incarnation, Sequence: c.sequence}
	if t := s.GetTotals(); t != nil {
		t.Snapshots = c.ofStage
	}
}

// answered removes a snapshot that was acked or refused, and returns it, or nil if it was not waiting for an answer.
func (o *outbox) answered(key *spatev1.SnapshotKey) *spatev1.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, p := range o.sent[:o.onConnection] {
		if proto.Equal(p.snapshot.GetKey(), key) {
			o.sent = slices.Delete(o.sent, i, i+1)
			o.onConnection--
			o.bytes -= p.bytes
			o.change()
			return p.snapshot
		}
	}
	return nil
}

// rewind is called for a new connection: everything sent and not acked is sent again.
func (o *outbox) rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onConnection = 0
}

// waiting returns the number of snapshots not acked yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.sent) + len(o.fresh)
}

// size returns the size of all snapshots not acked yet, in bytes.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// losses returns how often snapshots were merged, and how many rows were dropped.
func (o *outbox) losses() (merges, rows uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.merges, o.dropped
}

// holds reports whether any snapshot of a stage is not acked yet.
func (o *outbox) holds(ref *spatev1.AssignmentRef) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(slices.Concat(o.sent, o.fresh), func(p *parcel) bool {
		return p.run == ref.GetRunId() && p.snapshot.GetStageIndex() == ref.GetStageIndex()
	})
}

// awaitEmpty blocks until every snapshot is acked or ctx ends, and reports whether all are acked.
func (o *outbox) awaitEmpty(ctx context.Context) bool {
	for {
		o.mu.Lock()
		empty, changed := len(o.sent)+len(o.fresh) == 0, o.changed
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

// change wakes all waiters. The caller holds o.mu.
func (o *outbox) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}
