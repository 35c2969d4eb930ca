package merge

import (
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

// addTo returns the tally of a name, and creates it if necessary.
func addTo(tallies map[string]*Tally, name string, keep measure.Set) *Tally {
	if tallies[name] == nil {
		tallies[name] = newTally(keep)
	}
	return tallies[name]
}
