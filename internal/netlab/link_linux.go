package netlab

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// mtu is Ethernet's, in bytes.
const mtu = 1500

// inFlight is the most packets on one link: 50 ms at a gigabit per second.
const inFlight = 4096

// packet is a packet in flight.
type packet struct {
	arrives clock.Instant
	size    int
	bytes   *[mtu]byte
}

// packets are buffers for reuse.
var packets sync.Pool

// buffer returns a buffer from packets, or a new one.
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

// change alters the link for later packets. Packets in flight still arrive.
func (l *link) change(how func(*shaper)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(&l.shaper)
}

// take puts a packet on the link, or drops it. It does not block.
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

// carry delivers packets when they arrive, until ctx ends. Packets for a closed device are dropped.
func (l *link) carry(ctx context.Context) {
	at := kernel.NewTimer(ctx)
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
