package agent

import (
	"slices"
	"strings"
	"sync"
	"testing"

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
	server := newEngine(t, 0, 0)
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed": {Concurrency: 2, Requests: 6},
		"open":   {Rate: 200, Arrival: "constant", Requests: 6},
	} {
		var mu sync.Mutex
		var all []*watchLog
		k := resourcesOf(limits{})
		k.newWatch = func() Watch {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, &watchLog{t: t})
			return all[len(all)-1]
		}
		u := beginWith(t, assignOf(stageOf(load, server), 0), k)
		<-u.done
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

func TestStageBeyondTheCapacity(t *testing.T) {
	server := newEngine(t, 0, 0)
	capacity := &spatev1.Capacity{Streams: 4, FramesPerSecond: 100, StartsPerSecond: 50}
	for name, c := range map[string]struct {
		load     *spatev1.LoadPoint
		capacity *spatev1.Capacity
		want     string
	}{
		"streams": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, capacity,
			"The machine of agent a was exact up to 4 streams when it was calibrated, and this stage gives it 5: " +
				"its times may be less exact; add agents."},
		"as many streams": {&spatev1.LoadPoint{Concurrency: 4, Requests: 5}, capacity, ""},
		"starts": {&spatev1.LoadPoint{Rate: 51, Arrival: "constant", Requests: 5}, capacity,
			"up to 50 starts/s when it was calibrated, and this stage gives it up to 51"},
		"as many starts": {&spatev1.LoadPoint{Rate: 50, Arrival: "constant", Requests: 5}, capacity, ""},
		"not calibrated": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, nil, ""},
		"streams not measured": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, &spatev1.Capacity{StartsPerSecond: 1},
			""},
	} {
		k := resourcesOf(limits{})
		k.name, k.capacity = "a", c.capacity
		for range 2 { // the second gets the first one's findings, without its note
			s, err := prepare(t.Context(), assignOf(stageOf(c.load, server), 0), k)
			if err != nil {
				t.Fatal(err)
			}
			s.close()
			notes := strings.Join(s.found.Preparation.GetNotes(), "\n")
			if n := strings.Count(notes, "was exact"); n != strings.Count(c.want, "was exact") && n > 1 ||
				!strings.Contains(notes, c.want) || c.want == "" && n > 0 {
				t.Errorf("%s: notes %q, want %q", name, notes, c.want)
			}
		}
	}
}
