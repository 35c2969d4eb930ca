package stream

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
)

// frameServer answers each request with n token frames, one write each. It uses TLS if secure is not nil.
func frameServer(b *testing.B, n *int, secure *tls.Config) *testserver.Raw {
	frame := []byte(chunk(tokenFrame("hello")))
	return testserver.NewRaw(b, func(c net.Conn, r *bufio.Reader) {
		c.SetDeadline(time.Time{})
		if secure != nil {
			c = tls.Server(c, secure)
			r.Reset(c)
		}
		for testserver.TakeRequest(r) {
			io.WriteString(c, chunkedHead)
			for range *n {
				if _, err := c.Write(frame); err != nil {
					return
				}
			}
			io.WriteString(c, chunk(doneFrame)+lastChunk)
		}
	})
}

// BenchmarkDoFrames measures the cost of one frame over loopback, including the server's write.
func BenchmarkDoFrames(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkFrames(b, nil, "") })
	b.Run("TLS", func(b *testing.B) {
		a := testserver.NewAuthority(b)
		benchmarkFrames(b, a.Serves("127.0.0.1", later()), a.PEM)
	})
}

func benchmarkFrames(b *testing.B, secure *tls.Config, authorities string) {
	n := b.N
	s := frameServer(b, &n, secure)
	if secure != nil {
		s.URL = strings.Replace(s.URL, "http:", "https:", 1)
	}
	c := newTestClient(b, Config{Endpoints: []string{s.URL}, RequestTimeout: time.Hour, MaxOutput: measure.MaxFrames,
		Connection: wire.Settings{CA: authorities}})
	o := Observation{Frames: make([]Frame, 0, n), Lags: make([]int64, 0, n)}
	r := Request{Body: body(c)}
	b.ReportAllocs()
	b.ResetTimer()
	c.Do(b.Context(), r, &o)
	b.StopTimer()
	if o.Err != nil || o.TokenFrames != uint64(n) {
		b.Fatalf("%v, %d frames", o.Err, o.TokenFrames)
	}
	b.ReportMetric(float64(len(o.Lags))/float64(n), "reads/frame")
}

// BenchmarkFloorFrames is BenchmarkDoFrames with a client that only reads and discards: the difference is the cost of
// this package and net/http.
func BenchmarkFloorFrames(b *testing.B) {
	n := b.N
	s := frameServer(b, &n, nil)
	u, err := url.Parse(s.URL)
	if err != nil {
		b.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	left := len(chunkedHead) + n*len(chunk(tokenFrame("hello"))) + len(chunk(doneFrame)+lastChunk)
	buffer := make([]byte, 4<<10)
	b.ReportAllocs()
	b.ResetTimer()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
	reads := 0
	for ; left > 0; reads++ {
		got, err := c.Read(buffer)
		if err != nil {
			b.Fatal(err)
		}
		left -= got
	}
	b.ReportMetric(float64(reads)/float64(n), "reads/frame")
}

// BenchmarkDoRequests measures the cost of a short request on a kept connection.
func BenchmarkDoRequests(b *testing.B) {
	n := 1
	s := frameServer(b, &n, nil)
	c := newTestClient(b, Config{Endpoints: []string{s.URL}})
	var o Observation
	r := Request{Body: body(c), ID: "r1"}
	b.ReportAllocs()
	for b.Loop() {
		if c.Do(b.Context(), r, &o); o.Err != nil {
			b.Fatal(o.Err)
		}
	}
}

// BenchmarkFrame measures what this package does with a frame between the kernel's read and the Observation: event,
// JSON, times. Package wire's BenchmarkFrame measures the chunk around it.
func BenchmarkFrame(b *testing.B) {
	c := newTestClient(b, Config{Endpoints: []string{"http://h"}})
	o := Observation{Frames: make([]Frame, 0, b.N+1), Lags: make([]int64, 0, b.N+1)}
	x := new(exchange)
	x.reset(c, Request{}, &o)
	x.room = room{frames: math.MaxInt, bytes: math.MaxInt64, free: math.MaxInt}
	frame := []byte(tokenFrame("hello"))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		x.Consume(frame, socket.Reading{At: clock.Instant(i + 1), Seen: clock.Instant(i + 2), Number: uint64(i + 1),
			Stamped: true})
	}
	if o.Err != nil || o.TokenFrames != uint64(b.N) {
		b.Fatalf("%v, %d frames", o.Err, o.TokenFrames)
	}
}

// BenchmarkIdleStreams measures the memory of a stream that waits for its next frame.
func BenchmarkIdleStreams(b *testing.B) {
	const streams = 500
	for b.Loop() {
		var before, during runtime.MemStats
		release, waiting := make(chan struct{}), make(chan struct{}, streams)
		s := testserver.NewRaw(b, func(c net.Conn, r *bufio.Reader) {
			testserver.TakeRequest(r)
			io.WriteString(c, chunkedHead+chunk(tokenFrame("a")))
			<-release
			io.WriteString(c, chunk(doneFrame)+lastChunk)
		})
		c := newTestClient(b, Config{Endpoints: []string{s.URL}})
		runtime.GC()
		runtime.ReadMemStats(&before)
		done := make(chan *Error, streams)
		for range streams {
			go func() {
				var o Observation
				c.Do(b.Context(), Request{Body: body(c),
					OnToken: func(_ clock.Instant, _ int) { waiting <- struct{}{} }}, &o)
				done <- o.Err
			}()
		}
		for range streams {
			<-waiting
		}
		runtime.GC()
		runtime.ReadMemStats(&during)
		close(release)
		for range streams {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		used := during.HeapInuse + during.StackInuse - before.HeapInuse - before.StackInuse
		b.ReportMetric(float64(used)/streams/1024, "KiB/stream")
	}
}
