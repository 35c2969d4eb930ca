package socket_test

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
)

// Many concurrent streams on few sweepers, written in pieces of different sizes, all arrive whole.
func TestManyStreamsAtATime(t *testing.T) { playManyStreams(t, wire.Settings{}) }

func playManyStreams(t *testing.T, settings wire.Settings) {
	t.Helper()
	const streams, requests = 100, 5
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		for i := 1; testserver.TakeRequest(r); i++ {
			wire := testserver.ChunkedHead
			for range 10 * i {
				wire += testserver.Chunk(testserver.TokenFrame("word"))
			}
			wire += testserver.Chunk(testserver.DoneFrame) + testserver.LastChunk
			for len(wire) > 0 {
				n := min(len(wire), 700*i)
				io.WriteString(c, wire[:n])
				wire = wire[n:]
			}
		}
	})
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}, Connection: settings})
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			for range requests {
				var o stream.Observation
				c.Do(t.Context(), stream.Request{Body: streamtest.Body(c)}, &o)
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
		io.WriteString(c, testserver.ChunkedHead+testserver.Chunk(testserver.TokenFrame("a")))
		io.Copy(io.Discard, c)
	})
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}})
	var all, begun sync.WaitGroup
	for range 20 {
		begun.Add(1)
		all.Go(func() {
			var o stream.Observation
			c.Do(
				t.Context(),
				stream.Request{Body: streamtest.Body(c), OnToken: func(clock.Instant, int) { begun.Done() }},
				&o,
			)
			if o.Err == nil || o.TokenFrames != 1 {
				t.Errorf("%v, %d frames", o.Err, o.TokenFrames)
			}
		})
	}
	begun.Wait()
	c.Close()
	all.Wait()
}
