package stream

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The library reads frames ahead while the program is busy with an earlier frame. Each frame still gets the time of its
// arrival, not that of a later read.
func TestFrameTimesByHTTP2(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	a := newAuthority(t)
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": a.serves("127.0.0.1", later())} {
		t.Run(name, func(t *testing.T) {
			const frames = 6
			read := make(chan struct{}, 1)
			sent := make(chan clock.Instant, frames)
			p := newPeer(t, "127.0.0.1:0", true, true, secure, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, tokenFrame("a"))
				w.(http.Flusher).Flush()
				<-read
				for range frames {
					sent <- clock.Now()
					io.WriteString(w, tokenFrame("b"))
					w.(http.Flusher).Flush()
					<-time.After(hold / frames)
				}
				io.WriteString(w, doneFrame)
			})
			c := newTestClient(t, Config{Endpoints: []string{p.URL}, Connection: Connection{HTTP2: true, CA: a.pem}})
			for range 50 {
				var o Observation
				var arrivals, seen []clock.Instant
				c.Do(t.Context(), Request{
					Body: body(c),
					OnFrame: func(_ []byte, at, read clock.Instant) {
						arrivals, seen = append(arrivals, at),
							append(seen, read)
					},
					OnToken: func(clock.Instant, int) {
						if len(arrivals) == 1 {
							read <- struct{}{}
							<-time.After(2 * hold)
						}
					},
				}, &o)
				if o.Err != nil || len(arrivals) != frames+1 {
					t.Fatalf("%v, %d frames", o.Err, len(arrivals))
				}
				worst := time.Duration(0)
				for _, at := range arrivals[1:] {
					off := at.Sub(<-sent)
					if off < 0 {
						t.Errorf("a frame came %v before it was sent", -off)
					}
					worst = max(worst, off)
				}
				if o.UnstampedFrames > 0 {
					continue // the kernel switches timestamps on with a delay
				}
				if worst > hold/frames/2 || o.CoalescedReads > 0 {
					t.Errorf("a frame's time is off by %v, %d reads with several frames", worst, o.CoalescedReads)
				}
				t.Logf("times are off by %v at most", worst)
				return
			}
			t.Error("no stamps in 50 requests")
		})
	}
}

// Long answers and requests of several frames each way, and bodies that are not streams.
func TestBodiesByHTTP2(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	p := newPeer(t, "127.0.0.1:0", false, true, nil, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		switch r.Header.Get("X-Request-Id") {
		case "whole":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"message":{"content":"`+long+
				`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":`+
				strconv.Itoa(len(got))+`}}`)
		case "refused":
			http.Error(w, "no", http.StatusTooManyRequests)
		case "cut":
			io.WriteString(w, tokenFrame("a"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(w, tokenFrame(long)+tokenFrame("b")+finishFrame+usageFrame)
		}
	})
	c := newTestClient(t, Config{Endpoints: []string{p.URL}, Connection: Connection{HTTP2: true}})
	request := c.AppendBody(nil, 8, func(dst []byte) []byte { return append(append(append(dst, '"'), long...), '"') })
	for range 3 {
		for id, check := range map[string]func(o *Observation) bool{
			"stream": func(o *Observation) bool { return o.Err == nil && o.TokenFrames == 2 && o.InputTokens == 11 },
			"whole": func(o *Observation) bool {
				return o.Err == nil && o.WholeAnswer &&
					o.OutputTokens == uint64(len(request))
			},
			"refused": func(o *Observation) bool { return o.Err != nil && o.HTTPStatus == http.StatusTooManyRequests },
			"cut": func(o *Observation) bool {
				return o.Err != nil && o.Err.Class == spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM && o.TokenFrames == 1
			},
		} {
			var o Observation
			c.Do(t.Context(), Request{ID: id, Body: request}, &o)
			if !check(&o) || o.Sent == 0 || o.FirstByte == 0 || o.End == 0 {
				t.Errorf("%s: %v, %+v", id, o.Err, o)
			}
		}
	}
}

// A connection that was closed while idle fails no request.
func TestKeptConnectionThatEndedByHTTP2(t *testing.T) {
	p := newPeer(t, "127.0.0.1:0", false, true, nil, reply)
	c := newTestClient(t, Config{Endpoints: []string{p.URL}, Connection: Connection{HTTP2: true}})
	for i := range 100 {
		if o := ask(t, c); o.Err != nil {
			t.Fatalf("request %d: %v", i, o.Err)
		}
		c.dialer.mu.Lock()
		for idle := range c.dialer.open {
			idle.socket.Close()
		}
		c.dialer.mu.Unlock()
	}
}

// The scanner finds what was written, however the frames are split.
func TestFrameScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		preface := rapid.Bool().Draw(t, "preface")
		if preface {
			wire.WriteString(http2.ClientPreface)
		}
		f := http2.NewFramer(&wire, nil)
		f.AllowIllegalWrites = true
		var want scanned
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			data := make([]byte, rapid.IntRange(0, 300).Draw(t, "length"))
			end := rapid.Bool().Draw(t, "end")
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				_ = f.WriteData(1, end, data)
				want.data, want.ended = want.data+len(data), want.ended || end
			case 1:
				_ = f.WriteDataPadded(1, end, data, make([]byte, rapid.IntRange(0, 255).Draw(t, "padding")))
				want.data, want.ended = want.data+len(data), want.ended || end
			case 2:
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: end, EndHeaders: true,
					BlockFragment: data})
				want.ended = want.ended || end
			case 3:
				_ = f.WriteSettingsAck()
			case 4:
				_ = f.WritePing(end, [8]byte{1})
			}
		}
		scanner := &newHTTP2Frames().out
		if !preface {
			scanner = &newHTTP2Frames().in
		}
		var got scanned
		for rest := wire.Bytes(); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			part := scanner.scan(rest[:n])
			got.data, got.ended = got.data+part.data, got.ended || part.ended
			rest = rest[n:]
		}
		if got.data != want.data || got.ended != want.ended {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}
