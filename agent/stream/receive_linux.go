package stream

import (
	"sync"

	"github.com/spate-load/spate/internal/kernel"
)

// receiver reads sockets into memory of its own.
type receiver struct {
	kernel.Receiver
	buffer []byte
}

// smallBuffer is what a reader reads at once that is no sweeper.
const smallBuffer = 4 << 10

// receivers are for reads that no sweeper makes.
var receivers = sync.Pool{New: func() any { return &receiver{buffer: make([]byte, smallBuffer)} }}
