package lifecycle_test

import (
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// worker is a model of an agent's process. It keeps its lease, changes its assignment when told, starts the items of
// its assignment, and delivers snapshots when it can. Requests take no time.
type worker struct {
	w           *storm
	info        *spatev1.AgentInfo
	incarnation uint64
	dead        bool
	connected   bool
	leaving     bool          // it was asked to end, and ends when it is released
	stalled     bool          // its control stream is open but carries nothing
	deaf        bool          // its snapshots do not get through
	slow        time.Duration // extra delay of messages to it
	pace        int           // items of a closed loop per step
	late        time.Duration // delay of its snapshots
	inbox       []letter      // messages on their way to it
	renewed     clock.Instant // when it sent the last heartbeat that was answered
	beat        clock.Instant // last heartbeat
	sequence    uint64
	outbox      []*parcel
	resume      *spatev1.AssignmentRef // what it said when it connected
	armed       bool
	job         *job
	over        uint32 // 1 + index of the last stage that it has ended
}

type letter struct {
	at clock.Instant
	m  *spatev1.ConnectResponse
}

// parcel is a snapshot with the items that it covers.
type parcel struct {
	snapshot *spatev1.Snapshot
	items    []int
	when     []int64 // when each item was due or, in a closed loop, began
	measured []bool
	at       clock.Instant
}

// job is an assignment.
type job struct {
	ref       *spatev1.AssignmentRef
	stripe    *spatev1.Stripe
	lease     time.Duration
	until     time.Duration // closed loop: when it leaves
	left      bool          // closed loop: it left something to others
	leaves    bool          // starts nothing that others can take over
	reads     bool          // scrapes servers, so it waits for the others at its end
	ended     clock.Instant // since when it waits; 0: it does not
	asked     clock.Instant // when it last asked whether the others have ended
	ready     clock.Instant
	said      bool
	start     clock.Instant // 0: not armed
	window    uint32
	snapshots uint64
	begun     []int          // items begun in the open window
	when      []int64        // when each of them was due or, in a closed loop, began
	measured  []bool         // whether each of them is measured
	newest    int64          // the latest of all these times; -1: none
	from      *int64         // when measuring begins; nil: not known yet
	measures  bool           // it has
	warm      uint64         // items that are not measured
	started   map[int]bool   // all items that this place began
	where     []holding      // positions of items by the newest stripe
	next      map[int]uint64 // closed loop: first item of each list not begun
}

// live plays one step of the process.
func (a *worker) live() {
	if a.dead {
		return
	}
	for a.connected && !a.stalled && len(a.inbox) > 0 && a.inbox[0].at <= a.w.at {
		m := a.inbox[0].m
		a.inbox = a.inbox[1:]
		a.read(m)
	}
	if a.connected && !a.stalled && a.w.at.Sub(a.beat) >= time.Second {
		a.beat, a.renewed = a.w.at, a.w.at
		if !a.w.reading {
			a.w.run.Heard(a.w.at, a.info.GetName(), &spatev1.Heartbeat{Leaving: a.leaving})
		}
		if a.leaving && !a.w.reading && len(a.outbox) == 0 && a.w.run.Released(a.info.GetName()) {
			a.cut(true)
			a.dead = true
			return
		}
	}
	if a.job != nil {
		a.work()
	}
	for a.connected && !a.deaf && !a.w.reading && len(a.outbox) > 0 && a.outbox[0].at <= a.w.at {
		p := a.outbox[0]
		a.outbox = a.outbox[1:]
		a.w.push(p)
	}
}

// read carries out a message.
func (a *worker) read(m *spatev1.ConnectResponse) {
	j := a.job
	switch {
	case m.GetAssign() != nil:
		a.assign(m.GetAssign())
	case m.GetRevise() != nil:
		a.revise(m.GetRevise())
	case m.GetArm() != nil && j != nil && proto.Equal(j.ref, m.GetArm().GetRef()) && j.start == 0:
		j.start = clock.Instant(m.GetArm().GetStartClockNs())
	case m.GetArm() != nil && j == nil && a.over <= m.GetArm().GetRef().GetStageIndex():
		a.cut(true) // its lease ended before it was armed: it comes back without its assignment
		a.connect()
	case m.GetMeasure() != nil && j != nil && proto.Equal(j.ref, m.GetMeasure().GetRef()):
		from, by := m.GetMeasure().GetFromNs(), m.GetMeasure().AnswerByNs
		late := by != nil && a.w.at.Sub(j.start).Nanoseconds() > *by
		if j.newest < from && (j.from == nil && !late || j.from != nil && j.newest < *j.from) {
			j.from = &from
		}
		answer := &spatev1.Measuring{Ref: j.ref, FromNs: j.from, AskedNs: from}
		if late && j.from != nil && *j.from == from {
			answer.FromNs = nil
		}
		a.w.run.Measuring(a.w.at, a.info.GetName(), answer)
	case m.GetStop() != nil && j != nil && proto.Equal(j.ref, m.GetStop().GetRef()):
		if j.start == 0 {
			a.job = nil
			return
		}
		if m.GetStop().GetLeave() {
			// What it began takes a while to end.
			j.leaves, j.until = true, a.w.at.Sub(j.start)+time.Duration(rapid.IntRange(0, 40).Draw(a.w.t, "rest"))*step
			return
		}
		a.end(&spatev1.Totals{Stopped: !m.GetStop().GetEnough()})
	}
}

func (a *worker) assign(m *spatev1.Assign) {
	j := a.job
	switch {
	case j != nil && proto.Equal(j.ref, m.GetRef()):
		j.said = false
	case j != nil && j.start != 0:
		a.w.run.Rejected(a.w.at, a.info.GetName(), &spatev1.Rejected{Ref: m.GetRef(), Reason: "busy",
			Kind: spatev1.FailureKind_FAILURE_KIND_AGENT})
	default:
		a.job = &job{
			ref: m.GetRef(), stripe: m.GetStripe(), lease: 30 * time.Second, ready: a.w.at.Add(a.w.prepare),
			started: map[int]bool{}, newest: -1,
			next: map[int]uint64{}, reads: len(m.GetServerSources()) > 0,
		}
		if m.GetLease() != nil {
			a.job.lease = m.GetLease().AsDuration()
		}
		a.settle()
	}
}

// revise applies a change, and rejects one that gives away something that this process may have begun.
func (a *worker) revise(m *spatev1.Revise) {
	j := a.job
	reject := func(reason string) {
		a.w.run.Rejected(a.w.at, a.info.GetName(), &spatev1.Rejected{Ref: m.GetRef(), Reason: reason,
			Kind: spatev1.FailureKind_FAILURE_KIND_AGENT})
	}
	if j == nil || j.ref.GetStageIndex() != m.GetRef().GetStageIndex() || j.ended != 0 {
		reject("it is over")
		return
	}
	old, all := j.stripe.GetHandovers(), m.GetStripe().GetHandovers()
	for i, h := range old {
		if !proto.Equal(h, all[i]) {
			a.w.t.Fatalf("handover %d of %s was changed", i, a.info.GetName())
		}
	}
	for _, h := range all[len(old):] {
		if h.GetFromRank() == j.stripe.GetRank() && j.start != 0 &&
			a.w.at >= j.start.Add(time.Duration(h.GetFromNs())) {
			reject("too late")
			return
		}
	}
	j.ref, j.stripe = m.GetRef(), m.GetStripe()
	a.settle()
	a.w.run.Applied(a.w.at, a.info.GetName(), &spatev1.Applied{Ref: j.ref, ClockUncertaintyNs: 1000})
}

func (a *worker) settle() {
	j := a.job
	j.where = settled(j.stripe.GetWeights(), j.stripe.GetHandovers(), a.w.items, a.w.due())
}

// work works on the assignment.
func (a *worker) work() {
	j := a.job
	switch {
	case a.w.at.Sub(a.renewed) >= j.lease && j.start == 0:
		a.job = nil
	case a.w.at.Sub(a.renewed) >= j.lease:
		a.end(&spatev1.Totals{Failure: "the coordinator was gone for longer than the lease",
			FailureKind: spatev1.FailureKind_FAILURE_KIND_AGENT})
	case !j.said && a.w.at >= j.ready:
		if a.connected && !a.stalled {
			if j.said = true; !a.w.reading {
				a.w.run.Applied(a.w.at, a.info.GetName(), &spatev1.Applied{Ref: j.ref, ClockUncertaintyNs: 1000})
			}
		}
	case j.start != 0 && a.w.at >= j.start:
		a.begin()
	}
}

// begin starts the items that are due, and ends the assignment when none are left.
func (a *worker) begin() {
	j, elapsed := a.job, a.w.at.Sub(a.job.start)
	for uint32(elapsed/time.Second) > j.window {
		a.seal(nil)
	}
	left := false
	began := 0
	for i, x := range j.where {
		if x.rank != j.stripe.GetRank() || j.started[i] || a.w.beyond(i, j.from) {
			continue
		}
		if j.leaves && !a.w.open {
			j.left = true
			left = true
			continue
		}
		if due := a.w.due(); due != nil && due(i) > elapsed.Nanoseconds() || due == nil &&
			(x.k < j.next[x.list] || began == a.pace) {
			left = left || due != nil || x.k >= j.next[x.list]
			continue
		}
		began++
		j.started[i], j.next[x.list] = true, x.k+1
		j.begun = append(j.begun, i)
		when := elapsed.Nanoseconds()
		if due := a.w.due(); due != nil {
			when = due(i)
		}
		measured := j.from != nil && when >= *j.from
		j.when, j.measured, j.newest = append(j.when, when), append(j.measured, measured), max(j.newest, when)
		if j.measures = j.measures || measured; !measured {
			j.warm++
		}
	}
	newcomer := int(j.stripe.GetRank()) >= len(j.stripe.GetWeights()) && len(j.started) == 0 && elapsed < a.w.length
	if j.leaves && !a.w.open && elapsed >= j.until {
		a.end(&spatev1.Totals{})
		return
	}
	warm := a.w.steady && elapsed < 45*time.Second && (j.from == nil || elapsed.Nanoseconds() < *j.from)
	if !left && !newcomer && !warm && (j.leaves || a.othersEnded()) {
		a.end(&spatev1.Totals{})
	}
}

// othersEnded reports whether a worker whose load has ended may stop waiting for the others. It asks, and stops asking,
// like agents do.
func (a *worker) othersEnded() bool {
	j := a.job
	if !j.reads {
		return true
	}
	if j.ended == 0 {
		j.ended = a.w.at
	}
	if a.w.at.Sub(j.ended) > 15*time.Second {
		return true
	}
	if a.w.reading || !a.connected || a.stalled || j.asked != 0 && a.w.at.Sub(j.asked) < 200*time.Millisecond {
		return false
	}
	j.asked = a.w.at
	return a.w.run.LoadEnded(a.info.GetName(), j.ref)
}

// seal closes the open window and makes a snapshot of it.
func (a *worker) seal(t *spatev1.Totals) {
	j := a.job
	a.sequence++
	j.snapshots++
	if t != nil {
		t.Snapshots, t.Counters = j.snapshots, &spatev1.Counters{UnmeasuredStarted: j.warm}
	}
	s := &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{RunId: "r", Agent: a.info.GetName(), Incarnation: a.incarnation,
			Sequence: a.sequence},
		StageIndex: j.ref.GetStageIndex(), Revision: j.ref.GetRevision(), Window: j.window, Totals: t, Left: j.left,
	}
	for list := range j.next {
		for len(s.GetStartedItems()) <= list {
			s.StartedItems = append(s.StartedItems, j.next[len(s.GetStartedItems())])
		}
	}
	if j.measures || t != nil && !t.GetStopped() && t.GetFailure() == "" {
		s.MeasuredFromNs = j.from
	}
	a.outbox = append(a.outbox, &parcel{snapshot: s, items: j.begun, when: j.when, measured: j.measured,
		at: a.w.at.Add(a.late)})
	j.begun, j.when, j.measured, j.window = nil, nil, nil, j.window+1
}

func (a *worker) end(t *spatev1.Totals) {
	a.seal(t)
	a.over, a.job = a.job.ref.GetStageIndex()+1, nil
}

// connect opens the control stream.
func (a *worker) connect() {
	a.connected, a.stalled, a.inbox = true, false, nil
	a.beat = a.w.at
	a.resume, a.armed = nil, false
	if a.job != nil {
		a.resume, a.armed = a.job.ref, a.job.start != 0
	}
	if !a.w.reading {
		a.w.run.Connected(a.w.at, a.info, a.incarnation, a.resume, a.armed)
	}
}

// cut breaks the control stream. If told is false, the machine only notices the silence.
func (a *worker) cut(told bool) {
	a.connected, a.inbox = false, nil
	if told {
		a.w.run.Disconnected(a.w.at, a.info.GetName(), a.incarnation, "reset")
	}
}
