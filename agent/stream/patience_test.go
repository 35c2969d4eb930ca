package stream

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// pausing answers with a role frame, and with a token after each pause.
func pausing(head time.Duration, pauses ...time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		wait := func(d time.Duration) {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
		}
		write := func(frame string) {
			io.WriteString(w, frame)
			w.(http.Flusher).Flush()
		}
		wait(head)
		w.Header().Set("Content-Type", "text/event-stream")
		write(roleFrame)
		for _, pause := range pauses {
			wait(pause)
			write(tokenFrame("a"))
		}
		write(doneFrame)
	}
}

func TestStreamTimeouts(t *testing.T) {
	const long = time.Hour // longer than any test
	type times struct {
		config Config
		head   time.Duration
		pauses []time.Duration
		want   string
	}
	for name, with := range map[string]func(short time.Duration) times{
		"no head": func(short time.Duration) times {
			return times{Config{FirstTokenTimeout: short}, long, nil,
				"first token timeout after %v; no response received"}
		},
		"no token": func(short time.Duration) times {
			return times{Config{FirstTokenTimeout: short, GapTimeout: 1}, 0, []time.Duration{long},
				"first token timeout after %v; no token received"}
		},
		"a gap": func(short time.Duration) times {
			return times{Config{FirstTokenTimeout: long, GapTimeout: short}, 0, []time.Duration{0, 0, long},
				"gap timeout: no event for %v; token frames received: 2"}
		},
		"a gap, nothing else": func(short time.Duration) times {
			return times{Config{GapTimeout: short}, 0, []time.Duration{0, long},
				"gap timeout: no event for %v; token frames received: 1"}
		},
		"slow, but in time": func(short time.Duration) times {
			return times{Config{FirstTokenTimeout: long, GapTimeout: short}, 0,
				slices.Repeat([]time.Duration{short / 3}, 5), ""}
		},
		"slow, no gap bound": func(short time.Duration) times {
			return times{Config{FirstTokenTimeout: short}, 0,
				append([]time.Duration{0}, slices.Repeat([]time.Duration{short / 3}, 5)...), ""}
		},
		"the whole": func(short time.Duration) times {
			return times{Config{RequestTimeout: short, FirstTokenTimeout: long, GapTimeout: long}, 0,
				[]time.Duration{0, long}, "request timeout after %v; token frames received: 1"}
		},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, http2), func(t *testing.T) {
				t.Parallel()
				var got string
				for short := 60 * time.Millisecond; short < time.Minute; short *= 4 { // a busy machine may be slow
					c := with(short)
					p := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, pausing(c.head, c.pauses...))
					c.config.Endpoints, c.config.Connection.HTTP2 = []string{p.URL}, http2
					o := ask(t, newTestClient(t, c.config))
					want := c.want
					if got = ""; o.Err != nil {
						got, want = o.Err.Message, fmt.Sprintf(c.want, short)
					}
					if got == want && (o.Err == nil || o.Err.Class == spatev1.ErrorClass_ERROR_CLASS_TIMEOUT) {
						return
					}
				}
				t.Errorf("however long it waits, it says %q", got)
			})
		}
	}
}

// If the program is late, the server is not reported as late: bytes that came in time are still unread.
func TestNoTimeoutOfABusyProgram(t *testing.T) {
	for name, config := range map[string]Config{"gap": {GapTimeout: hold / 2},
		"gap, HTTP/2": {GapTimeout: hold / 2, Connection: wire.Settings{HTTP2: true}}} {
		t.Run(name, func(t *testing.T) {
			p := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, pausing(0, 0, hold/8, 0, 0))
			config.Endpoints = []string{p.URL}
			c := newTestClient(t, config)
			var o Observation
			c.Do(t.Context(), Request{Body: body(c), OnToken: func(clock.Instant, int) {
				if o.TokenFrames == 2 {
					<-time.After(2 * hold)
				}
			}}, &o)
			if o.Err != nil || o.TokenFrames != 4 {
				t.Errorf("%v, %d frames", o.Err, o.TokenFrames)
			}
		})
	}
}

// A name that cannot be looked up is reported as such within the connect timeout.
func TestNoSuchName(t *testing.T) {
	c := newTestClient(t, Config{Endpoints: []string{"http://nowhere.invalid"}, ConnectTimeout: 2 * time.Second})
	o := ask(t, c)
	if o.Err == nil || o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT ||
		!strings.Contains(o.Err.Message, "lookup") {
		t.Errorf("%+v", o.Err)
	}
}
