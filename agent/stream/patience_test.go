package stream

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// pausing answers with a role frame, and behind each pause with a token.
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

func TestWaitsThatEnd(t *testing.T) {
	const short, long = 60 * time.Millisecond, 20 * time.Second
	for name, tt := range map[string]struct {
		config Config
		server http.HandlerFunc
		want   string
	}{
		"no head":             {Config{FirstTokenTimeout: short}, pausing(long), "first token timeout after 60ms; no response had begun"},
		"no token":            {Config{FirstTokenTimeout: short, GapTimeout: time.Millisecond}, pausing(0, long), "first token timeout after 60ms; no token had come"},
		"a gap":               {Config{FirstTokenTimeout: long, GapTimeout: short}, pausing(0, 0, 0, long), "gap timeout: nothing came for 60ms; 2 frames with tokens had come"},
		"a gap, nothing else": {Config{GapTimeout: short}, pausing(0, 0, long), "gap timeout: nothing came for 60ms; 1 frames with tokens had come"},
		"slow, but in time":   {Config{FirstTokenTimeout: long, GapTimeout: 10 * short}, pausing(0, 3*short, 3*short, 3*short, 3*short, 3*short), ""},
		"slow, no gap bound":  {Config{FirstTokenTimeout: 10 * short}, pausing(0, 0, 3*short, 3*short, 3*short, 3*short, 3*short), ""},
		"the whole":           {Config{RequestTimeout: 2 * short, FirstTokenTimeout: long, GapTimeout: long}, pausing(0, 0, long), "request timeout after 120ms; 1 frames with tokens had come"},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, http2), func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, "127.0.0.1:0", true, true, nil, tt.server)
				config := tt.config
				config.Endpoints, config.Connection.HTTP2 = []string{p.URL}, http2
				o := ask(t, newTestClient(t, config))
				checkRefusal(t, o, spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, tt.want)
				if o.Err != nil && o.End.Sub(o.Start) > long/2 {
					t.Errorf("it took %v", o.End.Sub(o.Start))
				}
			})
		}
	}
}

// A name that cannot be looked up is told as such, in time.
func TestNoSuchName(t *testing.T) {
	c := newTestClient(t, Config{Endpoints: []string{"http://nowhere.invalid"}, ConnectTimeout: 2 * time.Second})
	o := ask(t, c)
	if o.Err == nil || o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT || !strings.Contains(o.Err.Message, "lookup") {
		t.Errorf("%+v", o.Err)
	}
}
