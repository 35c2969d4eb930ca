package relay

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/bundle"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// patience is how long a bundle waits for the other agents of its region. Agents send a window at the same moment.
	patience = 200 * time.Millisecond
	// maxBundle bounds a bundle, in bytes.
	maxBundle = 8 << 20
)

// bundler gathers the snapshots of one window into bundles. It keeps each snapshot until the coordinator has answered,
// so that it can send it by itself if the coordinator does not want it in a bundle.
//
//	add -> waits in its lane -> joins a gathering -> bundle sent -> added: acked
//	            ^     |                                   |
//	            |     +-> sent by itself -> answered      +-> not added
//	            +-----------------------------------------------+
//
// What is of one stream is answered in order: a snapshot that goes by itself waits until no bundle has an earlier one,
// and one for a bundle until all that went by themselves are answered. A bundle may be sent while another has earlier
// snapshots of its streams: if the coordinator does not add that, it does not add these either.
//
// The bundler has no goroutine and no clock. It is safe for concurrent use.
type bundler struct {
	origin func(*spatev1.SnapshotKey) (origin, bool) // nil: nothing is bundled
	ready  chan struct{}                             // has an element when take may return something

	mu         sync.Mutex
	lanes      map[uint64]*lane
	stages     map[stage]*course
	gatherings map[gathering]*gathered
	sent       map[uint64][]*parcel // bundles without an answer
	last       uint64               // number of the last bundle
	out        []*spatev1.RelayPushRequest
}

// lane is what an agent has sent over one stream and what is not answered.
type lane struct {
	waiting []*parcel // in the order of their arrival
	last    int       // number of snapshots that came
	known   bool      // the coordinator was told who the stream is of
	alone   []*parcel // sent by themselves, in order
	bundled int       // gathered, or in bundles that were sent
	stage   stage     // of the last snapshot that was gathered
}

// parcel is a snapshot.
type parcel struct {
	*spatev1.RelayedSnapshot
	number int    // among those of its stream
	single bool   // the coordinator does not want it in a bundle
	done   func() // called when it is answered, or dropped
}

func (p *parcel) key() *spatev1.SnapshotKey { return p.GetSnapshot().GetKey() }

// stage is a stage as the agents of one region measure it, or the observers.
type stage struct {
	run      string
	index    uint32
	region   string
	observer bool
}

// course is how far a stage has come.
type course struct {
	lanes int    // streams that have sent something of it
	first uint32 // window that was gathered first
	sent  uint32 // highest window of which a bundle was sent
}

// gathering is one window of a stage.
type gathering struct {
	stage
	window uint32
}

// gathered is what a bundle will have.
type gathered struct {
	parcels []*parcel
	since   clock.Instant
}

func newBundler(origin func(*spatev1.SnapshotKey) (origin, bool)) *bundler {
	return &bundler{
		origin: origin, ready: make(chan struct{}, 1), lanes: map[uint64]*lane{}, stages: map[stage]*course{},
		gatherings: map[gathering]*gathered{}, sent: map[uint64][]*parcel{},
	}
}

// add adds a snapshot of a stream. done is called when it is answered, or when the stream is closed.
func (b *bundler) add(s *spatev1.RelayedSnapshot, now clock.Instant, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[s.GetStream()]
	if l == nil {
		l = &lane{}
		b.lanes[s.GetStream()] = l
	}
	l.last++
	l.put(&parcel{RelayedSnapshot: s, number: l.last, done: done})
	b.move(l, now)
}

// put lets a snapshot wait, before those that came later.
func (l *lane) put(p *parcel) {
	i, _ := slices.BinarySearchFunc(l.waiting, p, func(a, b *parcel) int { return cmp.Compare(a.number, b.number) })
	l.waiting = slices.Insert(l.waiting, i, p)
}

// move sends or gathers the snapshots of a stream that need not wait. b.mu is held.
func (b *bundler) move(l *lane, now clock.Instant) {
	for len(l.waiting) > 0 {
		p := l.waiting[0]
		g, fits := b.gatheringOf(p)
		if fits && len(l.alone) > 0 || !fits && l.bundled > 0 {
			return
		}
		l.waiting = l.waiting[1:]
		if !fits {
			l.alone = append(l.alone, p)
			b.send(&spatev1.RelayPushRequest{Snapshots: []*spatev1.RelayedSnapshot{p.RelayedSnapshot}})
			continue
		}
		l.bundled++
		b.gather(l, g, p, now)
	}
}

// gatheringOf returns where a snapshot is gathered, false if it must be sent by itself. b.mu is held.
func (b *bundler) gatheringOf(p *parcel) (g gathering, fits bool) {
	s := p.GetSnapshot()
	if p.single || b.origin == nil || s == nil || s.FirstWindow != nil {
		return g, false
	}
	from, known := b.origin(p.key())
	g = gathering{stage{p.key().GetRunId(), s.GetStageIndex(), from.region, from.observer}, s.GetWindow()}
	if c := b.stages[g.stage]; !known || c != nil && s.GetWindow() < c.sent {
		return g, false // the others of this window have gone
	}
	already := b.gatherings[g]
	return g, already == nil || !slices.ContainsFunc(already.parcels, func(o *parcel) bool {
		return o.GetStream() == p.GetStream()
	})
}

// gather adds a snapshot to those of its window, and sends them if they are complete. b.mu is held.
func (b *bundler) gather(l *lane, g gathering, p *parcel, now clock.Instant) {
	c := b.stages[g.stage]
	if c == nil {
		c = &course{first: g.window}
		b.stages[g.stage] = c
	}
	if l.stage != g.stage {
		b.leave(l)
		l.stage = g.stage
		c.lanes++
	}
	of := b.gatherings[g]
	if of == nil {
		of = &gathered{since: now}
		b.gatherings[g] = of
	}
	of.parcels = append(of.parcels, p)
	b.wake() // for its deadline
	if len(of.parcels) >= c.lanes && g.window > c.first {
		b.bundle(g, now)
	}
}

// leave notes that a stream sends no more of its stage. b.mu is held.
func (b *bundler) leave(l *lane) {
	c := b.stages[l.stage]
	if c == nil {
		return
	}
	if c.lanes--; c.lanes == 0 {
		delete(b.stages, l.stage)
	}
}

// bundle sends what was gathered of a window, and of earlier ones first. b.mu is held.
func (b *bundler) bundle(g gathering, now clock.Instant) {
	var due []gathering
	for other := range b.gatherings {
		if other.stage == g.stage && other.window <= g.window {
			due = append(due, other)
		}
	}
	slices.SortFunc(due, func(x, y gathering) int { return cmp.Compare(x.window, y.window) })
	for _, one := range due {
		of := b.gatherings[one]
		if of == nil {
			continue // withdrawn, because an earlier window of the streams goes by itself
		}
		delete(b.gatherings, one)
		if c := b.stages[one.stage]; c != nil {
			c.sent = max(c.sent, one.window)
		}
		b.sendBundle(one, of.parcels, now)
	}
}

// sendBundle sends snapshots of one window in a bundle, or in several if one would be too large. b.mu is held.
func (b *bundler) sendBundle(g gathering, parcels []*parcel, now clock.Instant) {
	if len(parcels) < 2 {
		b.takeBack(parcels, parcels, now)
		return
	}
	snapshots := make([]*spatev1.Snapshot, len(parcels))
	for i, p := range parcels {
		snapshots[i] = p.GetSnapshot()
	}
	merged, members, misfits := bundle.Of(snapshots, &spatev1.Merged{Region: g.region, Observer: g.observer})
	if len(misfits) > 0 {
		var strangers, others []*parcel
		for i, p := range parcels {
			if slices.Contains(misfits, i) {
				strangers = append(strangers, p)
			} else {
				others = append(others, p)
			}
		}
		b.takeBack(strangers, strangers, now)
		b.sendBundle(g, others, now)
		return
	}
	m := &spatev1.Bundle{Number: b.last + 1, Merged: merged}
	for i, s := range members {
		m.Members = append(m.Members, b.member(parcels[i], s))
	}
	if proto.Size(m) > maxBundle {
		half := len(parcels) / 2
		b.sendBundle(g, parcels[:half], now)
		b.sendBundle(g, parcels[half:], now)
		return
	}
	for _, p := range parcels {
		b.lanes[p.GetStream()].known = true
	}
	b.last++
	b.sent[b.last] = parcels
	b.send(&spatev1.RelayPushRequest{Bundles: []*spatev1.Bundle{m}})
}

// member returns a snapshot without its values as a member of a bundle. b.mu is held.
func (b *bundler) member(p *parcel, stripped *spatev1.Snapshot) *spatev1.BundleMember {
	m := &spatev1.BundleMember{Stream: p.GetStream(), Sequence: p.key().GetSequence(), Snapshot: stripped}
	stripped.Key, stripped.StageIndex, stripped.Window = nil, 0, 0
	if !b.lanes[p.GetStream()].known {
		m.Sender = &spatev1.Sender{
			Agent: p.key().GetAgent(), Incarnation: p.key().GetIncarnation(), Certificate: p.GetCertificate(),
		}
	}
	return m
}

// takeBack lets gathered snapshots wait again, the single ones to be sent by themselves. Later ones of these streams
// that were only gathered wait behind them. b.mu is held.
func (b *bundler) takeBack(parcels, singles []*parcel, now clock.Instant) {
	for _, p := range singles {
		p.single = true
	}
	for _, p := range parcels {
		l := b.lanes[p.GetStream()]
		if l == nil {
			p.done()
			continue
		}
		l.bundled--
		l.put(p)
		for _, later := range b.withdraw(p.GetStream()) {
			l.bundled--
			l.put(later)
		}
	}
	for _, p := range parcels {
		if l := b.lanes[p.GetStream()]; l != nil {
			b.move(l, now)
		}
	}
}

// withdraw removes the snapshots of a stream from what was gathered, and returns them. b.mu is held.
func (b *bundler) withdraw(stream uint64) (out []*parcel) {
	for g, of := range b.gatherings {
		of.parcels = slices.DeleteFunc(of.parcels, func(p *parcel) bool {
			if p.GetStream() == stream {
				out = append(out, p)
				return true
			}
			return false
		})
		if len(of.parcels) == 0 {
			delete(b.gatherings, g)
		}
	}
	return out
}

// send queues a message to the coordinator. b.mu is held.
func (b *bundler) send(m *spatev1.RelayPushRequest) {
	b.out = append(b.out, m)
	b.wake()
}

func (b *bundler) wake() {
	select {
	case b.ready <- struct{}{}:
	default: // it is awake
	}
}

// take returns what is to be sent now, about so many bytes at most, and when to ask again: zero if only after ready.
func (b *bundler) take(now clock.Instant, bytes int) (m *spatev1.RelayPushRequest, again clock.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for g, of := range b.gatherings {
		if now.Sub(of.since) >= patience {
			b.bundle(g, now)
		}
	}
	m = &spatev1.RelayPushRequest{}
	for bytes > 0 && len(b.out) > 0 {
		next := b.out[0]
		b.out = b.out[1:]
		bytes -= proto.Size(next)
		m.Snapshots = append(m.Snapshots, next.GetSnapshots()...)
		m.Bundles = append(m.Bundles, next.GetBundles()...)
		m.Closed = append(m.Closed, next.GetClosed()...)
	}
	if len(b.out) > 0 {
		return m, now
	}
	for _, of := range b.gatherings {
		if due := of.since.Add(patience); again == 0 || due < again {
			again = due
		}
	}
	return m, again
}

// answered notes the answer to the first snapshot of a stream that was sent by itself.
func (b *bundler) answered(stream uint64, now clock.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[stream]
	if l == nil || len(l.alone) == 0 {
		return
	}
	l.alone[0].done()
	l.alone = l.alone[1:]
	b.move(l, now)
}

// answeredBundle notes the answer to a bundle. It returns the snapshots that are answered with it, acked or not: the
// others wait again.
func (b *bundler) answeredBundle(a *spatev1.BundleAnswer, now clock.Instant) (answered []*spatev1.RelayedSnapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	parcels := b.sent[a.GetNumber()]
	delete(b.sent, a.GetNumber())
	if a.GetEnded() == nil && len(a.GetAlone()) > 0 {
		var singles []*parcel
		for _, p := range parcels {
			if slices.Contains(a.GetAlone(), p.GetStream()) {
				singles = append(singles, p)
			}
		}
		b.takeBack(parcels, singles, now)
		return nil
	}
	for _, p := range parcels {
		p.done()
		answered = append(answered, p.RelayedSnapshot)
		if l := b.lanes[p.GetStream()]; l != nil {
			l.bundled--
			b.move(l, now)
		}
	}
	return answered
}

// close drops what is left of a stream.
func (b *bundler) close(stream uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[stream]
	if l == nil {
		return
	}
	delete(b.lanes, stream)
	b.leave(l)
	for _, p := range slices.Concat(l.waiting, l.alone, b.withdraw(stream)) {
		p.done()
	}
	b.send(&spatev1.RelayPushRequest{Closed: []uint64{stream}})
}
