package relayed

import (
	"context"
	"math/rand/v2"
	"sync"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/streams"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// push is the stream of snapshots of a relay.
type push struct {
	Service
	trusted bool
	number  uint64 // of this stream, in keys of bundles' values
	out     chan *spatev1.RelayPushResponse
	room    *semaphore.Weighted // for snapshots in progress, in bytes
	lanes   sync.WaitGroup

	// Only listen uses these.
	relay   string
	senders map[uint64]*spatev1.Sender // of streams that were in a bundle

	mu sync.Mutex
	// waiting has the work of each lane that has some in progress, behind that. ended has the streams that ended with
	// an error.
	waiting map[uint64][]work
	ended   map[uint64]bool
}

// work is a snapshot of a stream, or a bundle. What is of one lane is done in order.
type work struct {
	lane uint64
	room int64
	do   func() (answer *spatev1.RelayPushResponse, ends bool)
}

// bundles is the lane of bundles. Relays count streams from 1.
const bundles = 0

// maxInProgress is how many bytes of a relay's snapshots may be in progress.
const maxInProgress = 4 * merge.MaxSnapshotBytes

// RelayPush receives the snapshots of a relay's agents until the relay closes the stream. Snapshots of one agent are
// added in order, those of different agents together, so that they share the ledger's writes. Bundles are added in
// order.
func (s Service) RelayPush(stream spatev1.RelayService_RelayPushServer) error {
	_, trusted := certs.PeerOf(stream.Context())
	in, quit := streams.Receive(stream.Recv)
	defer quit()
	p := &push{
		Service: s, trusted: trusted, number: rand.Uint64(), ended: map[uint64]bool{},
		senders: map[uint64]*spatev1.Sender{},
		out:     make(chan *spatev1.RelayPushResponse, queueLength),
		room:    semaphore.NewWeighted(maxInProgress), waiting: map[uint64][]work{},
	}
	err := exchange(stream.Context(), func(ctx context.Context) error { return p.listen(ctx, in) }, p.out,
		func(batch []*spatev1.RelayPushResponse) error {
			all := &spatev1.RelayPushResponse{}
			for _, one := range batch {
				all.Answers = append(all.Answers, one.GetAnswers()...)
				all.Bundles = append(all.Bundles, one.GetBundles()...)
			}
			return stream.Send(all)
		})
	return s.Coordinator.PushEnded(err, admission.AddressOf(stream.Context()))
}

// listen takes snapshots in until the stream or the coordinator ends. It returns why, when none is in progress.
func (p *push) listen(ctx context.Context, in <-chan streams.Received[*spatev1.RelayPushRequest]) error {
	defer p.lanes.Wait()
	for {
		select {
		case m := <-in:
			if m.Err != nil {
				return m.Err
			}
			if err := p.handle(ctx, m.Message); err != nil {
				return err
			}
		case <-p.Closing:
			return p.ErrClosing
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// handle starts to add what a message has.
func (p *push) handle(ctx context.Context, m *spatev1.RelayPushRequest) (err error) {
	if p.relay, err = nameOf(p.relay, m.GetRelay()); err != nil {
		return err
	}
	var all []work
	for _, one := range m.GetSnapshots() {
		all = append(all, work{one.GetStream(), roomOf(one), func() (*spatev1.RelayPushResponse, bool) {
			answer := p.addSnapshot(one)
			return &spatev1.RelayPushResponse{Answers: []*spatev1.RelayedAnswer{answer}}, answer.GetEnded() != nil
		}})
	}
	for _, one := range m.GetBundles() {
		b, err := p.bundleOf(one)
		if err != nil {
			return err
		}
		all = append(all, work{bundles, roomOf(one), func() (*spatev1.RelayPushResponse, bool) {
			return &spatev1.RelayPushResponse{Bundles: []*spatev1.BundleAnswer{p.addBundle(one, b)}}, false
		}})
	}
	for _, w := range all {
		if err := p.room.Acquire(ctx, w.room); err != nil {
			return context.Cause(ctx)
		}
		p.add(ctx, w)
	}
	p.forget(m.GetClosed())
	return nil
}

// forget forgets streams of which nothing more comes.
func (p *push) forget(closed []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range closed {
		delete(p.ended, n)
		delete(p.senders, n)
	}
}

// roomOf returns how much room a snapshot or a bundle takes.
func roomOf(m proto.Message) int64 { return int64(min(proto.Size(m), maxInProgress)) }

// add starts some work, or lets it wait for what came before it in its lane.
func (p *push) add(ctx context.Context, w work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended[w.lane] {
		p.room.Release(w.room)
		return
	}
	behind, busy := p.waiting[w.lane]
	if busy {
		p.waiting[w.lane] = append(behind, w)
		return
	}
	p.waiting[w.lane] = nil
	p.lanes.Go(func() {
		for more := true; more; {
			answer, ends := w.do()
			p.room.Release(w.room)
			select {
			case p.out <- answer:
			case <-ctx.Done(): // the relay is gone
			}
			w, more = p.next(w.lane, ends)
		}
	})
}

// next returns the next work of a lane, false if none waits. If the lane ends, all that waits is dropped.
func (p *push) next(lane uint64, ends bool) (w work, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.waiting[lane]
	if ends {
		p.ended[lane] = true
		for _, w := range waiting {
			p.room.Release(w.room)
		}
		waiting = nil
	}
	if len(waiting) == 0 {
		delete(p.waiting, lane)
		return work{}, false
	}
	p.waiting[lane] = waiting[1:]
	return waiting[0], true
}

// addSnapshot adds one snapshot to its ledger and returns the answer.
func (p *push) addSnapshot(m *spatev1.RelayedSnapshot) *spatev1.RelayedAnswer {
	answer, err := p.Coordinator.AddSnapshot(m.GetSnapshot(), p.identity(m.GetCertificate()))
	if err != nil {
		return &spatev1.RelayedAnswer{
			Stream: m.GetStream(), Event: &spatev1.RelayedAnswer_Ended{Ended: streams.EndOf(err)},
		}
	}
	return &spatev1.RelayedAnswer{Stream: m.GetStream(), Event: &spatev1.RelayedAnswer_Answer{Answer: answer}}
}

// identity returns the authenticated sender of a snapshot, zero if connections have no certificates.
func (p *push) identity(certificate string) certs.Identity {
	if !p.trusted {
		return certs.Identity{}
	}
	return certs.Identity{Role: certs.Agent, Name: certificate}
}
