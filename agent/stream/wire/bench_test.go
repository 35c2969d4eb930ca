package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream/socket"
)

// counter is a Follower that counts bytes.
type counter int

func (n *counter) Consume(data []byte, _ socket.Reading) bool {
	*n += counter(len(data))
	return true
}

// BenchmarkFrame measures finding a frame of a stream in its chunk. Package stream's BenchmarkFrame measures the rest.
func BenchmarkFrame(b *testing.B) {
	frame := strings.Repeat("a", 180)
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(frame), frame)
	var n counter
	body := &HTTP1Body{follower: &n}
	body.framing.reset(true, -1)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		body.Consume(chunk, socket.Reading{})
	}
	if int(n) != b.N*len(frame) {
		b.Fatalf("%d bytes of %d frames", n, b.N)
	}
}
