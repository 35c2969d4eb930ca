package aggregate

import (
	"fmt"
	"sync"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage merges the snapshots of one stage. The sums are exact, so the order of snapshots does not matter. The caller
// must not add a snapshot twice (Ledger.Append reports which are new). All methods may be called concurrently.
//
// What observers measure is kept separately: only Views and the observers of results contain it.
//
// Memory is bounded by the number of agents, regions and endpoints, plus some 200 bytes for each window. The histograms
// of single windows stay until Forget or HideWindows.
type Stage struct {
	index  uint32
	target *spatev1.Target

	mu        sync.Mutex
	total     *tally
	endpoints []*tally
	regions   map[string]*regionTally
	agents    map[agentKey]*agentTally // without observers
	windows   map[uint32]*windowTally
	spans     []span
	forgotten uint32 // lower windows have no histograms any more
	hidden    bool   // no window has histograms
	packers   packers
	foremost  uint32          // highest window delivered, by agents or observers
	dates     map[uint32]View // views to date at the ends of windows, see advance

	watched   map[string]*regionTally      // by region: what observers measured
	observers map[agentKey]*agentTally     // agents that send a light load beside the stage's
	lights    map[uint32]map[string]*tally // observers' windows that can still be viewed, by region

	servers servers // server metrics
}

// agentKey identifies an agent's process.
type agentKey struct {
	name        string
	incarnation uint64
}

// span is the windows from first through last of one snapshot that holds several.
type span struct{ first, last uint32 }

// NewStage returns an empty Stage for the stage of a record. The agents of the record may contribute.
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

// Update applies a later record of the stage: agents that joined may contribute from now on, and snapshots of lost
// agents are ignored from the window in the record. Call it before adding snapshots that depend on the record.
func (s *Stage) Update(rec *spatev1.StageRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(rec)
}

// update is Update. The caller must hold the lock.
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

// keyOf returns the key of an assigned agent's process.
func keyOf(a *spatev1.AssignedAgent) agentKey {
	return agentKey{a.GetAgent().GetName(), a.GetIncarnation()}
}

// find returns an agent and whether it is an observer, or nil if it takes no part. The caller must hold the lock.
func (s *Stage) find(key agentKey) (a *agentTally, observes bool) {
	if a := s.agents[key]; a != nil {
		return a, false
	}
	a = s.observers[key]
	return a, a != nil
}

// takesPart reports whether an agent takes part.
func (s *Stage) takesPart(key agentKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, _ := s.find(key)
	return a != nil
}

// Add merges a snapshot that has passed CheckSnapshot. On an error, nothing of it is merged. A lost agent's snapshot
// that is not Taken is ignored without an error.
func (s *Stage) Add(snapshot *spatev1.Snapshot) error {
	decoded, err := s.decode(snapshot)
	if err != nil {
		return fmt.Errorf("merge %s into stage %d: %w", ledger.KeyText(snapshot.GetKey()), s.index+1, err)
	}
	return s.AddChecked(Checked{snapshot, decoded})
}

// AddChecked merges a snapshot of this stage that has passed Check. On an error, nothing of it is merged. A lost
// agent's snapshot that is not Taken is ignored without an error.
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
		s.window(snapshot.GetWindow()) // a window without measurements counts as delivered, too
		for _, share := range snapshot.GetShares() {
			s.window(share.GetWindow()).windowShare.add(share)
		}
	}
	return nil
}

// window returns a window's tally. It is live unless the window has been forgotten or windows are hidden.
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

// addLight merges what an observer measured at one endpoint into a window, if the window can still be viewed.
func (s *Stage) addLight(region string, series *spatev1.Series, parts []part, at place) {
	if at.window < s.forgotten || s.hidden {
		return
	}
	if s.lights[at.window] == nil {
		s.lights[at.window] = make(map[string]*tally)
	}
	addTo(s.lights[at.window], region, regionMetrics).add(series, parts, at)
}

// inFlight returns the sum of the agents' peaks in a window.
func (s *Stage) inFlight(window int) (sum uint64) {
	for _, a := range s.agents {
		if window < len(a.peaks) {
			sum += uint64(a.peaks[window])
		}
	}
	return sum
}

// Values returns the stage's merged values of a metric, or nil if there are none. The caller must not change them, nor
// use them while snapshots are still being added.
func (s *Stage) Values(m spatev1.Metric) *histogram.Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.values[m]
}
