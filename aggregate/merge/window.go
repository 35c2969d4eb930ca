package merge

import (
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// WindowShare is what requests contributed to a window. It is reported when the requests end.
type WindowShare struct {
	// Tokens and Chunks are output tokens and chunks.
	Tokens, Chunks uint64
	// MicroRequests are requests in millionths.
	MicroRequests uint64
}

// add adds the share that one snapshot reports.
func (w *WindowShare) add(s *spatev1.WindowShare) {
	w.Tokens += s.GetOutputTokens()
	w.Chunks += s.GetChunks()
	w.MicroRequests += s.GetMicroRequests()
}

// Window holds what happened in one window.
type Window struct {
	WindowShare
	// Started and Ended are measured requests that started, and that ended in any way.
	Started, Ended uint64
	// Failed are those of Ended that failed.
	Failed uint64
	// TokensArrived are the tokens that arrived, by running usage.
	TokensArrived uint64

	tokensPerSecond    float64 // tokens of each snapshot, divided by its number of windows
	framesPerSecond    float64 // the same for frames
	completedPerSecond float64 // the same for requests that completed
	uncountedFrames    uint64
	unmeasuredFrames   uint64

	unmeasuredStarted, unmeasuredEnded uint64

	live *liveWindow
}

// liveWindow is a window that can still be viewed.
type liveWindow struct {
	total   *Tally
	regions map[string]*Tally
	agents  map[string]*agentWindow
	parts   []*Tally // of the mixture; nil: there is none
	// By number, for the first shownEndpoints endpoints. Nil: no measurements.
	endpoints [shownEndpoints]*Tally
}

// agentWindow holds what the processes of one agent measured in a window.
type agentWindow struct {
	pending
	region string
}

// newLiveWindow returns a window without measurements. parts is the number of the mixture's parts.
func newLiveWindow(parts int) *liveWindow {
	w := &liveWindow{total: newTally(measure.All), regions: make(map[string]*Tally),
		agents: make(map[string]*agentWindow)}
	for range parts {
		w.parts = append(w.parts, newTally(regionMetrics))
	}
	return w
}

// add adds one endpoint's measurements to a window, but not to its tallies; see Stage.hold.
func (w *Window) add(series *spatev1.Series, parts []part, at place, region string) {
	c := series.GetCounters()
	w.Started += c.GetStarted()
	w.Ended += c.GetCompleted() + c.GetFailed() + c.GetCancelled()
	w.Failed += c.GetFailed()
	w.TokensArrived += c.GetTokensArrived()
	w.tokensPerSecond += float64(c.GetTokensArrived()) / float64(at.windows())
	w.framesPerSecond += float64(c.GetFrames()) / float64(at.windows())
	w.completedPerSecond += float64(c.GetCompleted()) / float64(at.windows())
	w.uncountedFrames += c.GetUncountedFrames()
	w.unmeasuredFrames += c.GetUnmeasuredFrames()
	w.unmeasuredStarted += c.GetUnmeasuredStarted()
	w.unmeasuredEnded += c.GetUnmeasuredEnded()
	if w.live == nil {
		return
	}
	if w.live.agents[at.agent] == nil {
		w.live.agents[at.agent] = &agentWindow{region: region}
	}
	w.live.agents[at.agent].add(series, parts, at)
}

// Silent reports whether no frame arrived in the window and no request ended.
func (w *Window) Silent() bool {
	return w.framesPerSecond == 0 && w.unmeasuredFrames == 0 && w.Ended == 0
}

// addTo returns the tally of a name, and creates it if necessary.
func addTo(tallies map[string]*Tally, name string, keep measure.Set) *Tally {
	if tallies[name] == nil {
		tallies[name] = newTally(keep)
	}
	return tallies[name]
}

const nanosPerSecond = 1e9

// span is the windows from first through last of one snapshot that holds several.
type span struct{ first, last uint32 }

// Span returns the time from the first measured start to the last measured end over all agents.
func (s *Sums) Span() (from, to int64, ok bool) { return s.SpanTo((*spatev1.Totals).GetLastEndNs) }

// SpanTo returns the time from the first measured start to the largest value of latest over all agents' totals.
func (s *Sums) SpanTo(latest func(*spatev1.Totals) int64) (from, to int64, ok bool) {
	return SpanOf(maps.Values(s.Agents), latest)
}

// SpanOf is SpanTo for some agents.
func SpanOf(agents iter.Seq[*Agent], latest func(*spatev1.Totals) int64) (from, to int64, ok bool) {
	from, to = math.MaxInt64, math.MinInt64
	for a := range agents {
		if a.Totals == nil || a.Totals.FirstStartNs == nil || a.Totals.LastEndNs == nil {
			continue
		}
		from, to, ok = min(from, a.Totals.GetFirstStartNs()), max(to, latest(a.Totals)), true
	}
	return from, to, ok && from <= to
}

// Blurred reports whether an agent delivered a window merged with other windows in one snapshot.
func (s *Sums) Blurred(number uint32) bool {
	return slices.ContainsFunc(s.spans, func(m span) bool { return m.first <= number && number <= m.last })
}

// Unsplit narrows the windows [first, end) until no snapshot of several windows crosses either end.
func (s *Sums) Unsplit(first, end int64) (narrowFirst, narrowEnd int64) {
	for again := true; again && first < end; {
		again = false
		for _, m := range s.spans {
			from, to := int64(m.first), int64(m.last)
			if from < first && first <= to {
				first, again = to+1, true
			}
			if from < end && end <= to {
				end, again = from, true
			}
		}
	}
	return first, end
}

// WindowsOf returns the whole windows [first, end) that lie within the given span of every agent with load. ok is false
// if there is none, or if an agent's span is not known. After a handover, windows count from the time at which other
// agents took over a lost agent's stripe, or the slots of one that left, because the load is complete again from then
// on. Without a handover, windows count until the agent was lost, provided that it reported when its span started.
func (s *Sums) WindowsOf(span func(*spatev1.Totals) (from, to *int64)) (first, end int64, ok bool) {
	from, to := int64(0), int64(math.MaxInt64)
	for _, a := range s.Agents {
		if a.TakenOver() {
			from = max(from, a.Loss.GetTakenOverNs())
			continue
		}
		if a.Totals == nil {
			return 0, 0, false
		}
		if a.Totals.GetCounters().GetStarted() == 0 {
			continue // an agent without load
		}
		ownFrom, ownTo := span(a.Totals)
		if a.Left != nil {
			ownTo = new(int64(math.MaxInt64)) // the load stays whole
			if s.closed {                     // but for the time that the slots rested
				from = max(from, *a.Left)
				continue
			}
		}
		if a.Loss != nil {
			ownTo = new(int64(a.Loss.GetFromWindow()) * nanosPerSecond)
		}
		if ownFrom == nil || ownTo == nil {
			return 0, 0, false
		}
		from, to, ok = max(from, *ownFrom), min(to, *ownTo), true
	}
	first, end = (from+nanosPerSecond-1)/nanosPerSecond, to/nanosPerSecond
	return first, end, ok && first < end
}
