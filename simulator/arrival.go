package simulator

import (
	"net"
	"net/http"
	"sync"

	"github.com/spate-load/spate/clock"
)

// ArrivalClock says who took the time at which a request reached this machine.
type ArrivalClock string

// The clocks of arrivals.
const (
	ArrivalByKernel ArrivalClock = "kernel" // the receive stamp of the packet that brought its last byte
	// Record.Received: this system, or HTTP/2, gives no stamp that is the request's own
	ArrivalByProgram ArrivalClock = "program"
)

// stamp is when bytes reached this machine. By the program's clock it is not known better than by who asks.
type stamp struct {
	at clock.Instant
	by ArrivalClock
}

// arrivalConn is a connection that keeps when the bytes read last reached this machine. Net/http reads and writes, one
// read and one write at a time, and handlers ask meanwhile.
type arrivalConn struct {
	*net.TCPConn
	socket quietSocket

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

// Write writes as net.Conn does.
func (c *arrivalConn) Write(p []byte) (int, error) { return c.socket.write(p) }

// newest returns when the bytes read last came.
func (c *arrivalConn) newest() stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// received takes down that so much of the request is in as is counted for it: all, or its head. An HTTP/2 connection
// reads on behind it, so that its stamps may be another request's.
func (r *Record) received(q *http.Request) {
	r.Received = clock.Now()
	r.Arrived, r.ArrivedBy = r.Received, ArrivalByProgram
	c := connectionOf(q).arrivals
	if c == nil || q.ProtoMajor != 1 {
		return
	}
	if last := c.newest(); last.by == ArrivalByKernel {
		r.Arrived, r.ArrivedBy = min(last.at, r.Received), ArrivalByKernel
	}
}
