package stream

import (
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/clock"
)

// hold is how long the program does not read; a correct time is off by far less.
const hold = 80 * time.Millisecond

// A program that reads its frames late still reports when they arrived.
func TestFrameTimesOfABusyProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	a := testserver.NewAuthority(t)
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": a.Serves("127.0.0.1", later())} {
		t.Run(name, func(t *testing.T) {
			busy := make(chan struct{})
			sent := make(chan clock.Instant, 1)
			s := testserver.NewPeer(t, "127.0.0.1:0", true, true, secure, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, tokenFrame("a"))
				w.(http.Flusher).Flush()
				<-busy
				sent <- clock.Now()
				io.WriteString(w, tokenFrame("b"))
				w.(http.Flusher).Flush()
				<-busy
				io.WriteString(w, doneFrame)
			})
			c := newTestClient(t, Config{Endpoints: []string{s.URL}, Connection: wire.Settings{CA: a.PEM}})
			// The kernel switches timestamps on with a delay.
			for range 50 {
				var truth clock.Instant
				var o Observation
				c.Do(t.Context(), Request{Body: body(c), OnToken: func(clock.Instant, int) {
					busy <- struct{}{}
					if o.TokenFrames == 1 {
						truth = <-sent
						<-time.After(hold)
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

func checkHeldBack(t *testing.T, o *Observation, truth clock.Instant) {
	t.Helper()
	wrong := o.LastToken.Sub(truth)
	if wrong < 0 || wrong > hold/4 {
		t.Errorf("frame sent at %d was reported as arriving %v later; it was read %v later", truth, wrong, hold)
	}
	if len(o.Lags) != 2 || time.Duration(o.Lags[1]) < hold/2 {
		t.Errorf("receive lags %v, of which the second is to be about %v", o.Lags, hold)
	}
	t.Logf("the frame's time is off by %v, the program's would be by %v", wrong, time.Duration(o.Lags[1])+wrong)
}

func TestFramesOfOneReadAreCounted(t *testing.T) {
	x := &exchange{o: &Observation{}}
	reads := []socket.Reading{
		{At: 100, Seen: 110, Number: 1, Stamped: true},
		{At: 200, Seen: 230, Number: 2, Stamped: true}, {At: 200, Seen: 230, Number: 2, Stamped: true},
		{At: 200, Seen: 230, Number: 2, Stamped: true},
		{At: 300, Seen: 300, Number: 3},
		{At: 350, Seen: 400, Number: 4, Stamped: true}, {At: 350, Seen: 400, Number: 4, Stamped: true},
	}
	for _, r := range reads {
		x.token(&api.Frame{Token: true}, r, TokensUnknown)
	}
	o := x.o
	if o.CoalescedReads != 2 || o.UnstampedFrames != 1 || o.TokenFrames != 7 || len(o.Lags) != 3 ||
		len(o.Gaps(nil)) != 6 {
		t.Errorf("%+v", o)
	}
	if o.FirstToken != 100 || o.LastToken != 350 || o.Gaps(nil)[0] != 100 || o.Gaps(nil)[1] != 0 || o.Lags[1] != 30 {
		t.Errorf("%+v", o)
	}
}
