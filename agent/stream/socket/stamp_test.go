package socket_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
)

// A program that reads its frames late still reports when they arrived.
func TestFrameTimesOfABusyProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	a := testserver.NewAuthority(t)
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": a.Serves("127.0.0.1", testserver.Later())} {
		t.Run(name, func(t *testing.T) {
			busy := make(chan struct{})
			sent := make(chan clock.Instant, 1)
			s := testserver.NewPeer(t, "127.0.0.1:0", true, true, secure, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, testserver.TokenFrame("a"))
				w.(http.Flusher).Flush()
				<-busy
				sent <- clock.Now()
				io.WriteString(w, testserver.TokenFrame("b"))
				w.(http.Flusher).Flush()
				<-busy
				io.WriteString(w, testserver.DoneFrame)
			})
			c := streamtest.NewClient(
				t,
				stream.Config{Endpoints: []string{s.URL}, Connection: wire.Settings{CA: a.PEM}},
			)
			// The kernel switches timestamps on with a delay.
			for range 50 {
				var truth clock.Instant
				var o stream.Observation
				c.Do(t.Context(), stream.Request{Body: streamtest.Body(c), OnToken: func(clock.Instant, int) {
					busy <- struct{}{}
					if o.TokenFrames == 1 {
						truth = <-sent
						<-time.After(streamtest.Hold)
					}
				}}, &o)
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				if o.UnstampedFrames == 0 {
					checkHeldBack(t, &o, truth)
					return
				}
			}
			t.Error("no stamps in 50 requests")
		})
	}
}

func checkHeldBack(t *testing.T, o *stream.Observation, truth clock.Instant) {
	t.Helper()
	wrong := o.LastToken.Sub(truth)
	if wrong < 0 || wrong > streamtest.Hold/4 {
		t.Errorf(
			"frame sent at %d was reported as arriving %v later; it was read %v later",
			truth,
			wrong,
			streamtest.Hold,
		)
	}
	if len(o.Lags) != 2 || time.Duration(o.Lags[1]) < streamtest.Hold/2 {
		t.Errorf("receive lags %v, of which the second is to be about %v", o.Lags, streamtest.Hold)
	}
	t.Logf("the frame's time is off by %v, the program's would be by %v", wrong, time.Duration(o.Lags[1])+wrong)
}
