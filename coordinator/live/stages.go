package live

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stages holds the stages of one run that were assigned or skipped, and merges the snapshots of the stages in progress.
// It is safe for concurrent use.
type Stages struct {
	// KeepToDates makes stages keep their views to date by window, which only sinks need. It is set before the first
	// stage.
	KeepToDates bool
	// Whole, of capacity 1, gets a value when as many snapshots as there are agents have come of the newest window, so
	// that it can probably be published at once. Nil: nothing waits for that.
	Whole chan struct{}

	mu     sync.RWMutex // held for look-ups, not for merges
	stages map[uint32]*Stage
}

// Stage is what is known about an assigned or skipped stage.
type Stage struct {
	// Record is never changed, only replaced.
	Record *spatev1.StageRecord

	merged *merge.Stage // nil once the stage has ended
	first  uint32       // first window to be published
	last   uint32       // highest window of any snapshot
	ofLast int          // number of snapshots of it
}

// Put stores a stage's record. The first record of a stage that has not ended starts its merge.
func (s *Stages) Put(rec *spatev1.StageRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.stages[rec.GetStage().GetIndex()]; m != nil {
		if m.merged != nil {
			m.merged.Update(rec)
		}
		m.Record = rec
		return
	}
	m := &Stage{Record: rec}
	if !rec.GetEnded() {
		m.merged = s.newMerge(rec)
	}
	s.add(m)
}

// PutEarlier stores the record of a stage that an earlier coordinator began, without a merge.
func (s *Stages) PutEarlier(rec *spatev1.StageRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(&Stage{Record: rec})
}

// index returns the stage's index in the run.
func (s Stage) index() uint32 { return s.Record.GetStage().GetIndex() }

// add adds a stage. s.mu is held.
func (s *Stages) add(m *Stage) {
	if s.stages == nil {
		s.stages = map[uint32]*Stage{}
	}
	s.stages[m.index()] = m
}

// newMerge starts the merge of a stage.
func (s *Stages) newMerge(rec *spatev1.StageRecord) *merge.Stage {
	merged := merge.NewStage(rec)
	if !s.KeepToDates {
		merged.HideToDates()
	}
	return merged
}

// Get returns a copy of what is known about a stage. It returns false if the stage was neither assigned nor skipped.
func (s *Stages) Get(index uint32) (Stage, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m, ok := s.stages[index]
	if !ok {
		return Stage{}, false
	}
	return *m, true
}

// Plan returns a stage as it was assigned, nil if it was neither assigned nor skipped.
func (s *Stages) Plan(index uint32) *spatev1.Stage {
	m, _ := s.Get(index)
	return m.Record.GetStage()
}

// Records returns the records of all stages by index.
func (s *Stages) Records() map[uint32]*spatev1.StageRecord {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[uint32]*spatev1.StageRecord{}
	for index, m := range s.stages {
		out[index] = m.Record
	}
	return out
}

// Merge merges a snapshot that was checked and is in the ledger. A snapshot of a stage that has ended is not merged: it
// is only in the ledger, where the report finds it.
func (s *Stages) Merge(snapshot *spatev1.Snapshot, checked merge.Checked) error {
	m, _ := s.Get(snapshot.GetStageIndex())
	if m.merged == nil {
		return nil
	}
	err := m.merged.AddChecked(checked)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.stages[snapshot.GetStageIndex()]
	switch w := snapshot.GetWindow(); {
	case w > of.last || of.ofLast == 0:
		of.last, of.ofLast = w, 1
	case w == of.last:
		of.ofLast++
	}
	if of.ofLast == len(of.Record.GetAgents()) {
		select {
		case s.Whole <- struct{}{}:
		default: // it was told
		}
	}
	return err
}

// forget frees a stage's merged measurements. The ledger has its snapshots.
func (s *Stages) forget(index uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages[index].merged = nil
}

// inProgress returns the stage that is being merged, false if there is none.
func (s *Stages) inProgress() (Stage, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.stages {
		if m.merged != nil {
			return *m, true
		}
	}
	return Stage{}, false
}

// republished is how many windows that all agents had delivered are published again after a restart, because the sink
// may have had them only in memory. Points written twice are the same.
const republished = 30

// Rebuild merges the ledger's snapshots of a stage that an earlier coordinator began, and passes each to recall, both
// without request rows. It ends at the first error of recall. Only the last windows are kept to be published. Agent by
// agent, those of 1,000 agents took 100 MB until the last agent was read.
func (s *Stages) Rebuild(l *ledger.Ledger, rec *spatev1.StageRecord, recall func(*spatev1.Snapshot) error) error {
	index, last := rec.GetStage().GetIndex(), windows{}
	m := &Stage{Record: rec, merged: s.newMerge(rec)}
	if err := l.Newest(index, func(snapshot *spatev1.Snapshot) error {
		k := snapshot.GetKey()
		last[merge.AgentKey{Name: k.GetAgent(), Incarnation: k.GetIncarnation()}] = snapshot.GetWindow()
		m.last = max(m.last, snapshot.GetWindow())
		return nil
	}); err != nil {
		return err
	}
	if first := last.common(rec); first > republished {
		m.first = first - republished
		m.merged.Forget(m.first - 1)
	}
	if err := l.ByWindow(index, func(snapshot *spatev1.Snapshot) error {
		return errors.Join(recall(snapshot), m.merged.Add(snapshot))
	}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(m)
	return nil
}

// windows holds the highest window by process.
type windows map[merge.AgentKey]uint32

// common returns the highest window that all of a stage's processes have delivered, 0 if there are no processes.
func (w windows) common(rec *spatev1.StageRecord) uint32 {
	least := uint32(measure.MaxWindow)
	for _, a := range rec.GetAgents() {
		least = min(least, w[merge.AgentKey{Name: a.GetAgent().GetName(), Incarnation: a.GetIncarnation()}])
	}
	if len(rec.GetAgents()) == 0 {
		return 0
	}
	return least
}

// maxHealth bounds the agents whose health is written: each agent is a series in the database.
const maxHealth = 1000

// Health writes the health of the connected agents to a run's sink. One goroutine uses it.
type Health struct {
	// Run is the run's identity.
	Run points.Run
	// Sink takes the points.
	Sink sink.Sink
	// Interval is the time between points of one agent.
	Interval time.Duration
	// Agents returns the connected agents.
	Agents func() []*spatev1.AgentStatus

	next time.Time         // time of the next points
	told map[string]uint64 // number of the last heartbeat written, by agent
}

// Show writes the points of one interval, if the interval has passed. An agent without a new heartbeat gets a point
// that has only its silence.
func (h *Health) Show(now time.Time) {
	if h.Sink == sink.Discard || now.Before(h.next) {
		return
	}
	h.next = now.Add(h.Interval)
	for _, p := range h.bound(h.points(now)) {
		h.Sink.Put(p)
	}
}

// points returns a point for each connected agent.
func (h *Health) points(now time.Time) (out []sink.AgentPoint) {
	told := map[string]uint64{}
	for _, a := range h.Agents() {
		name, silent := a.GetAgent().GetName(), a.GetSilentFor().AsDuration()
		seconds := silent.Seconds()
		p := sink.AgentPoint{
			RunID: h.Run.ID, Plan: h.Run.Plan, Agent: name, Region: a.GetAgent().GetRegion(), Time: now,
			SilentSeconds: &seconds,
		}
		if b := a.GetHeartbeat(); b != nil {
			if told[name] = b.GetNumber(); told[name] != h.told[name] {
				p.Heartbeat, p.Time = b, now.Add(-silent)
			}
		}
		out = append(out, p)
	}
	h.told = told
	return out
}

// bound sorts the agents by name and keeps the first maxHealth.
func (h *Health) bound(all []sink.AgentPoint) []sink.AgentPoint {
	slices.SortFunc(all, func(a, b sink.AgentPoint) int { return cmp.Compare(a.Agent, b.Agent) })
	return all[:min(len(all), maxHealth)]
}
