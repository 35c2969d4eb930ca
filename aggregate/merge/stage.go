// Package merge merges what agents measured.
//
// A Stage merges the snapshots of one stage while the stage runs. The coordinator checks each snapshot (Check), appends
// it to the ledger and adds it here as it arrives. All sums are exact integers and all percentiles come from merged
// histograms, so the sums depend only on the set of snapshots, never on the order in which they arrived.
//
// A Stage has three readers: Views show windows and the stage to date, the methods in decisions.go are what the rules
// of a plan depend on, and Read gives package results the sums. The package does not use the network or read a clock.
package merge

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage merges the snapshots of one stage. The sums are exact, so the order of snapshots does not matter. The caller
// must not add a snapshot twice (Ledger.Append reports which are new). All methods may be called concurrently.
//
// Memory is bounded by the number of agents, regions and endpoints, plus some 200 bytes for each window. The histograms
// of single windows stay until Forget or HideWindows.
type Stage struct {
	index uint32

	mu        sync.Mutex
	sums      Sums
	forgotten uint32 // lower windows have no histograms any more
	hidden    bool   // no window has histograms
	undated   bool   // no views to date are saved
	packers   packers
	held      held            // not in the tallies yet; see lock
	highest   uint32          // highest window delivered
	toDates   map[uint32]View // views to date at the ends of windows, see advance

	watch Watch
}

// Watch is called with the values of one metric that an agent of the load measured in a window at one endpoint. It must
// not call methods of the stage.
type Watch func(window uint32, m spatev1.Metric, values histogram.Encoded)

// Sums holds the merged measurements of a stage. See Stage.Read.
type Sums struct {
	// Target is the target of the stage.
	Target *spatev1.Target
	// Total is what all agents measured. Regions are what the agents of each region measured, and Endpoints what they
	// measured at each endpoint of the target.
	Total     *Tally
	Regions   map[string]*Region
	Endpoints []*Tally
	// Turns are what they measured by class of turns (measure.TurnClass), as far as there is any.
	Turns []*Tally
	// Parts are what they measured with each part of the mixture. Nil: there is no mixture.
	Parts []*Tally
	// Agents are the agents of the load, Windows the windows that they delivered.
	Agents  map[AgentKey]*Agent
	Windows map[uint32]*Window
	// Servers has the server metrics.
	Servers servermetrics.Metrics

	spans     []span
	closed    bool // the load is a closed loop
	partNames []string
}

// AgentKey identifies an agent's process.
type AgentKey struct {
	// Name is the agent's name, Incarnation the number of its process.
	Name        string
	Incarnation uint64
}

// NewStage returns an empty Stage for the stage of a record. The agents of the record may contribute.
func NewStage(rec *spatev1.StageRecord) *Stage {
	s := &Stage{
		index:   rec.GetStage().GetIndex(),
		packers: packers{histogram.New(histogram.Times), histogram.New(histogram.Counts)},
		held:    held{cells: make(map[cell]pending), sum: newTally(measure.All)},
		toDates: make(map[uint32]View),
		sums: Sums{
			Target:  rec.GetStage().GetTarget(),
			closed:  rec.GetStage().GetLoad().GetConcurrency() > 0,
			Total:   newTally(measure.All),
			Regions: make(map[string]*Region),
			Agents:  make(map[AgentKey]*Agent),
			Windows: make(map[uint32]*Window),
		},
	}
	for range rec.GetStage().GetTarget().GetEndpoints() {
		s.sums.Endpoints = append(s.sums.Endpoints, newTally(keyMetrics))
	}
	for _, part := range rec.GetStage().GetWorkload().GetMix().GetParts() {
		s.sums.Parts = append(s.sums.Parts, newTally(measure.All))
		s.sums.partNames = append(s.sums.partNames, part.GetWorkload().GetName())
	}
	s.sums.update(rec)
	return s
}

// Replay merges all snapshots that the ledger has of a stage, and calls watch, unless it is nil, with all values that
// it merges. The returned stage has no views of single windows.
func Replay(l *ledger.Ledger, rec *spatev1.StageRecord, watch Watch) (*Stage, error) {
	stage := NewStage(rec)
	stage.HideWindows()
	stage.watch = watch
	if err := l.Measurements(rec.GetStage().GetIndex(), stage.Add); err != nil {
		return nil, err
	}
	return stage, nil
}

// Read applies a later record of the stage as Update does, and calls fn with what was merged so far. fn must not change
// the sums, nor keep them after it has returned, and must not call methods of the stage.
func (s *Stage) Read(rec *spatev1.StageRecord, fn func(*Sums)) {
	s.lock()
	defer s.mu.Unlock()
	s.sums.update(rec)
	fn(&s.sums)
}

// Update applies a later record of the stage: agents that joined may contribute from now on, and snapshots of lost
// agents are ignored from the window in the record. Call it before adding snapshots that depend on the record.
func (s *Stage) Update(rec *spatev1.StageRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums.update(rec)
}

// update applies a record.
func (s *Sums) update(rec *spatev1.StageRecord) {
	for _, assigned := range rec.GetAgents() {
		name := assigned.GetAgent().GetRegion()
		if s.Regions[name] == nil {
			s.Regions[name] = newRegion(len(s.Endpoints))
		}
		a := s.Agents[keyOf(assigned)]
		if a == nil {
			a = &Agent{Tally: *newTally(0), RegionName: name, region: s.Regions[name]}
			s.Agents[keyOf(assigned)] = a
		}
		a.Joined, a.Loss, a.failed = assigned.GetJoinedNs(), assigned.GetLoss(), assigned.GetFailure() != ""
		a.Left = assigned.LeftNs
	}
}

// HasUncounted reports whether a snapshot was merged that does not count by a later record: it came while the loss of
// its agent was being decided.
func (s *Stage) HasUncounted(rec *spatev1.StageRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(rec.GetAgents(), func(a *spatev1.AssignedAgent) bool {
		of, loss := s.sums.Agent(a), a.GetLoss()
		return of != nil && loss != nil && len(of.peaks) > int(loss.GetFromWindow())
	})
}

// Agent returns what an assigned agent delivered.
func (s *Sums) Agent(assigned *spatev1.AssignedAgent) *Agent { return s.Agents[keyOf(assigned)] }

// keyOf returns the key of an assigned agent's process.
func keyOf(a *spatev1.AssignedAgent) AgentKey {
	return AgentKey{a.GetAgent().GetName(), a.GetIncarnation()}
}

// Add merges a snapshot that has passed Check. On an error, nothing of it is merged. A lost agent's snapshot
// that does not belong to the result is ignored without an error.
func (s *Stage) Add(snapshot *spatev1.Snapshot) error {
	decoded, err := s.decode(snapshot)
	if err != nil {
		return fmt.Errorf("merge %s into stage %d: %w", ledger.KeyText(snapshot.GetKey()), s.index+1, err)
	}
	return s.AddChecked(Checked{snapshot, decoded})
}

// AddChecked merges a snapshot of this stage that has passed Check. On an error, nothing of it is merged. A lost
// agent's snapshot that does not belong to the result is ignored without an error.
func (s *Stage) AddChecked(c Checked) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.merge(c.snapshot, c.decoded); err != nil {
		return fmt.Errorf("merge %s into stage %d: %w", ledger.KeyText(c.snapshot.GetKey()), s.index+1, err)
	}
	return nil
}

// decode checks the distributions of all series of a snapshot, and of its turns.
func (s *Stage) decode(snapshot *spatev1.Snapshot) (decoded [][]part, err error) {
	turns, err := checkAllSeries(snapshot.GetTurns(), measure.TurnClasses, 1)
	if err != nil {
		return decoded, fmt.Errorf("turns: %w", err)
	}
	for _, series := range snapshot.GetSeries() {
		if int64(series.GetEndpoint()) >= int64(len(s.sums.Endpoints)) {
			return decoded, fmt.Errorf("endpoint %d: the target has %d", series.GetEndpoint(), len(s.sums.Endpoints))
		}
		if parts := max(1, len(s.sums.Parts)); int64(series.GetPart()) >= int64(parts) {
			return decoded, fmt.Errorf("part %d: the workload has %d", series.GetPart(), parts)
		}
		parts, err := decode(series.GetDistributions())
		decoded = append(decoded, parts)
		if err != nil {
			return decoded, fmt.Errorf("endpoint %d: %w", series.GetEndpoint(), err)
		}
	}
	return append(decoded, turns...), nil
}

// errStranger refuses a snapshot of another stage, or of an agent that takes no part.
var errStranger = errors.New("the snapshot does not belong to it")

// merge merges a decoded snapshot. s.mu is held.
func (s *Stage) merge(snapshot *spatev1.Snapshot, decoded [][]part) error {
	if snapshot.GetStageIndex() != s.index || snapshot.GetWindow() > measure.MaxWindow {
		return errStranger
	}
	key := AgentKey{snapshot.GetKey().GetAgent(), snapshot.GetKey().GetIncarnation()}
	agent := s.sums.Agents[key]
	if agent == nil {
		return errStranger
	}
	if !beforeLoss(agent.Loss, snapshot) {
		return nil
	}
	if s.sums.Total.full() || agent.region.full() {
		return histogram.ErrFull
	}
	s.advance(snapshot.GetWindow())
	agent.deliver(snapshot)
	s.sums.Servers.Add(snapshot)
	if first := measure.FirstWindow(snapshot); first < snapshot.GetWindow() {
		s.sums.spans = append(s.sums.spans, span{first, snapshot.GetWindow()})
	}
	s.mergeSeries(agent, snapshot, decoded)
	s.sums.addTurns(snapshot, decoded[len(snapshot.GetSeries()):])
	s.window(snapshot.GetWindow()) // a window without measurements counts as delivered, too
	for _, share := range snapshot.GetShares() {
		s.window(share.GetWindow()).WindowShare.add(share)
	}
	return nil
}

// mergeSeries merges the measurements of an agent by part and endpoint.
func (s *Stage) mergeSeries(agent *Agent, snapshot *spatev1.Snapshot, decoded [][]part) {
	for i, series := range snapshot.GetSeries() {
		at := place{
			first: measure.FirstWindow(snapshot), window: snapshot.GetWindow(), agent: snapshot.GetKey().GetAgent(),
			sequence: snapshot.GetKey().GetSequence(), endpoint: series.GetEndpoint(),
		}
		agent.add(series, decoded[i], at, s.packers)
		s.window(at.window).add(series, decoded[i], at, agent.RegionName)
		s.hold(cell{agent.region, agent.RegionName, s.shown(at.window), at.endpoint, series.GetPart()},
			pendingSeries{series, decoded[i], at})
		if s.watch == nil {
			continue
		}
		for _, p := range decoded[i] {
			s.watch(at.window, p.metric, p.values)
		}
	}
}

// addTurns adds the measurements by turn of a snapshot.
func (s *Sums) addTurns(snapshot *spatev1.Snapshot, decoded [][]part) {
	for i, series := range snapshot.GetTurns() {
		for len(s.Turns) <= int(series.GetEndpoint()) {
			s.Turns = append(s.Turns, newTally(turnMetrics))
		}
		s.Turns[series.GetEndpoint()].add(series, decoded[i], place{window: snapshot.GetWindow()})
	}
}

// window returns a window's tally. It is live unless the window has been forgotten or windows are hidden.
func (s *Stage) window(number uint32) *Window {
	w := s.sums.Windows[number]
	if w == nil {
		w = &Window{}
		if number >= s.forgotten && !s.hidden {
			w.live = newLiveWindow(len(s.sums.Parts))
		}
		s.sums.Windows[number] = w
	}
	return w
}

// InFlight returns the sum of the agents' peaks in a window.
func (s *Sums) InFlight(window int) (sum uint64) {
	for _, a := range s.Agents {
		if window < len(a.peaks) {
			sum += uint64(a.peaks[window])
		}
	}
	return sum
}

// Delivered returns how many agents delivered a window.
func (s *Sums) Delivered(window uint32) (agents uint64) {
	for _, a := range s.Agents {
		if a.startsIn() <= window && int(window) < len(a.peaks) {
			agents++
		}
	}
	return agents
}

// Values returns the stage's merged values of a metric, or nil if there are none. The caller must not change them, nor
// use them while snapshots are still being added.
func (s *Stage) Values(m spatev1.Metric) *histogram.Histogram {
	s.lock()
	defer s.mu.Unlock()
	return s.sums.Total.Values[m]
}
