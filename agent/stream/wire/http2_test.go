package wire_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The library reads frames ahead while the program is busy with an earlier frame. Each frame still gets the time of its
// arrival, not that of a later read.
func TestFrameTimesByHTTP2(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	a := testserver.NewAuthority(t)
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": a.Serves("127.0.0.1", testserver.Later())} {
		t.Run(name, func(t *testing.T) {
			const frames = 6
			read := make(chan struct{}, 1)
			sent := make(chan clock.Instant, frames)
			p := testserver.NewPeer(t, "127.0.0.1:0", true, true, secure, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, testserver.TokenFrame("a"))
				w.(http.Flusher).Flush()
				<-read
				for range frames {
					sent <- clock.Now()
					io.WriteString(w, testserver.TokenFrame("b"))
					w.(http.Flusher).Flush()
					<-time.After(streamtest.Hold / frames)
				}
				io.WriteString(w, testserver.DoneFrame)
			})
			c := streamtest.NewClient(
				t,
				stream.Config{Endpoints: []string{p.URL}, Connection: wire.Settings{HTTP2: true, CA: a.PEM}},
			)
			worst, coalesced := time.Duration(0), uint64(0)
			for range 50 { // on a busy machine frames wait for this program, too
				var o stream.Observation
				var arrivals, seen []clock.Instant
				c.Do(t.Context(), stream.Request{
					Body: streamtest.Body(c),
					OnFrame: func(_ []byte, at, read clock.Instant) {
						arrivals, seen = append(arrivals, at),
							append(seen, read)
					},
					OnToken: func(clock.Instant, int) {
						if len(arrivals) == 1 {
							read <- struct{}{}
							<-time.After(2 * streamtest.Hold)
						}
					},
				}, &o)
				if o.Err != nil || len(arrivals) != frames+1 {
					t.Fatalf("%v, %d frames", o.Err, len(arrivals))
				}
				worst, coalesced = 0, o.CoalescedReads
				for _, at := range arrivals[1:] {
					off := at.Sub(<-sent)
					if off < 0 {
						t.Errorf("a frame came %v before it was sent", -off)
					}
					worst = max(worst, off)
				}
				// The kernel switches timestamps on with a delay.
				if o.UnstampedFrames == 0 && worst <= streamtest.Hold/frames/2 && coalesced == 0 {
					t.Logf("times are off by %v at most", worst)
					return
				}
			}
			t.Errorf("50 times, last by %v: a frame's time is off, or it shares a read (%d)", worst, coalesced)
		})
	}
}

// Long answers and requests of several frames each way, and bodies that are not streams.
func TestBodiesByHTTP2(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	p := testserver.NewPeer(t, "127.0.0.1:0", false, true, nil, func(w http.ResponseWriter, r *http.Request) {
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
			io.WriteString(w, testserver.TokenFrame("a"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(
				w,
				testserver.TokenFrame(long)+testserver.TokenFrame("b")+testserver.FinishFrame+testserver.UsageFrame,
			)
		}
	})
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: wire.Settings{HTTP2: true}})
	request := c.AppendBody(nil, 8, func(dst []byte) []byte { return append(append(append(dst, '"'), long...), '"') })
	for range 3 {
		for id, check := range map[string]func(o *stream.Observation) bool{
			"stream": func(o *stream.Observation) bool { return o.Err == nil && o.TokenFrames == 2 && o.InputTokens == 11 },
			"whole": func(o *stream.Observation) bool {
				return o.Err == nil && o.WholeAnswer &&
					o.OutputTokens == uint64(len(request))
			},
			"refused": func(o *stream.Observation) bool { return o.Err != nil && o.HTTPStatus == http.StatusTooManyRequests },
			"cut": func(o *stream.Observation) bool {
				return o.Err != nil && o.Err.Class == spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM && o.TokenFrames == 1
			},
		} {
			var o stream.Observation
			c.Do(t.Context(), stream.Request{ID: id, Body: request}, &o)
			if !check(&o) || o.Sent == 0 || o.FirstByte == 0 || o.End == 0 {
				t.Errorf("%s: %v, %+v", id, o.Err, o)
			}
		}
	}
}
