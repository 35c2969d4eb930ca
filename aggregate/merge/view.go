package merge

import (
	"cmp"
	"slices"

	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// View is what was measured in one window, or in a stage to date: as a whole, by region, agent and endpoint. It is a
// copy, which later additions do not change.
type View struct {
	// Window is the number of the window. In a view to date, it is the highest window delivered.
	Window uint32
	// PeakInFlight is the sum of the agents' peaks of requests in flight during the window: exact for one agent,
	// otherwise an upper bound.
	PeakInFlight uint64
	// Total is everything that the agents of the load measured.
	Total Measured
	// Regions are all regions of the stage, sorted by name. In the view of a window, they are those with measurements.
	Regions []Part
	// Agents are those with measurements, sorted by name. The processes of one name are merged.
	Agents []Part
	// Endpoints are the first shownEndpoints endpoints of the target, in their order. In the view of a window, they are
	// those with measurements. Their names are their base URLs, without a password.
	Endpoints []Part
	// Parts are the parts of the mixture, in their order. Nil: there is no mixture.
	Parts []Part
	// Servers are the server metrics of a window, sorted by source, name and labels. A view to date has none.
	Servers []servermetrics.Value
}

// shownEndpoints is the largest number of endpoints in a view. Most targets have fewer.
const shownEndpoints = 64

// Part is what was measured in a region, by an agent, at an endpoint, or with a part of the mixture.
type Part struct {
	// Name of the region, agent, endpoint or part.
	Name string
	// Region of the agent, or the region itself. Empty for an endpoint and for a part.
	Region string
	// Measured is what was measured.
	Measured Measured
}

// Measured holds counts and summaries of values.
type Measured struct {
	// Windows is the largest number of windows in one snapshot. If it is above 1 in the view of a window, the counts
	// cover more than a second, because an agent merged its windows while the coordinator was unreachable.
	Windows uint32
	// Counters are the counts of events.
	Counters *spatev1.Counters
	// Errors are the numbers of failures, by their names in results.json.
	Errors map[string]uint64
	// Summaries are those of metrics with values, in the order of the protocol. Agents, endpoints and the windows of
	// regions keep only the main metrics.
	Summaries []MetricSummary
}

// MetricSummary summarizes the values of a metric.
type MetricSummary struct {
	// Metric is the metric of the values.
	Metric spatev1.Metric
	histogram.Summary
	// Buckets are the values in exponential buckets. Nil in views of single windows, and of agents.
	Buckets *histogram.Exponential
}

// Summary returns the summary of a metric, or nil if there are no values.
func (m Measured) Summary(metric spatev1.Metric) *histogram.Summary {
	for i := range m.Summaries {
		if m.Summaries[i].Metric == metric {
			return &m.Summaries[i].Summary
		}
	}
	return nil
}

// InputTokens returns the input tokens of completed requests, or nil if some of these had no usage: the sum of the
// others would be too small.
func InputTokens(c *spatev1.Counters) *uint64 {
	if c.GetWithoutUsage() > 0 {
		return nil
	}
	return new(c.GetInputTokens())
}

// OutputTokens returns the output tokens of completed requests, or nil if those of some are not known.
func OutputTokens(c *spatev1.Counters) *uint64 {
	if c.GetUncountedOutputs() > 0 {
		return nil
	}
	return new(c.GetOutputTokens())
}

// Throughputs returns the rates over a time in seconds of completed requests, their output tokens, and their input and
// output tokens. A rate that is not known is nil.
func Throughputs(c *spatev1.Counters, seconds *float64) (requests, output, total *float64) {
	if seconds == nil || *seconds <= 0 {
		return nil, nil, nil
	}
	rate := func(count uint64) *float64 { r := float64(count) / *seconds; return &r }
	known := OutputTokens(c)
	if known != nil {
		output = rate(*known)
	}
	if input := InputTokens(c); input != nil && known != nil {
		total = rate(*input + *known)
	}
	return rate(c.GetCompleted()), output, total
}

// patience is how many windows an agent may be behind the foremost agent before views stop waiting for it.
const patience = 10

// Window returns what was measured in a window so far. It returns false if nothing was delivered, or if the window was
// forgotten or hidden.
func (s *Stage) Window(number uint32) (View, bool) {
	s.lock()
	defer s.mu.Unlock()
	v, live := s.viewOf(number)
	if live == nil {
		return v, false
	}
	v.Agents, v.Endpoints = live.agentParts(), s.endpointParts(live.endpoints[:], (*Tally).Measured)
	v.Parts = s.mixtureParts(live.parts, (*Tally).Measured)
	v.Servers = s.sums.Servers.Window(number, s.sums.Target)
	return v, true
}

// viewOf returns a window as a whole and by region, and what can still be viewed of it. Nil: nothing.
func (s *Stage) viewOf(number uint32) (View, *liveWindow) {
	w := s.sums.Windows[number]
	if w == nil || w.live == nil {
		return View{}, nil
	}
	return View{Window: number, PeakInFlight: s.sums.InFlight(int(number)), Total: w.live.total.Measured(),
		Regions: regionParts(w.live.regions, (*Tally).Measured)}, w.live
}

// WindowWithin is Window without endpoints, parts and servers, and without agents if there are more than a number.
func (s *Stage) WindowWithin(number uint32, agents int) (View, bool) {
	s.lock()
	defer s.mu.Unlock()
	v, live := s.viewOf(number)
	if live != nil && len(live.agents) <= agents {
		v.Agents = live.agentParts()
	}
	return v, live != nil
}

// agentParts returns what each agent measured in the window, sorted by name.
func (w *liveWindow) agentParts() (parts []Part) {
	scratch := newTally(keyMetrics)
	for name, a := range w.agents {
		parts = append(parts, Part{name, a.region, a.measured(scratch)})
	}
	slices.SortFunc(parts, byName)
	return parts
}

// ToDate returns what was measured in the stage so far.
func (s *Stage) ToDate() View {
	s.lock()
	defer s.mu.Unlock()
	return s.toDate()
}

// toDate is ToDate. The caller must hold the lock.
func (s *Stage) toDate() View {
	v := s.withoutAgents()
	v.Agents = s.agentParts()
	return v
}

// ToDateWithoutAgents is ToDate without the parts of single agents, which take most of its time if there are many.
func (s *Stage) ToDateWithoutAgents() View {
	s.lock()
	defer s.mu.Unlock()
	return s.withoutAgents()
}

// withoutAgents is ToDateWithoutAgents. The caller must hold the lock.
func (s *Stage) withoutAgents() View {
	v := View{
		Total: s.sums.Total.bucketed(), Regions: regionParts(s.sums.Regions, (*Region).bucketed),
		Endpoints: s.endpointParts(s.sums.Endpoints[:min(len(s.sums.Endpoints), shownEndpoints)], (*Tally).bucketed),
		Parts:     s.mixtureParts(s.sums.Parts, (*Tally).bucketed),
	}
	for _, a := range s.sums.Agents {
		if a.snapshots > 0 {
			v.Window = max(v.Window, uint32(len(a.peaks)-1))
		}
	}
	v.PeakInFlight = s.sums.InFlight(int(v.Window))
	return v
}

// agentParts returns the agents with snapshots. The processes of one name are merged.
func (s *Stage) agentParts() (parts []Part) {
	memory, processes := newTally(keyMetrics), make(map[string][]*Agent)
	for key, a := range s.sums.Agents {
		if a.snapshots > 0 {
			processes[key.Name] = append(processes[key.Name], a)
		}
	}
	for name, of := range processes {
		sum, region := of[0].whole(memory), of[0].RegionName
		if len(of) > 1 {
			sum = newTally(keyMetrics)
			for _, a := range of {
				sum.Include(a.whole(memory))
				region = min(region, a.RegionName)
			}
		}
		parts = append(parts, Part{name, region, sum.Measured()})
	}
	slices.SortFunc(parts, byName)
	return parts
}

// regionParts returns copies of the tallies of regions, sorted by name.
func regionParts[T any](regions map[string]T, measured func(T) Measured) (parts []Part) {
	for name, t := range regions {
		parts = append(parts, Part{name, name, measured(t)})
	}
	slices.SortFunc(parts, byName)
	return parts
}

// endpointParts returns copies of the tallies of endpoints that have one.
func (s *Stage) endpointParts(tallies []*Tally, measured func(*Tally) Measured) (parts []Part) {
	for i, t := range tallies {
		if t != nil {
			name := naming.Redacted(s.sums.Target.GetEndpoints()[i])
			parts = append(parts, Part{Name: name, Measured: measured(t)})
		}
	}
	return parts
}

// mixtureParts returns copies of the tallies of the mixture's parts.
func (s *Stage) mixtureParts(tallies []*Tally, measured func(*Tally) Measured) (parts []Part) {
	for i, t := range tallies {
		parts = append(parts, Part{Name: s.sums.partNames[i], Measured: measured(t)})
	}
	return parts
}

func byName(a, b Part) int { return cmp.Compare(a.Name, b.Name) }

// Measured returns a copy of a tally, with its values summarized.
func (t *Tally) Measured() Measured {
	m := Measured{Windows: t.windows, Counters: t.countersNow(), Errors: t.ErrorCounts()}
	for _, metric := range measure.Metrics() {
		if d := t.Summary(metric.ID); d != nil && !metric.Raw {
			m.Summaries = append(m.Summaries, MetricSummary{Metric: metric.ID, Summary: *d})
		}
	}
	return m
}

// bucketed is Measured with the values in buckets.
func (t *Tally) bucketed() Measured {
	m := t.Measured()
	for i, s := range m.Summaries {
		m.Summaries[i].Buckets = t.Values[s.Metric].Exponential(measure.Of(s.Metric).Unit)
	}
	return m
}

// Total returns what was measured in the stage so far, as a whole: ToDate without its parts.
func (s *Stage) Total() Measured {
	s.lock()
	defer s.mu.Unlock()
	return s.sums.Total.Measured()
}

// Arrivals are the frames that arrived in a second and may carry a token, and their tokens. Tokens is nil if running
// usage does not cover all of these frames.
type Arrivals struct {
	Frames float64
	Tokens *float64
	// Completed is the number of measured requests that completed.
	Completed float64
}

// Arrivals returns the arrivals of a window, forgotten or not. A snapshot of several windows counts for its last window
// only, with the mean per window.
func (s *Stage) Arrivals(window uint32) Arrivals {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.sums.Windows[window]
	switch {
	case w == nil:
		return Arrivals{Tokens: new(float64)}
	case w.uncountedFrames > 0:
		return Arrivals{Frames: w.framesPerSecond, Completed: w.completedPerSecond}
	}
	return Arrivals{Frames: w.framesPerSecond, Tokens: new(w.tokensPerSecond), Completed: w.completedPerSecond}
}

// HideWindows saves the work for views of single windows that are not read. From now on Window returns false.
func (s *Stage) HideWindows() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = true
	for _, w := range s.sums.Windows {
		w.live = nil
	}
	clear(s.toDates)
}

// HideToDates saves the work for views to date by window that are not read. Call it before the first snapshot is added.
func (s *Stage) HideToDates() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undated = true
}

// Forget discards the views of single windows up to and including through. Their measurements stay in the stage's sums.
func (s *Stage) Forget(through uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := range s.toDates {
		if number <= through {
			delete(s.toDates, number)
		}
	}
	for ; s.forgotten <= through && s.forgotten <= measure.MaxWindow; s.forgotten++ {
		if w := s.sums.Windows[s.forgotten]; w != nil {
			w.live = nil
		}
	}
}

// Waiting returns the names of the agents that have not delivered a window yet, sorted. An agent delivers
// its windows in order and sends its totals last. Waiting leaves out agents that failed, were lost or had not joined.
// It returns nil if any agent is patience windows or more ahead: those behind may be lost. What they deliver later is
// in the sums to date.
func (s *Stage) Waiting(window uint32) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums.delivered() > int(window)+patience {
		return nil
	}
	return s.behind(window)
}

// behind returns the names of the agents that have still to deliver a window, sorted.
func (s *Stage) behind(window uint32) (names []string) {
	for key, a := range s.sums.Agents {
		if a.lacks(window) {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// delivered returns how many windows the foremost agent has delivered.
func (s *Sums) delivered() (windows int) {
	for _, a := range s.Agents {
		windows = max(windows, len(a.peaks))
	}
	return windows
}

// lacks reports whether the agent has still to deliver a window.
func (a *Agent) lacks(window uint32) bool {
	return a.Totals == nil && a.Loss == nil && !a.failed && a.startsIn() <= window && len(a.peaks) <= int(window)
}

// Views of a stage to date, by window. A view is read shortly after the last agent has delivered a window. If the first
// snapshot of the next window arrives before that, the view is saved.

// ToDateOf returns what was measured from the stage's start to the end of a window. It returns false if that is not
// known, because a snapshot of a later window arrived before all of this window had.
func (s *Stage) ToDateOf(window uint32) (View, bool) {
	s.lock()
	defer s.mu.Unlock()
	if v, ok := s.toDates[window]; ok {
		return v, true
	}
	if s.highest != window {
		return View{}, false
	}
	v := s.toDate()
	return v, v.Window == window
}

// advance must be called before a snapshot is merged. If the snapshot is the first of a new window, and the window
// before is fully delivered and not forgotten, advance saves the view to date for ToDateOf. It saves none if windows
// or views to date are hidden.
func (s *Stage) advance(window uint32) {
	if window <= s.highest {
		return
	}
	before := s.highest
	s.highest = window
	if before < s.forgotten || s.hidden || s.undated || s.sums.Windows[before] == nil || len(s.behind(before)) > 0 {
		return
	}
	s.settle()
	s.toDates[before] = s.toDate()
}
