package wire_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
)

// The next request gets its own response, however the previous one was framed and whatever came before and after it. It
// uses the same connection only if nothing was left there.
func TestNextRequestAfterAnyResponse(t *testing.T) {
	events := testserver.TokenFrame("a") + testserver.TokenFrame("b") + testserver.DoneFrame
	sized := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
		len(events), events)
	chunked := testserver.ChunkedHead + testserver.Chunk(
		testserver.TokenFrame("a"),
	) + testserver.Chunk(
		testserver.TokenFrame("b"),
	) + testserver.Chunk(
		testserver.DoneFrame,
	)
	refused := "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"
	for name, tt := range map[string]struct {
		response string
		frames   uint64
		kept     bool
		ends     bool // the server closes the connection
	}{
		"sized":              {sized, 2, true, false},
		"sized, surplus":     {sized + "x", 2, false, false},
		"chunked":            {chunked + testserver.LastChunk, 2, true, false},
		"chunked, extension": {chunked + "0;a=b\r\n\r\n", 2, true, false},
		"chunked, trailers":  {chunked + "0\r\nA: b\r\nC: d\r\n\r\n", 2, true, false},
		"chunked, surplus":   {chunked + testserver.LastChunk + "HTTP/1.1 200 OK\r\n", 2, false, false},
		"chunked, no chunk":  {chunked + "-1\r\n", 2, false, false},
		"refused":            {refused, 0, true, false},
		"refused, surplus":   {refused + "x", 0, false, false},
		"100 Continue":       {"HTTP/1.1 100 Continue\r\n\r\n" + chunked + testserver.LastChunk, 2, true, false},
		"hints":              {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + sized, 2, true, false},
		"old":                {"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + events, 2, false, true},
		"Connection: close": {"HTTP/1.1 200 OK\r\nConnection: close\r\n" + sized[len("HTTP/1.1 200 OK\r\n"):], 2,
			false, false},
		"done, end cut short": {chunked, 2, false, true},
	} {
		for _, step := range []int{1 << 20, 61} {
			t.Run(fmt.Sprintf("%s, by %d", name, step), func(t *testing.T) {
				s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
					for testserver.TakeRequest(r) {
						for rest := tt.response; len(rest) > 0; runtime.Gosched() {
							n := step
							if len(rest) < 2*step { // so that surplus bytes come with the end
								n = len(rest)
							}
							io.WriteString(c, rest[:n])
							rest = rest[n:]
						}
						if tt.ends {
							return
						}
					}
				})
				c := streamtest.NewClient(t, stream.Config{
					Endpoints: []string{s.URL}, Connection: wire.Settings{PacketTimes: step == 61},
				})
				for i := range 4 {
					o := streamtest.Ask(t, c)
					if o.TokenFrames != tt.frames || (o.Err == nil) != (tt.frames > 0) || o.HTTPStatus == 0 {
						t.Fatalf("request %d: %v, status %d, %d frames", i, o.Err, o.HTTPStatus, o.TokenFrames)
					}
					if o.Connected == (tt.kept && i > 0) {
						t.Fatalf("request %d: connected %t", i, o.Connected)
					}
				}
			})
		}
	}
}

// A response that ends long after its last event delays no request: the next one uses another connection, and the first
// one is used again once its response has ended, and tells how late that was.
func TestResponsesThatEndLate(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			first, end := make(chan struct{}, 1), make(chan struct{})
			first <- struct{}{}
			config := testserver.NewAuthority(t).Serves("127.0.0.1", testserver.Later())
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				if scheme == "https" {
					c = tls.Server(c, config)
					r = bufio.NewReader(c)
				}
				for testserver.TakeRequest(r) {
					io.WriteString(c, testserver.ChunkedHead+testserver.Chunk(testserver.TokenFrame("a"))+
						testserver.Chunk(testserver.DoneFrame))
					select {
					case <-first:
						<-end
					default:
					}
					io.WriteString(c, testserver.LastChunk)
				}
			})
			c := streamtest.NewClient(t, stream.Config{
				Endpoints: []string{scheme + s.URL[len("http"):]}, Connection: wire.Settings{InsecureSkipVerify: true},
			})
			if o := streamtest.Ask(t, c); o.Err != nil || !o.LateEnd || o.PreviousLate != 0 {
				t.Fatalf("%v, late %t, previous %v", o.Err, o.LateEnd, o.PreviousLate)
			}
			if o := streamtest.Ask(t, c); o.Err != nil || !o.Connected {
				t.Fatalf("%v, connected %t", o.Err, o.Connected)
			}
			close(end)
			for o := new(stream.Observation); o.PreviousLate == 0; {
				if o = streamtest.Ask(t, c); o.Err != nil {
					t.Fatal(o.Err)
				}
			}
		})
	}
}
