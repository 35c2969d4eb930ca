// Package socket has TCP connections that know when bytes were received, and the sweepers that read many of them.
package socket

import (
	"errors"

	"github.com/spate-load/spate/clock"
)

// ErrClosed is the error of requests on a closed client.
var ErrClosed = errors.New("the client is closed")

// Reading is when the bytes of one read came.
type Reading struct {
	At      clock.Instant // when the last byte reached this machine
	Seen    clock.Instant // when the program had read the bytes
	Number  uint64        // counts the reads of the socket, from 1
	Stamped bool          // At is the kernel's
	Packet  bool          // At is that of the packet that carried the last byte
}

// Lag returns how long the bytes waited for the program, in nanoseconds.
func (r Reading) Lag() int64 { return int64(r.Seen.Sub(r.At)) }

// Consumer receives the bytes that a connection's reads return.
type Consumer interface {
	// Consume receives the bytes of one read, which it must not keep. It returns false if it wants no more; what
	// was read together with those bytes still follows. It must not block and must not use the connection.
	Consume(p []byte, by Reading) (more bool)
}
