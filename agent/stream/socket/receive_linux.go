package socket

import (
	"sync"

	"github.com/spate-load/spate/internal/kernel"
)

// receiver reads sockets into its own buffer.
type receiver struct {
	kernel.Receiver
	buffer []byte
	pieces []piece // of the last read
}

// smallBuffer is the buffer size of readers that are not sweepers.
const smallBuffer = 4 << 10

// receivers are for reads outside a sweeper's goroutine.
var receivers = sync.Pool{New: func() any { return &receiver{buffer: make([]byte, smallBuffer)} }}
