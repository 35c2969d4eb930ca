//go:build !race

package stream

import (
	"bufio"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
)

// Under the race detector pools forget a quarter of what they are given, so that this says nothing.

// Answers far longer than asked for reuse each other's buffers: memory does not grow with their number.
func TestLongAnswersLeaveLittleGarbage(t *testing.T) {
	const requests, size = 16, 1 << 20
	for name, response := range map[string]string{
		"one frame":    endlessHead + "data: " + strings.Repeat("x", size),
		"one event":    endlessHead + strings.Repeat("data: xxxxxxxxxx\n", size/17),
		"in one piece": jsonHead + strings.Repeat(" ", size),
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(response)
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				testserver.TakeRequest(r)
				_, _ = c.Write(text) // the client may disconnect
			})
			c := newTestClient(t, Config{Endpoints: []string{s.URL}})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range requests {
				if o := ask(t, c); o.Err == nil {
					t.Fatal("the answer is taken")
				}
			}
			runtime.ReadMemStats(&after)
			// Without reuse it would be 3 to 4 times the size.
			if each := (after.TotalAlloc - before.TotalAlloc) / requests; each > 2*size {
				t.Errorf("an answer of %d KiB took %d KiB", size>>10, each>>10)
			}
		})
	}
}
