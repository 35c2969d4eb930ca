package stream

import (
	"github.com/spate-load/spate/clock"
)

// reading is when the bytes of one read came.
type reading struct {
	at      clock.Instant // when the last byte reached this machine
	seen    clock.Instant // when the program had read the bytes
	number  uint64        // counts the reads of the socket, from 1
	stamped bool          // at is the kernel's
}

// lag returns how long the bytes waited for the program, in nanoseconds.
func (r reading) lag() int64 { return int64(r.seen.Sub(r.at)) }

// consumer receives the bytes that a connection's reads return.
type consumer interface {
	// consume receives the bytes of one read, which it must not keep. It returns false if it wants no more. It must not
	// block and must not use the connection.
	consume(p []byte, by reading) (more bool)
}
