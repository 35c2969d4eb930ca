package executor

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// watchLog is a watch that records what it sees.
type watchLog struct {
	t         *testing.T
	said      []string
	scheduled clock.Instant
	at        clock.Instant
	tokens    uint64
}

func (w *watchLog) Began(scheduled, at clock.Instant) {
	w.said, w.scheduled, w.at, w.tokens = append(w.said, "began"), scheduled, at, 0
}

func (w *watchLog) Frame(data []byte, at, seen clock.Instant) {
	if !strings.HasPrefix(string(data), `{"choices"`) || at > seen || at < w.at {
		w.t.Errorf("frame %q at %d, seen %d", data, at, seen)
	}
	w.said = append(w.said, "frame")
}

func (w *watchLog) Token() { w.said, w.tokens = append(w.said, "token"), w.tokens+1 }

func (w *watchLog) Ended(o *stream.Observation) {
	if w.tokens != o.TokenFrames || w.scheduled > o.Start || w.at > o.Start {
		w.t.Errorf("%d tokens, scheduled %d, at %d of %+v", w.tokens, w.scheduled, w.at, o)
	}
	w.said = append(w.said, "ended")
}

// Closed and open loops show each request to its worker's watch.
func TestWatchSeesEachRequest(t *testing.T) {
	server := enginetest.New(t, 0, 0)
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed": {Concurrency: 2, Requests: 6},
		"open":   {Rate: 200, Arrival: "constant", Requests: 6},
	} {
		var mu sync.Mutex
		var all []*watchLog
		newWatch := func() Watch {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, &watchLog{t: t})
			return all[len(all)-1]
		}
		s := prepare(t, enginetest.AssignOf(enginetest.StageOf(load, server), 0), resourcesOf(ready.Limits{}))
		u := startWith(t, s, Config{Start: clock.Now(), NewWatch: newWatch})
		u.awaitEnd()
		var requests int
		for _, w := range all {
			for i := 0; i < len(w.said); i += 7 {
				requests++
				if got := w.said[i:min(i+7, len(w.said))]; !slices.Equal(got,
					[]string{"began", "frame", "token", "frame", "token", "frame", "ended"}) {
					t.Errorf("%s: %q", name, got)
				}
			}
		}
		if requests != 6 {
			t.Errorf("%s: %d requests, want 6", name, requests)
		}
	}
}
