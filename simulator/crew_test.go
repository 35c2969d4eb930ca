package simulator

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/simulator/config"
)

// Each item is done once, whatever the numbers of items and processors are, and nothing is in progress afterwards.
func TestACrewDoesEachItemOnce(t *testing.T) {
	for _, processors := range []int{1, 2, 5} {
		c := newCrew(processors)
		for _, items := range []int{0, 1, leastForHelper - 1, leastForHelper, 3*leastForHelper + 1, 1000} {
			done := make([]atomic.Int32, items)
			c.each(items, func(i int) { done[i].Add(1) })
			for i := range done {
				if n := done[i].Load(); n != 1 {
					t.Errorf("%d processors: item %d of %d was done %d times", processors, i, items, n)
				}
			}
		}
		c.close()
	}
}

// Items are shared with the helpers: two items that wait for one another both end.
func TestACrewWorksOnSeveralProcessors(t *testing.T) {
	c := newCrew(2)
	defer c.close()
	var arrived atomic.Int32
	both := make(chan struct{})
	c.each(leastForHelper, func(i int) {
		if i != 0 && i != takenAtOnce { // of two different takers
			return
		}
		if arrived.Add(1) == 2 {
			close(both)
		}
		<-both
	})
}

// Streams whose frames several processors send are whole and in order.
func TestStreamsOfACrewAreWhole(t *testing.T) {
	cfg := config.Default()
	cfg.Pace = config.Pace{FirstToken: time.Millisecond, BetweenTokens: 200 * time.Microsecond, Ticks: true}
	cfg.Processors = 4
	p := start(t, cfg)
	const body = `{"model":"m","prompt":"a","max_tokens":200,"stream":true}`
	want := handled(t, cfg, completionsPath, body)
	var streams sync.WaitGroup
	for range 4 * leastForHelper {
		streams.Go(func() {
			resp, err := p.ask(t.Context(), 0, completionsPath, "r", body)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || withoutTimes(string(got)) != want {
				t.Errorf("%d bytes of %d, or they differ: %v", len(got), len(want), err)
			}
		})
	}
	streams.Wait()
}
