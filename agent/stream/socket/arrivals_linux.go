package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// arrivals knows when the segments of a sweeper's sockets arrived. It is safe for concurrent use. Nothing is woken for
// a segment: segments are collected when a read needs them, and until then the kernel's ring keeps them.
type arrivals struct {
	mu      sync.Mutex
	packets *kernel.Packets  // nil: closed
	flows   map[uint64]*flow // by the socket's cookie, from before it connects until it is closed
}

// CheckPacketTimes returns an error that says what to do if the system does not allow this program the times of
// packets.
func CheckPacketTimes() error {
	a, err := newArrivals()
	if err == nil {
		a.close()
	}
	return err
}

// newArrivals fails if the kernel refuses to load BPF programs.
func newArrivals() (*arrivals, error) {
	p, err := kernel.OpenPackets()
	switch {
	case errors.Is(err, os.ErrPermission): // its text speaks of limits that Linux has not had since 5.11
		return nil, fmt.Errorf("times of packets need the right to load BPF programs: run as root, or grant CAP_BPF "+
			"(setcap cap_bpf=ep PROGRAM; in a container, as root with cap_add: [BPF]): %w", os.ErrPermission)
	case err != nil:
		return nil, fmt.Errorf("times of packets need BPF, in Linux 5.11 or later: %w", err)
	}
	return &arrivals{packets: p, flows: make(map[uint64]*flow)}, nil
}

// watch starts a flow for a socket that is not connected yet, and returns its cookie.
func (a *arrivals) watch(c syscall.RawConn) (cookie uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.packets == nil {
		return 0, ErrClosed
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		if cookie, failed = kernel.Cookie(int(fd)); failed == nil {
			failed = a.packets.Watch(int(fd))
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	a.flows[cookie] = &flow{cookie: cookie}
	return cookie, nil
}

// forget ends flows.
func (a *arrivals) forget(cookies ...uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cookie := range cookies {
		delete(a.flows, cookie)
	}
}

// move moves a socket's flow, if its segments are noted, into the Socket: a frame then needs fewer cache lines.
func (a *arrivals) move(fd int, to *flow) {
	cookie, err := kernel.Cookie(fd)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.flows[cookie]; f != nil {
		*to = *f
		to.marks = append(to.room[:0], f.marks...)
		a.flows[cookie] = to
	}
}

// attempts are the sockets of one dial, which may try several addresses, some at the same time.
type attempts struct {
	arrivals *arrivals
	mu       sync.Mutex
	cookies  []uint64
	ended    bool
}

// prepare is a net.Dialer's Control.
func (t *attempts) prepare(network, addr string, c syscall.RawConn) error {
	if err := prepareSocket(network, addr, c); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended { // another address has answered
		return net.ErrClosed
	}
	if cookie, err := t.arrivals.watch(c); err == nil { // else reads have the kernel's timestamps
		t.cookies = append(t.cookies, cookie)
	}
	return nil
}

// end forgets the sockets that were not chosen. Nil: none was.
func (t *attempts) end(chosen *Socket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if chosen != nil {
		t.cookies = slices.DeleteFunc(t.cookies, func(cookie uint64) bool { return cookie == chosen.flow.cookie })
	}
	t.arrivals.forget(t.cookies...)
}

// collect passes the segments that the kernel has noted to their flows, until it has those of a flow up to an offset.
// Most often the next segment is the one that is wanted: sockets are read in the order in which they became readable.
// a is locked.
func (a *arrivals) collect(of *flow, until uint64) {
	for a.packets != nil && of.ready < until {
		s, ok := a.packets.Next()
		if !ok {
			return
		}
		f := of
		if s.Cookie != of.cookie {
			if f = a.flows[s.Cookie]; f == nil {
				continue
			}
		}
		f.add(s)
	}
}

// first returns how many bytes of a flow became readable first, of those not read yet. 0: not known.
func (a *arrivals) first(f *flow) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.collect(f, f.read+1)
	if len(f.marks) == 0 {
		return 0
	}
	return int(f.marks[0].end - f.read)
}

// take appends the pieces of a flow's next n bytes, which were read.
func (a *arrivals) take(f *flow, n int, by Reading, emptied bool, pieces []piece) []piece {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.collect(f, f.read+uint64(n))
	return f.take(n, by, emptied, pieces)
}

// close releases the program and its ring. It may be called again.
func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.packets != nil {
		a.packets.Close()
		a.packets = nil
	}
}

// flow is the stream of bytes that a socket receives. Offsets count its bytes from 0.
type flow struct {
	cookie uint64  // of the socket; 0: its segments are not noted
	begin  uint32  // sequence number of the first byte
	known  bool    // begin is known
	read   uint64  // offset of the next byte to read
	ready  uint64  // the segments before this offset have arrived
	marks  []mark  // when bytes from read on became readable, in their order
	room   [1]mark // for marks, which is seldom longer
	ahead  []span  // segments that arrived before others in front of them
}

// mark is when the bytes before an offset became readable.
type mark struct {
	end uint64
	at  clock.Instant
}

// span is a segment's part of a flow.
type span struct{ from, to uint64 }

// piece is the part of a read that became readable at one instant.
type piece struct {
	bytes int
	by    Reading
}

const (
	// maxAhead bounds the segments of a flow that wait for others.
	maxAhead = 4096
	// stampMargin is how much later than a segment's arrival the kernel's timestamp of the same bytes may be: the
	// timestamp is taken first, but by the wall clock. If it is later still, the kernel had dropped the segment, and
	// the bytes came again.
	stampMargin = 100 * time.Microsecond
)

// add records a segment. Bytes are readable once all before them have arrived, so a segment that fills a gap makes
// those behind the gap readable, too. Bytes that arrive again change nothing.
func (f *flow) add(s kernel.Segment) {
	if s.SYN {
		f.begin, f.known = s.Seq+1, true
		return
	}
	from := int64(f.ready) + int64(int32(s.Seq-f.begin-uint32(f.ready)))
	to := from + int64(s.Length)
	switch {
	case !f.known || from < 0 || to <= int64(f.ready):
		return
	case from > int64(f.ready):
		if len(f.ahead) < maxAhead {
			f.ahead = append(f.ahead, span{uint64(from), uint64(to)})
		}
		return
	}
	f.ready = uint64(to)
	f.join()
	f.marks = append(f.marks, mark{f.ready, s.At})
}

// join moves ready behind the segments that arrived ahead.
func (f *flow) join() {
	for i := 0; i < len(f.ahead); i++ {
		if s := f.ahead[i]; s.from <= f.ready {
			f.ready = max(f.ready, s.to)
			f.ahead = append(f.ahead[:i], f.ahead[i+1:]...)
			i = -1 // one before it may have waited for it
		}
	}
}

// take appends the pieces of the next n bytes, which were read at by. emptied: the socket had no more, so that by's
// timestamp, if it is the kernel's, is that of the last byte. Bytes whose segment was not noted have the time of by.
func (f *flow) take(n int, by Reading, emptied bool, pieces []piece) []piece {
	end, start, taken := f.read+uint64(n), len(pieces), 0
	for _, m := range f.marks {
		if f.read == end {
			break
		}
		to := min(m.end, end)
		pieces = append(pieces, piece{int(to - f.read), Reading{At: m.at, Seen: by.Seen, Stamped: true, Packet: true}})
		f.read = to
		if to == m.end {
			taken++
		}
	}
	f.marks = append(f.marks[:0], f.marks[taken:]...)
	if f.read < end { // a segment was not noted, because the ring was full
		pieces = append(pieces, piece{int(end - f.read), by})
		f.read, f.ready, f.ahead = end, end, f.ahead[:0]
		return pieces
	}
	if last := pieces[len(pieces)-1].by.At; emptied && by.Stamped && by.At.Sub(last) > stampMargin {
		return append(pieces[:start], piece{n, by})
	}
	return pieces
}
