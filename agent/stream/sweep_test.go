package stream

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/clock"
)

// Many concurrent streams on few sweepers, written in pieces of different sizes, all arrive whole.
func TestManyStreamsAtATime(t *testing.T) {
	const streams, requests = 100, 5
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		for i := 1; testserver.TakeRequest(r); i++ {
			wire := chunkedHead
			for range 10 * i {
				wire += chunk(tokenFrame("word"))
			}
			wire += chunk(doneFrame) + lastChunk
			for len(wire) > 0 {
				n := min(len(wire), 700*i)
				io.WriteString(c, wire[:n])
				wire = wire[n:]
			}
		}
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			for range requests {
				var o Observation
				c.Do(t.Context(), Request{Body: body(c)}, &o)
				if o.Err != nil || o.TokenFrames == 0 || o.TokenFrames%10 != 0 ||
					len(o.Gaps(nil)) != int(o.TokenFrames)-1 || o.End < o.LastToken {
					t.Errorf("%v, %d frames, %d gaps", o.Err, o.TokenFrames, len(o.Gaps(nil)))
				}
			}
		})
	}
	all.Wait()
}

// Closing a client ends its requests in flight, and leaves nothing behind.
func TestCloseDuringRequests(t *testing.T) {
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		testserver.TakeRequest(r)
		io.WriteString(c, chunkedHead+chunk(tokenFrame("a")))
		io.Copy(io.Discard, c)
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var all, begun sync.WaitGroup
	for range 20 {
		begun.Add(1)
		all.Go(func() {
			var o Observation
			c.Do(t.Context(), Request{Body: body(c), OnToken: func(clock.Instant, int) { begun.Done() }}, &o)
			if o.Err == nil || o.TokenFrames != 1 {
				t.Errorf("%v, %d frames", o.Err, o.TokenFrames)
			}
		})
	}
	begun.Wait()
	c.Close()
	all.Wait()
}
