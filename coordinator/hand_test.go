package coordinator

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// hand is a simple agent in virtual time: it obeys the coordinator, keeps its lease, and delivers a snapshot for each
// two minutes of a stage.
type hand struct {
	s           *shift
	number      uint64
	info        *spatev1.AgentInfo
	incarnation uint64
	version     string
	session     *fleet.Session
	beat        uint64
	renewed     time.Time // when the last heartbeat was answered
	draining    bool
	back        time.Time // when a killed process is restarted; zero: it runs
	sequence    uint64
	pending     []*spatev1.Snapshot // not acknowledged
	job         *handJob
	lease       time.Duration
}

// handJob is an assignment.
type handJob struct {
	ref       *spatev1.AssignmentRef
	stripe    *spatev1.Stripe
	lease     time.Duration
	length    time.Duration
	start     clock.Instant // 0: not armed
	next      uint32        // first window that is in no snapshot
	snapshots uint64
	leaves    bool
}

// step plays one second.
func (h *hand) step() {
	if !h.back.IsZero() {
		if time.Now().Before(h.back) {
			return
		}
		*h = hand{s: h.s, number: h.number, info: h.info, incarnation: h.incarnation + 1, version: h.version,
			draining: h.draining}
	}
	if h.session == nil && !h.connect() {
		h.work()
		return
	}
	for h.session != nil && len(h.session.Outbox) > 0 {
		h.read(<-h.session.Outbox)
	}
	h.beat++
	h.s.c.hear(h.session, clustertest.Heartbeat(h.beat))
	h.work()
	for len(h.pending) > 0 {
		answer, err := h.s.c.receiveSnapshot(h.pending[0], certs.Identity{})
		if err != nil {
			break
		}
		if answer.GetRefused() != "" {
			h.s.refused++
		}
		h.pending = h.pending[1:]
	}
	select {
	case <-h.session.Gone:
		h.session = nil
	default:
		h.exchange()
	}
}

// connect opens the control stream, and reports whether it did.
func (h *hand) connect() bool {
	h.info = proto.CloneOf(h.info)
	h.info.Version = h.version
	hello := &spatev1.Hello{Agent: h.info, Incarnation: 1000*h.number + h.incarnation + 1}
	if h.job != nil {
		hello.Resume, hello.Armed = h.job.ref, h.job.start != 0
	}
	session, err := h.s.c.join(hello, "", certs.Identity{})
	if err != nil {
		if status.Code(err) != codes.AlreadyExists { // the old process was heard a moment ago
			h.s.t.Fatal(err)
		}
		return false
	}
	h.session, h.renewed, h.beat = session, time.Now(), 0
	return true
}

// read carries out a message.
func (h *hand) read(m *spatev1.ConnectResponse) {
	switch j := h.job; {
	case m.GetWelcome() != nil:
		h.lease = m.GetWelcome().GetLease().AsDuration()
	case m.GetRenewed() != nil:
		h.renewed = time.Now()
	case m.GetAssign() != nil:
		h.assign(m.GetAssign())
	case j == nil:
	case m.GetRevise() != nil && m.GetRevise().GetRef().GetRunId() == j.ref.GetRunId():
		j.ref, j.stripe = m.GetRevise().GetRef(), m.GetRevise().GetStripe()
		h.applied()
	case m.GetArm() != nil && proto.Equal(m.GetArm().GetRef(), j.ref) && j.start == 0:
		j.start = clock.Instant(m.GetArm().GetStartClockNs())
		j.next = uint32(h.from(func(to []uint32) bool { return h.gets(to) }) / time.Second)
	case m.GetStop() != nil && m.GetStop().GetRef().GetRunId() == j.ref.GetRunId():
		switch {
		case m.GetStop().GetLeave():
			j.leaves = true
		case j.start == 0:
			h.job = nil
		default:
			h.end(&spatev1.Totals{Stopped: true})
		}
	}
}

// assign takes an assignment. An agent that is armed for another run must not get one.
func (h *hand) assign(m *spatev1.Assign) {
	if j := h.job; j != nil && j.ref.GetRunId() != m.GetRef().GetRunId() {
		h.s.t.Fatalf("%v: %s works for %s, and is assigned to %s", h.s.passed(), h.info.GetName(), j.ref.GetRunId(),
			m.GetRef().GetRunId())
	}
	if h.job == nil || !proto.Equal(h.job.ref, m.GetRef()) {
		h.job = &handJob{ref: m.GetRef(), stripe: m.GetStripe(), lease: h.lease,
			length: m.GetStage().GetLoad().GetDuration().AsDuration()}
		if m.GetLease() != nil {
			h.job.lease = m.GetLease().AsDuration()
		}
	}
	h.applied()
}

// applied says that the agent is ready, or has applied a change.
func (h *hand) applied() {
	h.s.c.hear(h.session, &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{
		Applied: &spatev1.Applied{Ref: h.job.ref, ClockUncertaintyNs: 1000},
	}})
}

// gets reports whether the pattern of a handover gives this agent something.
func (h *hand) gets(weights []uint32) bool {
	rank := h.job.stripe.GetRank()
	return int(rank) >= len(h.job.stripe.GetWeights()) && int(rank) < len(weights) && weights[rank] > 0
}

// from returns the offset of the first handover whose pattern is like this, 0 without one.
func (h *hand) from(like func(weights []uint32) bool) time.Duration {
	for _, x := range h.job.stripe.GetHandovers() {
		if like(x.GetWeights()) {
			return time.Duration(x.GetFromNs())
		}
	}
	return 0
}

// gives returns the offset from which others have what the agent had, 0 if it keeps it.
func (h *hand) gives() time.Duration {
	rank := h.job.stripe.GetRank()
	for _, x := range h.job.stripe.GetHandovers() {
		keeps := int(rank) < len(x.GetWeights()) && x.GetWeights()[rank] > 0
		if x.GetFromRank() == rank && !keeps {
			return time.Duration(x.GetFromNs())
		}
	}
	return 0
}

// work works on the assignment.
func (h *hand) work() {
	const interval = 120
	j := h.job
	if j == nil {
		return
	}
	elapsed, gives := clock.Now().Sub(j.start), h.gives()
	switch {
	case time.Since(h.renewed) >= j.lease && j.start == 0:
		h.job = nil
	case j.start == 0 || elapsed < 0:
	case time.Since(h.renewed) >= j.lease:
		h.end(&spatev1.Totals{Failure: fmt.Sprintf("the coordinator was gone for longer than the lease of %v", j.lease),
			FailureKind: spatev1.FailureKind_FAILURE_KIND_AGENT})
	case elapsed >= j.length || j.leaves && gives > 0 && elapsed >= gives:
		h.end(&spatev1.Totals{})
	case uint32(elapsed/time.Second) >= j.next+interval:
		h.snapshot(j.next+interval-1, nil)
	}
}

// end delivers the last snapshot.
func (h *hand) end(t *spatev1.Totals) {
	j := h.job
	last := max(j.next, uint32(max(0, min(clock.Now().Sub(j.start), j.length)-1)/time.Second))
	n := j.snapshots + 1
	t.Snapshots, t.Counters = n, &spatev1.Counters{Started: n, Completed: n, OutputTokens: 5 * n, TokensArrived: 5 * n}
	t.Values = []*spatev1.MetricCount{{Metric: spatev1.Metric_METRIC_TTFT, Count: n}}
	h.snapshot(last, t)
	h.job = nil
}

// snapshot makes a snapshot of the windows up to the last one.
func (h *hand) snapshot(last uint32, t *spatev1.Totals) {
	j := h.job
	h.sequence++
	j.snapshots++
	values := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT))
	values.Record(int64(20 * time.Millisecond))
	h.pending = append(h.pending, &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{RunId: j.ref.GetRunId(), Agent: h.info.GetName(),
			Incarnation: 1000*h.number + h.incarnation + 1, Sequence: h.sequence},
		StageIndex: j.ref.GetStageIndex(), Revision: j.ref.GetRevision(), Window: last, FirstWindow: new(j.next),
		Totals: t,
		Series: []*spatev1.Series{{
			Counters:      &spatev1.Counters{Started: 1, Completed: 1, OutputTokens: 5, TokensArrived: 5},
			Distributions: []*spatev1.Distribution{values.Proto(spatev1.Metric_METRIC_TTFT)},
		}},
		Shares: []*spatev1.WindowShare{{Window: last, OutputTokens: 5, MicroRequests: 1_000_000}},
	})
	j.next = last + 1
}

// kill ends the process without notice. It is restarted after 20 s.
func (h *hand) kill() {
	if h.session != nil {
		h.s.c.leave(h.session, "control stream broken")
	}
	h.session, h.job, h.pending, h.back = nil, nil, nil, time.Now().Add(20*time.Second)
}

// cordon changes whether the agent takes runs, as an operator.
func (h *hand) cordon(to spatev1.Cordon) {
	_, err := runService{c: h.s.c}.CordonAgents(as(h.s.t, "operator"), &spatev1.CordonAgentsRequest{
		Agents: []string{h.info.GetName()}, Cordon: to,
	})
	if err != nil {
		h.s.t.Fatal(err)
	}
}

// exchange restarts the process with the next version once it is drained, and lets it take runs again.
func (h *hand) exchange() {
	h.s.c.mu.Lock()
	drained := h.s.c.fleet.Cordons.Of(h.info.GetName()) == spatev1.Cordon_CORDON_DRAINED
	_, released := h.s.c.work(h.info.GetName())
	h.s.c.mu.Unlock()
	switch {
	case !h.draining || !drained || !released || h.job != nil || len(h.pending) > 0:
	case h.version == "v1":
		h.s.c.leave(h.session, "it closed its control stream")
		h.session, h.version, h.back = nil, "v2", time.Now().Add(20*time.Second)
	default:
		h.draining = false
		h.s.changed++
		h.cordon(spatev1.Cordon_CORDON_UNSPECIFIED)
	}
}
