// Package wire has the simulator's system calls: sockets that know when a request reached the machine, and writes of
// frames past net/http. They bypass Go's scheduler where that costs exactness (see
// package kernel).
package wire

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/spate-load/spate/clock"
)

// ArrivalClock names the clock that took the time at which a request reached this machine.
type ArrivalClock string

// The values of ArrivalClock.
const (
	ArrivalByKernel ArrivalClock = "kernel" // the receive stamp of the packet that brought the request's last byte
	// ArrivalByProgram is the same as Record.Received: the system has no receive stamps, or HTTP/2 has none that belong
	// to one request
	ArrivalByProgram ArrivalClock = "program"
)

// stamp is when bytes reached this machine. If by is ArrivalByProgram, at is not set: the caller's own clock is as
// good.
type stamp struct {
	at clock.Instant
	by ArrivalClock
}

// arrivalConn is a connection that records when the last bytes it read reached this machine. net/http makes one read
// and one write at a time, and handlers call newest meanwhile.
type arrivalConn struct {
	*net.TCPConn
	socket quietSocket
	// Frames have their send times.
	stamped bool

	mu   sync.Mutex
	last stamp
}

// Read reads as net.Conn does.
func (c *arrivalConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, last, err := c.socket.read(p)
	if n > 0 {
		c.mu.Lock()
		c.last = last
		c.mu.Unlock()
	}
	return n, err
}

// Write writes as net.Conn does. It sets the send times in p again: net/http writes the frames of HTTP/2 on a goroutine
// of its own, on a busy core a millisecond after they were sealed.
func (c *arrivalConn) Write(p []byte) (int, error) {
	var room [20]byte // an allocation might wait for the garbage collector
	for rest := p; c.stamped; {
		_, after, found := bytes.Cut(rest, SentField)
		digits := bytes.IndexByte(after, '}')
		if !found || digits < 0 {
			break
		}
		if now := strconv.AppendInt(room[:0], int64(clock.Now()), 10); len(now) == digits {
			copy(after, now)
		}
		rest = after
	}
	return c.socket.write(p)
}

// SentField begins the send time in a frame, which ends with the object.
var SentField = []byte(`,"sent_ns":`)

// newest returns when the last bytes read reached this machine.
func (c *arrivalConn) newest() stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// ArrivalOf returns when a request that has been read at an instant reached this machine. An HTTP/2 connection reads
// ahead, so that its stamps may belong to another request.
func ArrivalOf(q *http.Request, read clock.Instant) (clock.Instant, ArrivalClock) {
	c := connectionOf(q).arrivals
	if c == nil || q.ProtoMajor != 1 {
		return read, ArrivalByProgram
	}
	if last := c.newest(); last.by == ArrivalByKernel {
		return min(last.at, read), ArrivalByKernel
	}
	return read, ArrivalByProgram
}
