package aggregate

import (
	"cmp"
	"slices"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// View is what was measured in one window or in a stage to date, as a whole and by region and agent, and by observers
// beside it. It is a copy: later additions leave it alone.
type View struct {
	// Window is the window's number, or the last one that anything came from, to date.
	Window uint32
	// PeakInFlight is the sum of the agents' most requests in flight during the window: exact for one agent, else the
	// most that can have been.
	PeakInFlight uint64
	// Total is all of it.
	Total Measured
	// Regions are those of the stage, or of a window those of which anything came, by name.
	Regions []Part
	// Agents are those of which anything came, by name, all processes of a name together.
	Agents []Part
	// Endpoints are the first shownEndpoints of the target's, in their order, or of a window those of them of which
	// anything came. Their names are their base URLs, without a password.
	Endpoints []Part
	// Observers are those of which anything came, by region. They are in none of the others.
	Observers []Part
	// Servers are what servers told of themselves in a window, by source, name and labels. There is none to date.
	Servers []ServerValue
}

// shownEndpoints is how many endpoints views have: as a rule all that there are.
const shownEndpoints = 64

// Part is a named part of what was measured.
type Part struct {
	// Name of the region or agent.
	Name string
	// Region that it is in, or is.
	Region string
	// Measured is what was measured there.
	Measured Measured
}

// Measured holds counts and distributions.
type Measured struct {
	// Windows is the most windows that one snapshot of it holds. Above 1 in the view of a window, the counts are of
	// more than a second: an agent whose coordinator was gone has merged its windows.
	Windows uint32
	// Counters are the events counted.
	Counters *spatev1.Counters
	// Errors are failures by their names in results.json.
	Errors map[string]uint64
	// Distributions are those that have values, in the order of the protocol. Agents and the windows of regions keep
	// the main ones only.
	Distributions []NamedDistribution
}

// NamedDistribution is a distribution and what it is of.
type NamedDistribution struct {
	// Metric is what the values are.
	Metric spatev1.Metric
	// Name is the metric's name in results.json, which ends in its unit.
	Name string
	// Distribution sums the values up.
	Distribution Distribution
}

// Distribution returns the distribution of a metric, or nil if there are no values.
func (m Measured) Distribution(metric spatev1.Metric) *Distribution {
	for i := range m.Distributions {
		if m.Distributions[i].Metric == metric {
			return &m.Distributions[i].Distribution
		}
	}
	return nil
}

// Throughputs returns completed requests, output tokens, and input and output tokens per second of some seconds, nil
// where that is not known.
func (m Measured) Throughputs(seconds *float64) (requests, output, total *float64) {
	return throughputs(m.Counters, seconds)
}

// patience is how many windows an agent may be behind the foremost one before views go on without it.
const patience = 10

// Window returns what was measured in a window so far, or false if nothing came or the window was forgotten.
func (s *Stage) Window(number uint32) (View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[number]
	if w == nil || w.live == nil {
		return View{}, false
	}
	v := View{
		Window: number, PeakInFlight: s.inFlight(int(number)), Total: w.live.total.measured(),
		Regions: partsOf(w.live.regions), Observers: partsOf(s.lights[number]),
		Endpoints: s.endpointParts(w.live.endpoints[:]),
		Servers:   s.servers.window(number, s.target),
	}
	scratch := newTally(keyMetrics)
	for name, a := range w.live.agents {
		v.Agents = append(v.Agents, Part{name, a.region, a.measured(scratch)})
	}
	slices.SortFunc(v.Agents, byName)
	return v, true
}

// ToDate returns what was measured in the stage so far.
func (s *Stage) ToDate() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.toDate()
}

// toDate is ToDate under the lock.
func (s *Stage) toDate() View {
	v := View{
		Total: s.total.measured(), Regions: partsOf(s.regions), Observers: partsOf(s.watched), Agents: s.agentParts(),
		Endpoints: s.endpointParts(s.endpoints[:min(len(s.endpoints), shownEndpoints)]),
	}
	for _, a := range s.agents {
		if a.snapshots > 0 {
			v.Window = max(v.Window, uint32(len(a.peaks)-1))
		}
	}
	v.PeakInFlight = s.inFlight(int(v.Window))
	return v
}

// agentParts are the agents of which anything came, the processes of one name together.
func (s *Stage) agentParts() (parts []Part) {
	memory, processes := newTally(keyMetrics), make(map[string][]*agentTally)
	for key, a := range s.agents {
		if a.snapshots > 0 {
			processes[key.name] = append(processes[key.name], a)
		}
	}
	for name, of := range processes {
		sum, region := of[0].whole(memory), of[0].regionName
		if len(of) > 1 {
			sum = newTally(keyMetrics)
			for _, a := range of {
				sum.include(a.whole(memory))
				region = min(region, a.regionName)
			}
		}
		parts = append(parts, Part{name, region, sum.measured()})
	}
	slices.SortFunc(parts, byName)
	return parts
}

// partsOf copies and sums up the tallies of regions, by name.
func partsOf[T interface{ measured() Measured }](regions map[string]T) (parts []Part) {
	for name, t := range regions {
		parts = append(parts, Part{name, name, t.measured()})
	}
	slices.SortFunc(parts, byName)
	return parts
}

// endpointParts copies and sums up the tallies of endpoints, as far as there are any.
func (s *Stage) endpointParts(tallies []*tally) (parts []Part) {
	for i, t := range tallies {
		if t != nil {
			parts = append(parts, Part{Name: redacted(s.target.GetEndpoints()[i]), Measured: t.measured()})
		}
	}
	return parts
}

func byName(a, b Part) int { return cmp.Compare(a.Name, b.Name) }

// measured copies and sums up a tally.
func (t *tally) measured() Measured {
	m := Measured{Windows: t.windows, Counters: t.countersNow(), Errors: t.errorCounts()}
	for _, metric := range measure.Metrics() {
		if metric.Raw {
			continue
		}
		if d := t.distribution(metric.ID); d != nil {
			m.Distributions = append(m.Distributions, NamedDistribution{metric.ID, metric.Name, *d})
		}
	}
	return m
}

// Total returns what was measured in the stage so far, as a whole: ToDate without its parts.
func (s *Stage) Total() Measured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.measured()
}

// Arrivals are the frames that arrived in a second and may carry a token, and their tokens: nil where no running usage
// tells those of all of them.
type Arrivals struct {
	Frames float64
	Tokens *float64
}

// Arrivals returns those of a window, forgotten or not. Those of a snapshot of several windows are shared out evenly.
func (s *Stage) Arrivals(window uint32) Arrivals {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[window]
	switch {
	case w == nil:
		return Arrivals{Tokens: new(float64)}
	case w.uncountedFrames > 0:
		return Arrivals{Frames: w.framesPerSecond}
	}
	tokens := w.tokensPerSecond
	return Arrivals{Frames: w.framesPerSecond, Tokens: &tokens}
}

// HideWindows saves the work for Window, which returns nothing from now on: nobody looks at single windows.
func (s *Stage) HideWindows() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = true
	for _, w := range s.windows {
		w.live = nil
	}
	clear(s.lights)
	clear(s.dates)
}

// Forget drops what single windows up to this one need for Window. Their measurements stay in the stage's sums.
func (s *Stage) Forget(through uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := range s.dates {
		if number <= through {
			delete(s.dates, number)
		}
	}
	for ; s.forgotten <= through && s.forgotten <= MaxWindow; s.forgotten++ {
		if w := s.windows[s.forgotten]; w != nil {
			w.live = nil
		}
		delete(s.lights, s.forgotten)
	}
}

// Waiting returns the names of the agents that have not delivered a window yet, in order. An agent delivers its windows
// in order; its totals are its last word. Nobody waits for one that was given up or left out or had not joined, nor for
// one that is so far behind the others that it may have been lost: what it delivers in the end is in the sums to date.
func (s *Stage) Waiting(window uint32) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivered() > int(window)+patience {
		return nil
	}
	var names []string
	for _, agents := range []map[agentKey]*agentTally{s.agents, s.observers} {
		for key, a := range agents {
			if a.owes(window) {
				names = append(names, key.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// owed says whether an agent or observer has still to deliver a window.
func (s *Stage) owed(window uint32) bool {
	for _, agents := range []map[agentKey]*agentTally{s.agents, s.observers} {
		for _, a := range agents {
			if a.owes(window) {
				return true
			}
		}
	}
	return false
}

// delivered is how many windows the foremost of the agents has delivered.
func (s *Stage) delivered() (windows int) {
	for _, a := range s.agents {
		windows = max(windows, len(a.peaks))
	}
	return windows
}

// owes says whether the agent has still to deliver a window.
func (a *agentTally) owes(window uint32) bool {
	return a.totals == nil && a.loss == nil && !a.out && a.startsIn() <= window && len(a.peaks) <= int(window)
}
