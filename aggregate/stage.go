package aggregate

import (
	"fmt"
	"sync"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage merges the snapshots of one stage. The sums are exact, so their order does not matter; that no snapshot is
// added twice is the caller's part (Ledger.Append says which are new). All methods may be called concurrently.
//
// What observers measure is kept apart: only Views and results' observers have it.
//
// Memory is bounded by the number of agents, regions and endpoints and a few bytes for each second; the histograms of
// single windows stay until Forget.
type Stage struct {
	index  uint32
	target *spatev1.Target

	mu        sync.Mutex
	total     *tally
	endpoints []*tally
	regions   map[string]*regionTally
	agents    map[agentKey]*agentTally // that send the load
	windows   map[uint32]*windowTally
	spans     []span
	forgotten uint32 // windows below have lost their histograms
	hidden    bool   // no window has any
	packers   packers
	foremost  uint32          // highest window that anything came from, of observers too
	dates     map[uint32]View // to date at the end of windows that are still to be shown, see advance

	watched   map[string]*regionTally      // by region: what observers measured
	observers map[agentKey]*agentTally     // agents that send a light load of their own
	lights    map[uint32]map[string]*tally // windows of observers that are still to be shown, by region

	servers servers // what servers told of themselves
}

// agentKey is an agent's process.
type agentKey struct {
	name        string
	incarnation uint64
}

// span is the windows from first to last that came as one snapshot.
type span struct{ first, last uint32 }

// NewStage returns an empty accumulator for the stage of a record, whose agents are those that may contribute.
func NewStage(rec *spatev1.StageRecord) *Stage {
	s := &Stage{
		index:     rec.GetStage().GetIndex(),
		target:    rec.GetStage().GetTarget(),
		total:     newTally(measure.All),
		regions:   make(map[string]*regionTally),
		agents:    make(map[agentKey]*agentTally),
		windows:   make(map[uint32]*windowTally),
		watched:   make(map[string]*regionTally),
		observers: make(map[agentKey]*agentTally),
		lights:    make(map[uint32]map[string]*tally),
		packers:   newPackers(),
		dates:     make(map[uint32]View),
	}
	for range rec.GetStage().GetTarget().GetEndpoints() {
		s.endpoints = append(s.endpoints, newTally(keyMetrics))
	}
	s.update(rec)
	return s
}

// Update takes in a later record of the stage: agents that joined may contribute from now on, and of those that were
// lost nothing more is taken than the record says. It must come before the snapshots that count on it.
func (s *Stage) Update(rec *spatev1.StageRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(rec)
}

// update is Update under the lock.
func (s *Stage) update(rec *spatev1.StageRecord) {
	for _, assigned := range rec.GetAgents() {
		agents, regions := s.agents, s.regions
		if assigned.GetObserver() {
			agents, regions = s.observers, s.watched
		}
		name := assigned.GetAgent().GetRegion()
		if regions[name] == nil {
			regions[name] = newRegionTally(len(s.endpoints))
		}
		a := agents[keyOf(assigned)]
		if a == nil {
			a = newAgentTally(name, regions[name])
			agents[keyOf(assigned)] = a
		}
		a.joined, a.loss, a.out = assigned.GetJoinedNs(), assigned.GetLoss(), assigned.GetFailure() != ""
	}
}

// keyOf names an assigned agent's process.
func keyOf(a *spatev1.AssignedAgent) agentKey {
	return agentKey{a.GetAgent().GetName(), a.GetIncarnation()}
}

// find returns an agent and whether it is an observer, nil if it takes no part. The caller holds the lock.
func (s *Stage) find(key agentKey) (a *agentTally, observes bool) {
	if a := s.agents[key]; a != nil {
		return a, false
	}
	a = s.observers[key]
	return a, a != nil
}

// takesPart says whether an agent takes part.
func (s *Stage) takesPart(key agentKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, _ := s.find(key)
	return a != nil
}

// Add merges a snapshot that CheckSnapshot has passed. After an error nothing of it was merged, and nothing of one that
// is not Taken.
func (s *Stage) Add(snapshot *spatev1.Snapshot) error {
	decoded, err := s.decode(snapshot)
	if err != nil {
		return fmt.Errorf("merge %s into stage %d: %w", ledger.KeyText(snapshot.GetKey()), s.index+1, err)
	}
	return s.AddChecked(Checked{snapshot, decoded})
}

// AddChecked merges a snapshot of this stage that Check has passed. After an error nothing of it was merged.
func (s *Stage) AddChecked(c Checked) error {
	snapshot := c.snapshot
	key := agentKey{snapshot.GetKey().GetAgent(), snapshot.GetKey().GetIncarnation()}
	if !s.takesPart(key) || snapshot.GetStageIndex() != s.index || snapshot.GetWindow() > MaxWindow {
		return fmt.Errorf("merge %s into stage %d: it is no part of it", ledger.KeyText(snapshot.GetKey()), s.index+1)
	}
	if err := s.merge(key, snapshot, c.decoded); err != nil {
		return fmt.Errorf("merge %s into stage %d: %w", ledger.KeyText(snapshot.GetKey()), s.index+1, err)
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

// merge merges a decoded snapshot.
func (s *Stage) merge(key agentKey, snapshot *spatev1.Snapshot, decoded [][]part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	agent, observes := s.find(key)
	if !takes(agent.loss, snapshot) {
		return nil
	}
	if s.total.full() || agent.region.full() {
		return histogram.ErrFull
	}
	s.advance(snapshot.GetWindow())
	agent.deliver(snapshot)
	s.servers.add(snapshot)
	if first := firstWindow(snapshot); first < snapshot.GetWindow() && !observes {
		s.spans = append(s.spans, span{first, snapshot.GetWindow()})
	}
	for i, series := range snapshot.GetSeries() {
		at := place{
			first: firstWindow(snapshot), window: snapshot.GetWindow(), agent: key.name,
			sequence: snapshot.GetKey().GetSequence(),
			endpoint: series.GetEndpoint(),
		}
		agent.add(series, decoded[i], at, s.packers)
		agent.region.add(series, decoded[i], at)
		if observes {
			s.addLight(agent.regionName, series, decoded[i], at)
			continue
		}
		s.total.add(series, decoded[i], at)
		s.endpoints[at.endpoint].add(series, decoded[i], at)
		s.window(at.window).add(series, decoded[i], at, agent.regionName)
	}
	if !observes {
		s.window(snapshot.GetWindow()) // a window in which nothing happened has been delivered, too
		for _, share := range snapshot.GetShares() {
			s.window(share.GetWindow()).windowShare.add(share)
		}
	}
	return nil
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

// addLight merges what an observer measured at one endpoint into a window that is still to be shown.
func (s *Stage) addLight(region string, series *spatev1.Series, parts []part, at place) {
	if at.window < s.forgotten || s.hidden {
		return
	}
	if s.lights[at.window] == nil {
		s.lights[at.window] = make(map[string]*tally)
	}
	addTo(s.lights[at.window], region, regionMetrics).add(series, parts, at)
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

// Values returns the stage's merged values of a metric, or nil if there are none. The caller must not change them, nor
// use them while others still add.
func (s *Stage) Values(m spatev1.Metric) *histogram.Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.values[m]
}
