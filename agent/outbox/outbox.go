// Package outbox keeps what an agent measured until the coordinator has it for good.
package outbox

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// DefaultLimit bounds the snapshots that wait for acks, in bytes. Beyond it, snapshots that were never sent are
	// merged.
	DefaultLimit = 256 << 20
	// maxSent is how many snapshots are sent and not acked at a time. All others can still be merged.
	maxSent = 16
)

// Outbox keeps snapshots, in order, until the coordinator has acked them:
//
//	add -> fresh -> next: named by a sequence number -> sent -> answered
//	         |                                           ^  |
//	      merged, when there are too many                +--+ next, over another connection
//
// A snapshot that was sent never changes again, because the coordinator may have it. One that was not sent has no
// number yet and can be merged with its neighbour without leaving a hole. An outbox is safe for concurrent use.
type Outbox struct {
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

// New returns an empty outbox of an agent. incarnation tells this process from earlier ones of the same agent. limit
// bounds the snapshots that wait, in bytes.
func New(agent string, incarnation uint64, limit int) *Outbox {
	return &Outbox{agent: agent, incarnation: incarnation, limit: limit, counts: map[string]*count{},
		changed: make(chan struct{})}
}

func newParcel(run string, s *spatev1.Snapshot) *parcel {
	p := &parcel{snapshot: s, run: run, bytes: proto.Size(s)}
	if len(s.GetRecords()) > 0 {
		p.rows = proto.Size(&spatev1.Snapshot{Records: s.GetRecords()})
	}
	return p
}

// Pressure is what adding a snapshot cost.
type Pressure struct {
	merges int // pairs of snapshots merged
	Rows   int // rows dropped
}

// Add adds a snapshot of an assignment. It never refuses one.
func (o *Outbox) Add(ref *spatev1.AssignmentRef, s *spatev1.Snapshot) Pressure {
	s.StageIndex, s.Revision = ref.GetStageIndex(), ref.GetRevision()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, piece := range split(s) {
		p := newParcel(ref.GetRunId(), piece)
		o.fresh = append(o.fresh, p)
		o.bytes += p.bytes
	}
	done := o.shrink()
	o.merges, o.dropped = o.merges+uint64(done.merges), o.dropped+uint64(done.Rows)
	o.change()
	return done
}

// shrink brings the outbox within its limit: by merging, and when nothing more can be merged by dropping rows, the
// oldest first. The caller holds o.mu.
func (o *Outbox) shrink() (done Pressure) {
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
		done.Rows += rows
	}
	return done
}

// closestPair returns the index of the first of two neighbours to merge, or -1 if none can be merged. It picks the pair
// that covers the least time together, the oldest of several. This keeps windows about equally long and merges no
// snapshot more often than necessary.
func (o *Outbox) closestPair() int {
	at, least := -1, uint32(0)
	for i := range len(o.fresh) - 1 {
		a, b := o.fresh[i], o.fresh[i+1]
		if !a.mergeable(b) {
			continue
		}
		if span := b.snapshot.GetWindow() - measure.FirstWindow(a.snapshot); at < 0 || span < least {
			at, least = i, span
		}
	}
	return at
}

// mergeable reports whether a parcel may be merged with the next one.
func (p *parcel) mergeable(next *parcel) bool {
	return !p.unmergeable && p.run == next.run && p.snapshot.GetStageIndex() == next.snapshot.GetStageIndex() &&
		p.rows+next.rows+max(p.bytes-p.rows, next.bytes-next.rows) <= maxBytes
}

// mergeAt merges a fresh snapshot with the next one, and reports whether they fit.
func (o *Outbox) mergeAt(i int) bool {
	a, b := o.fresh[i], o.fresh[i+1]
	sum, fits := Merge(a.snapshot, b.snapshot)
	if !fits {
		a.unmergeable = true
		return false
	}
	rows := sum.Records
	sum.Records = nil // the rows are not measured again: there may be many
	p := &parcel{snapshot: sum, run: a.run, rows: a.rows + b.rows}
	p.bytes = p.rows + proto.Size(sum)
	sum.Records = rows
	if p.bytes > maxBytes {
		a.unmergeable = true
		return false
	}
	o.bytes += p.bytes - a.bytes - b.bytes
	o.fresh = slices.Replace(o.fresh, i, i+2, p)
	return true
}

// dropRows drops the rows of the oldest fresh snapshot that has any, and returns their number.
func (o *Outbox) dropRows() int {
	for i, p := range o.fresh {
		if p.rows == 0 {
			continue
		}
		s := p.snapshot
		n := len(s.GetRecords())
		s.Records, s.DroppedRecords = nil, s.GetDroppedRecords()+uint64(n)
		bare := newParcel(p.run, s)
		o.bytes += bare.bytes - p.bytes
		o.fresh[i] = bare
		if i > 0 {
			o.fresh[i-1].unmergeable = false
		}
		return n
	}
	return 0
}

// Next returns the next snapshot to send over the current connection. It blocks until there is one or ctx ends.
func (o *Outbox) Next(ctx context.Context) (*spatev1.Snapshot, error) {
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

func (o *Outbox) poll() (*spatev1.Snapshot, <-chan struct{}) {
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
func (o *Outbox) assignKey(p *parcel) {
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

// Answered removes a snapshot that was acked or refused, and returns it, or nil if it was not waiting for an answer. It
// also removes those that were sent before it over the connection: they are acked with it.
func (o *Outbox) Answered(key *spatev1.SnapshotKey) *spatev1.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, p := range o.sent[:o.onConnection] {
		if proto.Equal(p.snapshot.GetKey(), key) {
			for _, done := range o.sent[:i+1] {
				o.bytes -= done.bytes
			}
			o.sent = slices.Delete(o.sent, 0, i+1)
			o.onConnection -= i + 1
			o.change()
			return p.snapshot
		}
	}
	return nil
}

// Rewind is called for a new connection: everything sent and not acked is sent again.
func (o *Outbox) Rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onConnection = 0
}

// Limit returns the limit of the size, in bytes.
func (o *Outbox) Limit() int { return o.limit }

// Waiting returns the number of snapshots not acked yet.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.sent) + len(o.fresh)
}

// Size returns the size of all snapshots not acked yet, in bytes.
func (o *Outbox) Size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// Losses returns how often snapshots were merged, and how many rows were dropped.
func (o *Outbox) Losses() (merges, rows uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.merges, o.dropped
}

// Holds reports whether any snapshot of a stage is not acked yet.
func (o *Outbox) Holds(ref *spatev1.AssignmentRef) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(slices.Concat(o.sent, o.fresh), func(p *parcel) bool {
		return p.run == ref.GetRunId() && p.snapshot.GetStageIndex() == ref.GetStageIndex()
	})
}

// AwaitEmpty blocks until every snapshot is acked or ctx ends, and reports whether all are acked.
func (o *Outbox) AwaitEmpty(ctx context.Context) bool {
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
func (o *Outbox) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}
