package aggregate

import (
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// View is what was measured in one window or in a stage to date, as a whole and by region and agent. It is a copy: later
// additions leave it alone.
type View struct {
	// Window is the window's number, or the last one that anything came from, to date.
	Window uint32
	// PeakInFlight is the sum of the agents' most requests in flight during the window: exact for one agent, else the most that
	// can have been.
	PeakInFlight uint64
	// Total is all of it.
	Total Measured
	// Regions are those of the stage, or of a window those of which anything came, by name.
	Regions []Part
	// Agents are those of which anything came, by name.
	Agents []Part
}

// Part is a named part of what was measured.
type Part struct {
	// Name of the region or agent.
	Name string
	// Measured is what was measured there.
	Measured Measured
}

// Measured holds counts and distributions.
type Measured struct {
	// Counters are the events counted.
	Counters *spatev1.Counters
	// Errors are failures by their names in results.json.
	Errors map[string]uint64
	// Distributions are those that have values, in the order of the protocol. Regions and agents keep the main ones only.
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

// Window returns what was measured in a window so far, or false if nothing came or the window was forgotten.
func (s *Stage) Window(number uint32) (View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[number]
	if w == nil || w.live == nil {
		return View{}, false
	}
	v := View{Window: number, PeakInFlight: s.inFlight(int(number)), Total: w.live.total.measured()}
	for name, t := range w.live.regions {
		v.Regions = append(v.Regions, Part{name, t.measured()})
	}
	scratch := newTally(keyMetrics)
	for key, p := range w.live.agents {
		v.Agents = append(v.Agents, Part{key.name, p.measured(scratch)})
	}
	v.sort()
	return v, true
}

// ToDate returns what was measured in the stage so far.
func (s *Stage) ToDate() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := View{Total: s.total.measured()}
	for name, t := range s.regions {
		v.Regions = append(v.Regions, Part{name, t.measured()})
	}
	for key, a := range s.agents {
		if a.snapshots > 0 {
			v.Agents = append(v.Agents, Part{key.name, a.measured()})
			v.Window = max(v.Window, uint32(len(a.peaks)-1))
		}
	}
	v.PeakInFlight = s.inFlight(int(v.Window))
	v.sort()
	return v
}

// sort orders the parts by name.
func (v *View) sort() {
	byName := func(a, b Part) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	}
	slices.SortFunc(v.Regions, byName)
	slices.SortFunc(v.Agents, byName)
}

// measured copies and sums up a tally.
func (t *tally) measured() Measured {
	m := Measured{Counters: t.countersNow(), Errors: t.errorCounts()}
	for _, metric := range Metrics() {
		if d := t.distribution(metric); d != nil {
			m.Distributions = append(m.Distributions, NamedDistribution{metric, MetricName(metric), *d})
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

// TokensPerSecond returns how many tokens arrived in a window, forgotten or not; 0 if nothing came.
func (s *Stage) TokensPerSecond(window uint32) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.windows[window]; w != nil {
		return float64(w.tokensArrived)
	}
	return 0
}

// HideWindows saves the work for Window, which returns nothing from now on: nobody looks at single windows.
func (s *Stage) HideWindows() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = true
	for _, w := range s.windows {
		w.live = nil
	}
}

// Forget drops what single windows up to this one need for Window. Their measurements stay in the stage's sums.
func (s *Stage) Forget(through uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.forgotten <= through && s.forgotten <= MaxWindow; s.forgotten++ {
		if w := s.windows[s.forgotten]; w != nil {
			w.live = nil
		}
	}
}

// Waiting returns the names of the agents that have not delivered a window yet, in order. An agent delivers its windows in
// order; its totals are its last word.
func (s *Stage) Waiting(window uint32) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for key, a := range s.agents {
		if a.totals == nil && len(a.peaks) <= int(window) {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	return names
}

// Ended says whether an agent has sent its totals.
func (s *Stage) Ended(agent string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.agents {
		if key.name == agent && a.totals != nil {
			return true
		}
	}
	return false
}
