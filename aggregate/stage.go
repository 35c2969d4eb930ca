package aggregate

import (
	"fmt"
	"sync"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage merges the snapshots of one stage. The sums are exact, so their order does not matter; that no snapshot is added twice
// is the caller's part (Ledger.Append says which are new). All methods may be called concurrently.
//
// Memory is bounded by the number of agents and endpoints and a few bytes for each second; the histograms of single windows
// stay until Forget.
type Stage struct {
	index uint32

	mu        sync.Mutex
	total     *tally
	endpoints []*tally
	regions   map[string]*tally
	agents    map[agentKey]*agentTally
	windows   map[uint32]*windowTally
	forgotten uint32 // windows below have lost their histograms
	hidden    bool   // no window has any
}

// agentKey is an agent's process.
type agentKey struct {
	name        string
	incarnation uint64
}

// agentTally is what came from one agent.
type agentTally struct {
	tally
	region    string
	recorded  [metricCount]uint64 // number of values, also of metrics that the tally does not keep
	snapshots uint64
	first     uint64   // lowest sequence number
	last      uint64   // highest sequence number
	peaks     []uint32 // most requests in flight, by window; as long as the highest window asks for
	totals    *spatev1.Totals
	closing   uint64 // sequence number of the snapshot with the totals
}

// windowTally is what happened in one window.
type windowTally struct {
	started          uint64
	completed        uint64
	ended            uint64 // in any way
	tokensArrived    uint64
	unmeasuredTokens uint64

	unmeasuredStarted, unmeasuredEnded uint64

	live *liveWindow
}

// liveWindow is a window that is still to be shown.
type liveWindow struct {
	total   *tally
	regions map[string]*tally
	agents  map[agentKey]*pending
}

// NewStage returns an empty accumulator for the stage of a record, whose agents are those that may contribute.
func NewStage(rec *spatev1.StageRecord) *Stage {
	s := &Stage{
		index:   rec.GetStage().GetIndex(),
		total:   newTally(allMetrics),
		regions: make(map[string]*tally),
		agents:  make(map[agentKey]*agentTally),
		windows: make(map[uint32]*windowTally),
	}
	for range rec.GetStage().GetTarget().GetEndpoints() {
		s.endpoints = append(s.endpoints, newTally(keyMetrics))
	}
	for _, a := range rec.GetAgents() {
		region := a.GetAgent().GetRegion()
		s.agents[keyOf(a)] = &agentTally{tally: *newTally(keyMetrics), region: region}
		s.regions[region] = newTally(regionMetrics)
	}
	return s
}

// keyOf names an assigned agent's process.
func keyOf(a *spatev1.AssignedAgent) agentKey {
	return agentKey{a.GetAgent().GetName(), a.GetIncarnation()}
}

// Add merges a snapshot that CheckSnapshot has passed. After an error nothing of it was merged.
func (s *Stage) Add(snapshot *spatev1.Snapshot) error {
	decoded, err := s.decode(snapshot)
	if err != nil {
		return fmt.Errorf("merge %s into stage %d: %w", keyText(snapshot.GetKey()), s.index, err)
	}
	return s.AddChecked(Checked{snapshot, decoded})
}

// AddChecked merges a snapshot of this stage that Check has passed. After an error nothing of it was merged.
func (s *Stage) AddChecked(c Checked) error {
	snapshot := c.snapshot
	key := agentKey{snapshot.GetKey().GetAgent(), snapshot.GetKey().GetIncarnation()}
	agent := s.agents[key] // the map itself never changes
	if agent == nil || snapshot.GetStageIndex() != s.index || snapshot.GetWindow() > MaxWindow {
		return fmt.Errorf("merge %s into stage %d: it is no part of it", keyText(snapshot.GetKey()), s.index)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total.full() {
		return fmt.Errorf("merge %s into stage %d: %w", keyText(snapshot.GetKey()), s.index, histogram.ErrFull)
	}
	agent.deliver(snapshot)
	window := s.window(snapshot.GetWindow())
	for i, series := range snapshot.GetSeries() {
		at := place{snapshot.GetWindow(), key.name, snapshot.GetKey().GetSequence(), series.GetEndpoint()}
		s.addSeries(series, c.decoded[i], at, agent)
		window.add(series, c.decoded[i], at, key, agent.region)
	}
	return nil
}

// decode checks the distributions of all series of a snapshot.
func (s *Stage) decode(snapshot *spatev1.Snapshot) (decoded [][]part, err error) {
	for _, series := range snapshot.GetSeries() {
		if int64(series.GetEndpoint()) >= int64(len(s.endpoints)) {
			return decoded, fmt.Errorf("endpoint %d: the target has %d", series.GetEndpoint(), len(s.endpoints))
		}
		parts, err := decode(series.GetDistributions())
		decoded = append(decoded, parts)
		if err != nil {
			return decoded, fmt.Errorf("endpoint %d: %w", series.GetEndpoint(), err)
		}
	}
	return decoded, nil
}

// addSeries merges one endpoint's measurements into the run to date.
func (s *Stage) addSeries(series *spatev1.Series, parts []part, at place, agent *agentTally) {
	for _, t := range []*tally{s.total, s.endpoints[at.endpoint], s.regions[agent.region], &agent.tally} {
		t.add(series, parts, at)
	}
	for _, p := range parts {
		agent.recorded[p.metric] += p.values.Count()
	}
}

// window returns a window's tally, which is live unless the window has been forgotten, or is hidden.
func (s *Stage) window(number uint32) *windowTally {
	w := s.windows[number]
	if w == nil {
		w = &windowTally{}
		if number >= s.forgotten && !s.hidden {
			w.live = newLiveWindow()
		}
		s.windows[number] = w
	}
	return w
}

// newLiveWindow returns a window without measurements.
func newLiveWindow() *liveWindow {
	return &liveWindow{newTally(allMetrics), make(map[string]*tally), make(map[agentKey]*pending)}
}

// add merges one endpoint's measurements into a window.
func (w *windowTally) add(series *spatev1.Series, parts []part, at place, agent agentKey, region string) {
	c := series.GetCounters()
	w.started += c.GetStarted()
	w.completed += c.GetCompleted()
	w.ended += c.GetCompleted() + c.GetFailed() + c.GetCancelled()
	w.tokensArrived += c.GetTokensArrived()
	w.unmeasuredTokens += c.GetUnmeasuredTokensArrived()
	w.unmeasuredStarted += c.GetUnmeasuredStarted()
	w.unmeasuredEnded += c.GetUnmeasuredEnded()
	if w.live == nil {
		return
	}
	if w.live.regions[region] == nil {
		w.live.regions[region] = newTally(regionMetrics)
	}
	if w.live.agents[agent] == nil {
		w.live.agents[agent] = &pending{}
	}
	w.live.total.add(series, parts, at)
	w.live.regions[region].add(series, parts, at)
	w.live.agents[agent].add(series, parts, at)
}

// deliver notes that a snapshot came.
func (a *agentTally) deliver(s *spatev1.Snapshot) {
	sequence := s.GetKey().GetSequence()
	if a.snapshots == 0 || sequence < a.first {
		a.first = sequence
	}
	a.last = max(a.last, sequence)
	if windows := int(s.GetWindow()) + 1; windows > len(a.peaks) {
		a.peaks = append(a.peaks, make([]uint32, windows-len(a.peaks))...)
	}
	peak := &a.peaks[s.GetWindow()]
	*peak = max(*peak, s.GetPeakInFlight())
	a.snapshots++
	if s.GetTotals() != nil {
		a.totals, a.closing = s.GetTotals(), sequence
	}
}

// inFlight is the sum of the agents' peaks in a window.
func (s *Stage) inFlight(window int) (sum uint64) {
	for _, a := range s.agents {
		if window < len(a.peaks) {
			sum += uint64(a.peaks[window])
		}
	}
	return sum
}

// Values returns the stage's merged values of a metric, or nil if there are none. The caller must not change them, nor use them
// while others still add.
func (s *Stage) Values(m spatev1.Metric) *histogram.Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.values[m]
}
