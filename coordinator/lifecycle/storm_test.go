package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// storm is a run with a model of its agents and of the shell, in virtual time. Whatever breaks, no item may be counted
// twice, and items that are not counted must be reported as missing.
type storm struct {
	t       *rapid.T
	run     *lifecycle.Run
	at      clock.Instant
	open    bool
	policy  string
	steady  bool // warm-ups last until the load is steady
	until   bool // stages end once a percentile is known
	items   int
	length  time.Duration // of an open loop
	prepare time.Duration
	delay   time.Duration // of messages to agents
	workers []*worker     // newest process of each agent
	old     []*worker     // replaced processes that may still run
	stages  map[uint32]*tally
	finish  *lifecycle.Finish

	cfg        lifecycle.Config
	plan       []*spatev1.Stage
	checkpoint *spatev1.Checkpoint
	snapshots  []*spatev1.Snapshot
	trouble    bool // anything was broken
	reading    bool // the coordinator reads its ledger, and only answers heartbeats
}

// tally is the result of a stage.
type tally struct {
	record  *spatev1.StageRecord
	counted []int
	parcels []*parcel // that count
	begun   []int     // how often any process started an item
	whole   map[string]bool
	// revision at the regular end of an assignment, by process, for processes whose snapshots all came
	regular map[string]uint32
}

const step = 100 * time.Millisecond

// due returns when items of an open loop are due, nil for a closed loop.
func (w *storm) due() func(int) int64 {
	if !w.open {
		return nil
	}
	return func(i int) int64 { return int64(i) * int64(w.length) / int64(w.items) }
}

// beyond reports whether an item comes after the end of an open loop that was measured from an offset on.
func (w *storm) beyond(item int, from *int64) bool {
	return w.steady && w.open && from != nil && w.due()(item) >= *from+int64(w.length)/2
}

func newStorm(t *rapid.T) *storm {
	w := &storm{
		t: t, at: clock.Instant(time.Hour), open: rapid.Bool().Draw(t, "open"), items: 150, length: 30 * time.Second,
		stages: map[uint32]*tally{}, steady: rapid.Bool().Draw(t, "steady"),
		until:   rapid.IntRange(0, 3).Draw(t, "until") == 0,
		policy:  rapid.SampledFrom([]string{"fail", "degrade", "reassign", "reassign"}).Draw(t, "policy"),
		prepare: time.Duration(rapid.IntRange(0, 15).Draw(t, "prepare")) * step,
		delay:   time.Duration(rapid.SampledFrom([]int{0, 0, 1, 5, 20, 50}).Draw(t, "delay")) * step,
	}
	load := &spatev1.LoadPoint{Rate: 5, Arrival: "constant", Duration: durationpb.New(w.length)}
	if !w.open {
		w.items, load = 400, &spatev1.LoadPoint{Concurrency: 8, Requests: 400}
	}
	if w.steady {
		load.WarmupUntilSteady = durationpb.New(w.length / 2)
		if w.open {
			load.Duration = durationpb.New(w.length / 2)
		}
	}
	if w.until {
		load.Until = &spatev1.Precision{Metric: "ttft", Percentile: 50, Within: 0.5, Confidence: 0.95}
	}
	var plan []*spatev1.Stage
	for i := range 2 {
		st := &spatev1.Stage{
			Index: uint32(i), Target: &spatev1.Target{Name: "east"}, Workload: &spatev1.Workload{Name: "w"},
			Load: proto.CloneOf(load), OnAgentLoss: w.policy,
		}
		for range rapid.IntRange(0, 3).Draw(t, "servers to read") {
			st.Target.Endpoints = append(st.Target.Endpoints, "http://e")
		}
		if rapid.IntRange(0, 3).Draw(t, "regions") == 0 {
			st.Regions = map[string]float64{"eu": 0.7, "us": 0.3}
		}
		if rapid.IntRange(0, 3).Draw(t, "pause") == 0 {
			st.Pause = durationpb.New(5 * time.Second)
		}
		plan = append(plan, st)
	}
	n := rapid.IntRange(1, 5).Draw(t, "agents")
	w.cfg, w.plan = lifecycle.Config{MinAgents: max(1, n-1)}, plan
	w.run = lifecycle.New(w.cfg, "r", plan, w.at, time.Unix(0, 0))
	for i := range n {
		w.add(i)
	}
	return w
}

// add starts an agent's process.
func (w *storm) add(i int) {
	a := &worker{w: w, renewed: w.at, incarnation: 1, pace: rapid.IntRange(1, 3).Draw(w.t, "pace"),
		late: time.Duration(rapid.IntRange(0, 8).Draw(w.t, "late")) * step, info: &spatev1.AgentInfo{
			Name: string(rune('a' + i)), Region: []string{"eu", "us"}[i%2],
			Weight: uint32(rapid.IntRange(1, 3).Draw(w.t, "weight")),
		}}
	w.workers = append(w.workers, a)
	if w.steady {
		a.slow = time.Duration(rapid.SampledFrom([]int{0, 0, 0, 5, 10, 14}).Draw(w.t, "slow")) * step
	}
	a.connect()
	w.carryOut()
}

// pass lets one step of time pass for all.
func (w *storm) pass() {
	w.at = w.at.Add(step)
	for _, a := range slices.Concat(w.workers, w.old) {
		a.live()
		w.carryOut()
	}
	if w.run.Ended() {
		return
	}
	w.run.Tick(w.at)
	if rec := w.current(); w.steady && rec != nil && rapid.IntRange(0, 99).Draw(w.t, "steady now") == 0 {
		w.run.Observe(w.at, lifecycle.View{StageIndex: rec.GetStage().GetIndex(),
			Frames: []uint64{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}})
	}
	if rec := w.current(); w.until && w.knows(rec) && rapid.IntRange(0, 199).Draw(w.t, "known now") == 0 {
		w.run.Observe(w.at, lifecycle.View{StageIndex: rec.GetStage().GetIndex(),
			Percentile: &lifecycle.Interval{Low: 1, Value: 1, High: 1, Count: 9}})
	}
	w.carryOut()
}

// knows reports whether a stage has measured something.
func (w *storm) knows(rec *spatev1.StageRecord) bool {
	elapsed := w.at.Sub(clock.Instant(time.Hour)) - time.Duration(rec.GetStartTime().AsTime().UnixNano())
	return rec.GetStartTime() != nil &&
		(!w.steady || rec.MeasuredFromNs != nil && elapsed.Nanoseconds() > rec.GetMeasuredFromNs())
}

// carryOut plays the shell: it carries out the machine's effects.
func (w *storm) carryOut() {
	for effects := w.run.Effects(); len(effects) > 0; effects = w.run.Effects() {
		for _, e := range effects {
			switch e := e.(type) {
			case lifecycle.Send:
				w.send(e)
			case lifecycle.PutStage:
				w.put(e.Record)
			case lifecycle.PutCheckpoint:
				w.checkpoint = w.run.Checkpoint()
				if e.Stage != nil {
					w.put(e.Stage)
				}
			case lifecycle.CloseStage:
				w.run.Closed(w.at, w.complete(e.Record), series.Outcome{})
			case lifecycle.Finish:
				w.finish = &e
			}
		}
	}
}

func (w *storm) put(rec *spatev1.StageRecord) {
	s := w.stages[rec.GetStage().GetIndex()]
	if s == nil {
		s = &tally{counted: make([]int, w.items), begun: make([]int, w.items), whole: map[string]bool{},
			regular: map[string]uint32{}}
		w.stages[rec.GetStage().GetIndex()] = s
	}
	for i, h := range s.record.GetHandovers() {
		if len(rec.GetHandovers()) <= i || !proto.Equal(h, rec.GetHandovers()[i]) {
			w.t.Fatalf("handover %d was changed or taken back", i)
		}
	}
	s.record = rec
}

// send queues a message to an agent. An agent that was dropped may only be told to stop.
func (w *storm) send(e lifecycle.Send) {
	i := slices.IndexFunc(w.workers, func(a *worker) bool { return a.info.GetName() == e.Agent })
	a := w.workers[i]
	if e.Message.GetStop() == nil {
		for _, x := range w.current().GetAgents() {
			if x.GetAgent().GetName() == e.Agent && x.GetIncarnation() == a.incarnation &&
				(x.GetFailure() != "" || x.GetLoss() != nil) {
				w.t.Fatalf("%s is dropped (%s) and is sent %v", e.Agent, x.GetFailure(), e.Message)
			}
		}
	}
	if a.connected {
		a.inbox = append(a.inbox, letter{w.at.Add(w.delay + a.slow), proto.CloneOf(e.Message)})
	}
}

// current returns the record of the stage in progress.
func (w *storm) current() *spatev1.StageRecord {
	last := len(w.stages) - 1
	if last < 0 || w.stages[uint32(last)].record.GetEnded() {
		return nil
	}
	return w.stages[uint32(last)].record
}

// push is the shell's intake. It refuses snapshots of assignments that were dropped.
func (w *storm) push(p *parcel) {
	s := w.stages[p.snapshot.GetStageIndex()]
	if s == nil || s.record.GetEnded() {
		return
	}
	key := p.snapshot.GetKey()
	for _, x := range s.record.GetAgents() {
		if x.GetAgent().GetName() != key.GetAgent() || x.GetIncarnation() != key.GetIncarnation() {
			continue
		}
		if x.GetLoss() != nil {
			return
		}
		for _, i := range p.items {
			if s.counted[i]++; s.counted[i] > 1 {
				w.t.Fatalf("item %d is counted twice; handovers %v", i, s.record.GetHandovers())
			}
		}
		s.parcels = append(s.parcels, p)
		if p.snapshot.GetTotals() != nil && p.snapshot.GetTotals().GetFailure() == "" {
			s.whole[fmt.Sprint(key.GetAgent(), key.GetIncarnation())] = true
			if !p.snapshot.GetTotals().GetStopped() {
				s.regular[fmt.Sprint(key.GetAgent(), key.GetIncarnation())] = p.snapshot.GetRevision()
			}
		}
		w.snapshots = append(w.snapshots, p.snapshot)
		w.run.Merged(w.at, p.snapshot)
		return
	}
	w.t.Fatalf("%v is of an agent that does not take part", key)
}

// complete reports whether a stage's result is complete: all totals came, and nothing is missing.
func (w *storm) complete(rec *spatev1.StageRecord) bool {
	s := w.stages[rec.GetStage().GetIndex()]
	for _, x := range rec.GetAgents() {
		if x.GetFailure() != "" || x.GetLoss() != nil ||
			!s.whole[fmt.Sprint(x.GetAgent().GetName(), x.GetIncarnation())] {
			return false
		}
	}
	return rec.GetFailure() == "" && !rec.GetStopped()
}

// disturb breaks or repairs something.
func (w *storm) disturb() {
	a := w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(w.t, "agent")]
	w.trouble = true
	switch action := rapid.SampledFrom([]string{"cut", "cut", "mute", "mend", "mend", "mend", "kill", "restart", "join",
		"stall", "stall", "go on", "go on",
		"deafen", "slow", "coordinator", "coordinator", "fail", "none", "stop"}).Draw(w.t, "action"); action {
	case "cut", "mute":
		if a.connected {
			a.cut(action == "cut")
		}
	case "mend":
		if !a.connected && !a.dead {
			a.connect()
		}
	case "kill":
		if a.connected {
			a.cut(true)
		}
		a.dead = true
	case "stall":
		a.stalled = a.connected
	case "go on":
		a.stalled, a.deaf, a.slow = false, false, 0
	case "slow":
		a.slow = 8 * time.Second
	case "deafen":
		a.deaf = true
	case "fail":
		if a.job != nil && a.job.start != 0 && !a.dead {
			a.end(&spatev1.Totals{Failure: "the agent is shutting down",
				FailureKind: spatev1.FailureKind_FAILURE_KIND_AGENT})
		}
	case "restart":
		w.restart(a)
	case "coordinator":
		w.startAnew()
	case "join":
		if len(w.workers) < 6 {
			w.add(len(w.workers))
		}
	case "stop":
		if rapid.IntRange(0, 9).Draw(w.t, "really") == 0 {
			w.run.Stop(w.at, rapid.Bool().Draw(w.t, "now"))
		}
	}
	w.carryOut()
}

// letOneLeave asks an agent to end, unless it is the last one that can take over.
func (w *storm) letOneLeave() {
	a := w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(w.t, "leaving")]
	others := slices.ContainsFunc(w.workers, func(b *worker) bool { return b != a && !b.leaving && !b.dead })
	if rec := w.current(); !others || len(rec.GetStage().GetRegions()) > 0 {
		return
	}
	a.leaving = true
}

// leftTooLate reports whether an agent may have left a closed loop when all others were about to end: then no agent can
// take over what it left, which its loss or theirs says.
func (w *storm) leftTooLate() bool {
	return !w.open && slices.ContainsFunc(w.workers, func(a *worker) bool { return a.leaving })
}

// restart restarts an agent. Its old process may keep running without a network.
func (w *storm) restart(a *worker) {
	if a.connected {
		a.cut(true)
	}
	w.old = append(w.old, a)
	fresh := &worker{w: w, info: a.info, incarnation: a.incarnation + 1, renewed: w.at, pace: a.pace, late: a.late}
	w.workers[slices.Index(w.workers, a)] = fresh
	fresh.connect()
}

// startAnew kills the coordinator and restarts it. Agents come back at once or later. While the coordinator reads its
// ledger, it answers heartbeats, takes no snapshots, and the machine hears of nothing.
func (w *storm) startAnew() {
	if w.run.Ended() {
		return
	}
	w.reading = true
	for _, a := range w.workers {
		again := a.connected && rapid.IntRange(0, 3).Draw(w.t, "back") > 0
		a.cut(false)
		if again {
			a.connect()
		}
	}
	for range rapid.SampledFrom([]int{0, 0, 20, 150, 400}).Draw(w.t, "reading") {
		w.at = w.at.Add(step)
		for _, a := range slices.Concat(w.workers, w.old) {
			a.live()
		}
	}
	w.reading = false
	m := lifecycle.Memory{Submission: &spatev1.Submission{Plan: w.plan}, Checkpoint: proto.CloneOf(w.checkpoint)}
	if begun := m.Checkpoint.GetBegun(); begun > 0 {
		m.Stage = w.stages[begun-1].record
	}
	m.Delivered = lifecycle.NewDelivered(m.Stage)
	for _, snapshot := range w.snapshots {
		m.Delivered.Add(snapshot)
	}
	var err error
	if w.run, err = lifecycle.Restore(w.cfg, "r", m, w.at, time.Unix(0, 0)); err != nil {
		w.t.Fatal(err)
	}
	w.run.Resume(w.at)
	w.carryOut()
	for _, a := range w.workers {
		if a.connected {
			w.run.Connected(w.at, a.info, a.incarnation, a.resume, a.armed)
			w.carryOut()
		}
	}
}

// check checks the results after the run's end.
func (w *storm) check() {
	for index, s := range w.stages {
		rec := s.record
		if !rec.GetEnded() {
			w.t.Fatalf("the run has ended, stage %d has not", index)
		}
		if rec.GetFailure() != "" || rec.GetStopped() || rec.GetStartTime() == nil {
			if w.finish.Complete {
				w.t.Fatalf("complete, and stage %d is not", index)
			}
			continue
		}
		if rec.GetEnough() == "" { // otherwise it ended before all items had begun
			w.checkMissing(rec, s.counted)
		}
		w.checkMeasured(rec, s.parcels)
	}
}

// checkMeasured checks that what is measured is all that came from one instant on, whichever agent sent it. An agent
// that could not keep that instant is lost.
func (w *storm) checkMeasured(rec *spatev1.StageRecord, parcels []*parcel) {
	for _, p := range parcels {
		lost := slices.ContainsFunc(rec.GetAgents(), func(x *spatev1.AssignedAgent) bool {
			return x.GetAgent().GetName() == p.snapshot.GetKey().GetAgent() &&
				x.GetIncarnation() == p.snapshot.GetKey().GetIncarnation() && x.GetLoss() != nil
		})
		for i, when := range p.when {
			measured := rec.MeasuredFromNs != nil && when >= rec.GetMeasuredFromNs()
			if w.steady && p.measured[i] != measured && (p.measured[i] || !lost) {
				w.t.Fatalf("item %d of %v is measured: %v, and measuring began at %v", p.items[i],
					time.Duration(when), p.measured[i], time.Duration(rec.GetMeasuredFromNs()))
			}
		}
	}
}

// checkMissing checks that each item that was not counted belongs to an assignment whose loss says so.
func (w *storm) checkMissing(rec *spatev1.StageRecord, counted []int) {
	var weights []uint32
	for _, x := range rec.GetAgents() {
		if x.GetJoinedNs() == 0 {
			weights = append(weights, x.GetWeight())
		}
	}
	where := settled(weights, rec.GetHandovers(), w.items, w.due())
	missing := map[uint32]int{}
	for i, x := range where {
		if counted[i] == 0 && !w.beyond(i, rec.MeasuredFromNs) {
			missing[x.rank]++
		}
	}
	for rank, x := range rec.GetAgents() {
		knew, regular := w.stages[rec.GetStage().GetIndex()].regular[fmt.Sprint(x.GetAgent().GetName(),
			x.GetIncarnation())]
		unheard := func(h *spatev1.Handover) bool {
			// it may have been given something
			return h.GetRevision() > knew && rank < len(h.GetWeights()) && h.GetWeights()[rank] > 0
		}
		if x.GetLoss() != nil && missing[uint32(rank)] == 0 && regular &&
			!slices.ContainsFunc(rec.GetHandovers(), unheard) {
			w.t.Fatalf("%s did all that it should, and is said to be lost: %v", x.GetAgent().GetName(), rec)
		}
	}
	for i, x := range where {
		if counted[i] > 0 || w.beyond(i, rec.MeasuredFromNs) {
			continue
		}
		if w.finish.Complete {
			w.t.Fatalf("the run is complete, and item %d is missing", i)
		}
		if rec.GetAgents()[x.rank].GetLoss() == nil {
			w.t.Fatalf("item %d of place %d is missing, and nothing says so: %v", i, x.rank, rec)
		}
	}
}

// Random cuts, mutes, deaths, restarts and newcomers under each policy: nothing is counted twice, missing items are
// reported, agents that were dropped are told nothing but to stop, and the run ends soon after the last disturbance.
func TestWhateverBreaksNothingIsCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newStorm(t)
		quiet := rapid.Bool().Draw(t, "quiet")
		for range 70 {
			for range 10 {
				w.pass()
			}
			switch {
			case w.current() != nil && rapid.IntRange(0, 19).Draw(t, "leave") == 0:
				w.letOneLeave()
			case !quiet && rapid.IntRange(0, 3).Draw(t, "disturb") == 0:
				w.disturb()
			}
		}
		for _, a := range w.workers {
			a.stalled, a.deaf, a.slow = false, false, 0
			if !a.dead && !a.connected {
				a.connect()
				w.carryOut()
			}
		}
		for range 3000 {
			if w.run.Ended() {
				break
			}
			w.pass()
		}
		if !w.run.Ended() {
			t.Fatalf("the run never ends: %v", w.current())
		}
		if !w.trouble && len(w.workers) > 1 && w.delay < 2*time.Second && !w.leftTooLate() &&
			(w.finish == nil || !w.finish.Complete) {
			t.Fatalf("nothing broke, and the run ended as %+v", w.finish)
		}
		w.check()
	})
}
