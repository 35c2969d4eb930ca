package netlab

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/spate-load/spate/agent/timer"
	"github.com/spate-load/spate/clock"
)

// mtu is Ethernet's.
const mtu = 1500

// inFlight is the most packets on one link: 50 ms of a gigabit.
const inFlight = 4096

// packet is on its way.
type packet struct {
	arrives clock.Instant
	size    int
	bytes   *[mtu]byte
}

// packets are buffers for use again.
var packets sync.Pool

// buffer returns one of those, or a new one.
func buffer() *[mtu]byte {
	if b, ok := packets.Get().(*[mtu]byte); ok {
		return b
	}
	return new([mtu]byte)
}

// link carries packets from one host to another, in order.
type link struct {
	to  io.Writer
	way chan packet

	mu     sync.Mutex
	shaper shaper
}

func newLink(to io.Writer, chance *rand.Rand) *link {
	return &link{to: to, way: make(chan packet, inFlight), shaper: shaper{chance: chance}}
}

// change alters the link from the next packet on. Those on their way arrive.
func (l *link) change(how func(*shaper)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(&l.shaper)
}

// take lets a packet onto the link, or drops it. It does not block.
func (l *link) take(data []byte, protocol byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arrives, ok := l.shaper.admit(clock.Now(), len(data), protocol)
	if !ok {
		return
	}
	p := packet{arrives: arrives, size: len(data), bytes: buffer()}
	copy(p.bytes[:], data)
	select {
	case l.way <- p:
	default:
		packets.Put(p.bytes)
		l.shaper.count.Carried--
		l.shaper.count.Bytes -= uint64(p.size)
		l.shaper.count.Overflowed++
	}
}

// carry delivers packets when they arrive, until ctx ends. A device that is gone takes no more.
func (l *link) carry(ctx context.Context) {
	at := timer.New(ctx)
	defer at.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-l.way:
			if at.Wait(p.arrives) != nil {
				return
			}
			_, _ = l.to.Write(p.bytes[:p.size])
			packets.Put(p.bytes)
		}
	}
}
