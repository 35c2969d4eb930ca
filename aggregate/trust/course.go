package trust

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/chance"
)

// Second is a whole second of a stage in which all of its load was up.
type Second struct {
	// Number of the second, from 0 at the stage's start.
	Number int64
	// InFlight is the largest number of requests in flight. Silent: some were all the time, and no frame arrived.
	InFlight uint64
	Silent   bool
	// Rate is the throughput, in whatever unit; in an open loop InFlight.
	Rate float64
}

// Parts of the notes about a stage's course.
const (
	behindNote  = "the server did not keep up with the rate: "
	silentNote  = "no token arrived in "
	shiftedNote = ", and the stage's numbers mix both times: "
)

// OfCourse reports whether a note is about what changed in the course of a stage.
func OfCourse(note string) bool {
	return strings.HasPrefix(note, behindNote) || strings.HasPrefix(note, silentNote) ||
		strings.Contains(note, shiftedNote)
}

// Behind reports whether the server did not keep up with the rate, so that the throughput is the most that it can do.
func (t Trust) Behind() bool {
	return slices.ContainsFunc(t.Notes, func(note string) bool { return strings.HasPrefix(note, behindNote) })
}

// behind says that the server fell behind the rate of an open loop in its second half, or returns "".
func behind(e Evidence) string {
	if e.Open == nil || e.Open.Flow == nil {
		return ""
	}
	f := e.Open.Flow
	if rate := float64(f.Ended) / f.Seconds; f.Started > f.Ended && rate < (1-behindLimit)*e.Open.Asked &&
		chance.Grew(f.Started-f.Ended, f.Level, e.Open.Shape) {
		return fmt.Sprintf(behindNote+"in the second half %.3g of %.3g requests/s ended, and the requests in flight grew from %d "+
			"to %d: the longer the stage, the longer its latencies; lower the rate", rate, e.Open.Asked, f.InFlight,
			f.InFlight+f.Started-f.Ended)
	}
	return ""
}

const (
	// behindLimit is the share of the rate that the server may fall behind, as in searches.
	behindLimit = 0.05
	// muchLonger is how many times as long as the median wait for a token a silence is worth a note.
	muchLonger = 2
	// leastThird is the shortest third of a stage in seconds, and leastRounds in lengths of a request, that shows a
	// shift. leastShift is the smallest one.
	leastThird, leastRounds, leastShift = 5, 2, 0.25
)

// silence says when all streams were silent for longer than requests usually wait for a token, or returns "".
func silence(e Evidence) string {
	usual, all, run, longest := e.Summaries[metricTTFT], 0, 0, []Second(nil)
	for i, s := range e.Seconds {
		if run++; !s.Silent {
			run = 0
			continue
		}
		if all++; run > len(longest) {
			longest = e.Seconds[i+1-run : i+1]
		}
	}
	if gap := e.Summaries[metricITL]; gap != nil && usual != nil && gap.P50 > usual.P50 {
		usual = gap
	}
	if usual == nil || float64(len(longest)) <= muchLonger*usual.P50/msPerSecond {
		return ""
	}
	return fmt.Sprintf(silentNote+"%d of %d seconds, the longest time from second %d to %d, with up to %d requests in flight: "+
		"see what the server, or the network, did then", all, len(e.Seconds), longest[0].Number,
		longest[0].Number+int64(len(longest)), longest[0].InFlight)
}

// shifted says how the throughput of a closed loop, or the requests in flight of an open one, changed from the first
// third of its time to the last, and when, or returns "". Chance seldom sets the middle halves of both thirds apart.
func shifted(e Evidence) string {
	third, whole, what := len(e.Seconds)/3, e.Summaries[metricE2E], "throughput"
	if e.Open != nil {
		what = "number of requests in flight"
	}
	if e.Open == nil && e.Closed == nil || third < leastThird || whole == nil ||
		float64(third) < leastRounds*whole.Mean/msPerSecond {
		return ""
	}
	first, last := quartiles(e.Seconds[:third]), quartiles(e.Seconds[len(e.Seconds)-third:])
	word, low, high := "fell", last, first
	if last[1] > first[1] {
		word, low, high = "rose", first, last
	}
	if low[2] >= high[0] || low[1] > (1-leastShift)*high[1] || first[1] == 0 ||
		e.Open != nil && !chance.Grew(uint64(high[1]-low[1]), low[1], e.Open.Shape) {
		return ""
	}
	before := 0 // seconds that are more like the first third
	for _, s := range e.Seconds {
		if (s.Rate > (low[1]+high[1])/2) == (word == "fell") {
			before++
		}
	}
	return fmt.Sprintf("the %s %s by %.3g %% around second %d"+shiftedNote+"see what changed at the server then", what, word,
		100*(high[1]-low[1])/first[1], e.Seconds[min(before, len(e.Seconds)-1)].Number)
}

// quartiles returns the quartiles of the rates of seconds.
func quartiles(seconds []Second) (q [3]float64) {
	rates := make([]float64, 0, len(seconds))
	for _, s := range seconds {
		rates = append(rates, s.Rate)
	}
	slices.Sort(rates)
	for i := range q {
		q[i] = rates[(i+1)*len(rates)/4]
	}
	return q
}
