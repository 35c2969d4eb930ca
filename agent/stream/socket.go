package stream

import (
	"github.com/spate-load/spate/clock"
)

// reading is when one read's bytes came.
type reading struct {
	at      clock.Instant // when the last of them reached this machine
	seen    clock.Instant // when the program had them
	number  uint64        // counts the reads of the socket, from 1
	stamped bool          // at is the kernel's
}

// lag is how long the bytes waited for the program.
func (r reading) lag() int64 { return int64(r.seen.Sub(r.at)) }

// taker takes what the reads of a connection bring.
type taker interface {
	// take takes in the bytes of one read, which it must not keep. It is false if it wants no more. It must not block,
	// nor use the connection.
	take(p []byte, by reading) (more bool)
}
