package socket_test

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/clock"
)

// A TCP segment can end within a chunk, after complete frames. These frames get the time of that segment, not that of
// the rest of the chunk.
func TestFrameBeforeASplitChunk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	one, two := testserver.TokenFrame("a"), testserver.TokenFrame("b")
	for name, parts := range map[string][2]string{
		"in the next one's size":   {testserver.Chunk(one) + testserver.Chunk(two)[:1], testserver.Chunk(two)[1:]},
		"behind the next one's":    {testserver.Chunk(one) + testserver.Chunk(two)[:4], testserver.Chunk(two)[4:]},
		"in the next one's data":   {testserver.Chunk(one) + testserver.Chunk(two)[:20], testserver.Chunk(two)[20:]},
		"in one with both frames":  {testserver.Chunk(one + two)[:len(one)+20], testserver.Chunk(one + two)[len(one)+20:]},
		"before the end of a line": {testserver.Chunk(one)[:len(testserver.Chunk(one))-1], "\n" + testserver.Chunk(two)},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan clock.Instant, 1)
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				if !testserver.TakeRequest(r) {
					return
				}
				_, _ = io.WriteString(
					c,
					"HTTP/1.1 103 Early Hints\r\n\r\n"+testserver.ChunkedHead+testserver.Chunk(testserver.RoleFrame),
				)
				<-time.After(streamtest.Hold / 4)
				sent <- clock.Now()
				_, _ = io.WriteString(c, parts[0])
				<-time.After(streamtest.Hold)
				_, _ = io.WriteString(c, parts[1]+testserver.Chunk(testserver.DoneFrame)+testserver.LastChunk)
			})
			o := streamtest.Ask(t, streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}}))
			if o.Err != nil || o.TokenFrames != 2 {
				t.Fatalf("%v, %d frames", o.Err, o.TokenFrames)
			}
			if late, gap := o.FirstToken.Sub(<-sent), time.Duration(o.Gaps(nil)[0]); late > gap/2 ||
				gap < streamtest.Hold {
				t.Errorf("the first token was reported as arriving %v late, the second %v later", late, gap)
			}
		})
	}
}

// FirstByte is the first byte of the final response's head, not of an interim one.
func TestFirstByteIsNotOfAnInterimResponse(t *testing.T) {
	for name, between := range map[string]string{"apart": "HTTP/1.1 103 Early Hints\r\n\r\n",
		"in one read with another": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan clock.Instant, 1)
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				if !testserver.TakeRequest(r) {
					return
				}
				_, _ = io.WriteString(c, between)
				<-time.After(streamtest.Hold)
				sent <- clock.Now()
				_, _ = io.WriteString(
					c,
					testserver.ChunkedHead+testserver.Chunk(
						testserver.TokenFrame("a")+testserver.DoneFrame,
					)+testserver.LastChunk,
				)
			})
			o := streamtest.Ask(t, streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}}))
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if begun := <-sent; o.FirstByte < begun {
				t.Errorf("the first byte was reported as arriving %v before it was sent", begun.Sub(o.FirstByte))
			}
		})
	}
}
