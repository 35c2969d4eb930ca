package clustertest

import (
	"context"
	"time"

	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Agent is an agent played by hand.
type Agent struct {
	Cluster     *Cluster
	Name        string
	Incarnation uint64
	Control     spatev1.ControlService_ConnectClient
	Push        spatev1.MetricsService_PushClient
	HangUp      context.CancelFunc
	Assigned    *spatev1.Assign
	Sequence    uint64
	First       uint64 // sequence number of the stage's first snapshot
}

// Dial connects an agent and sends its Hello.
func (h *Cluster) Dial(name string, incarnation uint64) (*Agent, error) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), Patience)
	h.T.Cleanup(cancel)
	a := &Agent{Cluster: h, Name: name, Incarnation: incarnation, HangUp: cancel}
	var err error
	if a.Control, err = spatev1.NewControlServiceClient(h.Conn).Connect(ctx); err != nil {
		h.T.Fatal(err)
	}
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: access.Protocol, Definitions: measure.Definitions, Incarnation: incarnation,
		Agent: &spatev1.AgentInfo{Name: name, Region: "eu", Weight: 1},
	}}})
	m, err := a.Control.Recv()
	if err != nil {
		return nil, err
	}
	if m.GetWelcome() == nil {
		h.T.Fatalf("%s hears %v, want a welcome", name, m)
	}
	a.Push, err = spatev1.NewMetricsServiceClient(h.Conn).Push(ctx)
	return a, err
}

// Agent connects an agent and expects to be welcomed.
func (h *Cluster) Agent(name string) *Agent {
	h.T.Helper()
	a, err := h.Dial(name, 1)
	if err != nil {
		h.T.Fatal(err)
	}
	return a
}

// Say sends a message on the control stream.
func (a *Agent) Say(m *spatev1.ConnectRequest) {
	a.Cluster.T.Helper()
	if err := a.Control.Send(m); err != nil {
		a.Cluster.T.Fatal(err)
	}
}

// Hear waits for the next message on the control stream.
func (a *Agent) Hear() *spatev1.ConnectResponse {
	a.Cluster.T.Helper()
	m, err := a.Control.Recv()
	if err != nil {
		a.Cluster.T.Fatalf("%s: %v", a.Name, err)
	}
	return m
}

// Apply waits for an assignment and answers that the agent is ready.
func (a *Agent) Apply() {
	a.Cluster.T.Helper()
	m := a.Hear()
	if a.Assigned = m.GetAssign(); a.Assigned == nil {
		a.Cluster.T.Fatalf("%s hears %v, want an assignment", a.Name, m)
	}
	a.First = a.Sequence
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: a.Assigned.GetRef(), ClockUncertaintyNs: 1000,
	}}})
}

// Armed waits for the start.
func (a *Agent) Armed() *spatev1.Arm {
	a.Cluster.T.Helper()
	m := a.Hear()
	if m.GetArm() == nil {
		a.Cluster.T.Fatalf("%s hears %v, want a start", a.Name, m)
	}
	return m.GetArm()
}

// Stopped waits for a stop.
func (a *Agent) Stopped() *spatev1.Stop {
	a.Cluster.T.Helper()
	m := a.Hear()
	if m.GetStop() == nil {
		a.Cluster.T.Fatalf("%s hears %v, want a stop", a.Name, m)
	}
	return m.GetStop()
}

// Snapshot returns the agent's next snapshot: one request completed in the window.
func (a *Agent) Snapshot(window uint32) *spatev1.Snapshot {
	a.Sequence++
	h := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT))
	h.Record(int64(20 * time.Millisecond))
	return &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{
			RunId: a.Assigned.GetRef().GetRunId(), Agent: a.Name, Incarnation: a.Incarnation, Sequence: a.Sequence,
		},
		StageIndex: a.Assigned.GetRef().GetStageIndex(), Revision: 1, Window: window,
		Series: []*spatev1.Series{{
			Counters:      &spatev1.Counters{Started: 1, Completed: 1, OutputTokens: 5, TokensArrived: 5},
			Distributions: []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_TTFT)},
		}},
		Shares: []*spatev1.WindowShare{{Window: window, OutputTokens: 5, MicroRequests: 1_000_000}},
	}
}

// Last returns the agent's last snapshot of the stage: one request in the window, and the totals of all snapshots.
func (a *Agent) Last(window uint32) *spatev1.Snapshot {
	s := a.Snapshot(window)
	n := a.Sequence - a.First
	s.Totals = &spatev1.Totals{
		Snapshots: n,
		Counters:  &spatev1.Counters{Started: n, Completed: n, OutputTokens: 5 * n, TokensArrived: 5 * n},
		Values:    []*spatev1.MetricCount{{Metric: spatev1.Metric_METRIC_TTFT, Count: n}},
	}
	return s
}

// Deliver pushes a snapshot and returns the answer.
func (a *Agent) Deliver(s *spatev1.Snapshot) *spatev1.PushResponse {
	a.Cluster.T.Helper()
	if err := a.Push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
		a.Cluster.T.Fatal(err)
	}
	m, err := a.Push.Recv()
	if err != nil {
		a.Cluster.T.Fatal(err)
	}
	return m
}

// Acked delivers a snapshot that must be accepted.
func (a *Agent) Acked(s *spatev1.Snapshot) {
	a.Cluster.T.Helper()
	if m := a.Deliver(s); m.GetRefused() != "" {
		a.Cluster.T.Fatalf("%s: snapshot %d refused: %s", a.Name, s.GetKey().GetSequence(), m.GetRefused())
	}
}

// RunStage plays the agents through one stage without faults.
func RunStage(agents ...*Agent) {
	for _, a := range agents {
		a.Apply()
	}
	for _, a := range agents {
		a.Armed()
	}
	for _, a := range agents {
		a.Acked(a.Snapshot(0))
		a.Acked(a.Last(1))
	}
}

// Values replaces a snapshot's values by n values of a TTFT.
func Values(s *spatev1.Snapshot, n uint64, ttft time.Duration) *spatev1.Snapshot {
	h := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT))
	h.RecordN(int64(ttft), n)
	c := &spatev1.Counters{Started: n, Completed: n, OutputTokens: 5 * n, TokensArrived: 5 * n}
	s.Series[0].Counters, s.Series[0].Distributions = c, []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_TTFT)}
	s.Shares[0].OutputTokens, s.Shares[0].MicroRequests = 5*n, 1_000_000*n
	return s
}

// Closing makes a snapshot the only one of its stage, with totals.
func Closing(s *spatev1.Snapshot) *spatev1.Snapshot {
	n := s.GetSeries()[0].GetCounters().GetCompleted()
	first, last := int64(0), int64(4*time.Second)
	s.Totals = &spatev1.Totals{
		Snapshots: 1, Counters: s.GetSeries()[0].GetCounters(), FirstStartNs: &first, LastEndNs: &last,
		Values: []*spatev1.MetricCount{{Metric: spatev1.Metric_METRIC_TTFT, Count: n}},
	}
	return s
}

// Heartbeat returns a heartbeat message.
func Heartbeat(number uint64) *spatev1.ConnectRequest {
	return &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{
		Heartbeat: &spatev1.Heartbeat{Number: number},
	}}
}

// Beat sends a heartbeat and expects its answer as the next message.
func (a *Agent) Beat(number uint64) {
	a.Cluster.T.Helper()
	a.Say(Heartbeat(number))
	if m := a.Hear(); m.GetRenewed().GetNumber() != number {
		a.Cluster.T.Fatalf("%s hears %v, want the answer to heartbeat %d", a.Name, m, number)
	}
}
