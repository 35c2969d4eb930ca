package results

import (
	"maps"
	"slices"

	"github.com/spate-load/spate/aggregate/merge"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Second is what happened in one window of a stage, over all agents.
type Second struct {
	// Window is the number of the window.
	Window uint32
	// Started, Ended and Failed are measured requests that started, that ended in any way, and that failed.
	Started, Ended, Failed uint64
	// InFlight is the most requests in flight, as in peak_concurrency.
	InFlight uint64
	// Tokens are the output tokens that arrived, counted as for the peak. Nil: not known.
	Tokens *uint64
}

// SecondsOf returns the windows of a merged stage, in order. Windows that no agent delivered are not there.
func SecondsOf(merged *merge.Stage, rec *spatev1.StageRecord) (seconds []Second) {
	merged.Read(rec, func(all *merge.Sums) {
		s := sums{all}
		for _, number := range slices.Sorted(maps.Keys(s.Windows)) {
			w := s.Windows[number]
			second := Second{Window: number, Started: w.Started, Ended: w.Ended, Failed: w.Failed,
				InFlight: s.InFlight(int(number))}
			if tokens, known := s.tokensIn(w); known {
				second.Tokens = &tokens
			}
			seconds = append(seconds, second)
		}
	})
	return seconds
}
