package relay

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/coordinator/streams"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// queued is how many messages may wait for an agent: more than one that reads ever has waiting.
const queued = 64

// downstream is what comes for one stream of an agent.
type downstream[M any] struct {
	messages chan M
	ended    chan error // how the stream must end
}

// end tells the stream's handler how to end it, unless it was told already.
func (d *downstream[M]) end(err error) {
	select {
	case d.ended <- err:
	default:
	}
}

// table has the open streams of a relay's agents, by number. The zero value is ready to use.
type table[M any] struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*downstream[M]
}

// add opens a stream and returns its number.
func (t *table[M]) add() (uint64, *downstream[M]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[uint64]*downstream[M]{}
	}
	t.last++
	d := &downstream[M]{messages: make(chan M, queued), ended: make(chan error, 1)}
	t.open[t.last] = d
	return t.last, d
}

// remove closes a stream.
func (t *table[M]) remove(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, number)
}

// deliver queues a message for a stream, or the stream's end if that is not nil. What comes for a closed stream is
// dropped. It does not block: a stream whose agent does not read is ended.
func (t *table[M]) deliver(number uint64, m M, end *spatev1.StreamEnded) {
	t.mu.Lock()
	d := t.open[number]
	t.mu.Unlock()
	if d == nil {
		return
	}
	if end != nil {
		d.end(streams.ErrorOf(end))
		return
	}
	select {
	case d.messages <- m:
	default:
		d.end(status.Error(codes.ResourceExhausted, "the agent does not read"))
	}
}
