package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/aggregate/bundle"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/streams"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// kinds is how many different windows a region has. They are added up before the run: one core cannot add up those
	// of ten regions while it measures.
	kinds = 8
	// beatsAtOnce is how often a second a region sends heartbeats: a relay gathers them for 100 ms.
	beatsAtOnce = 10
	// bundleDelay is how long after the end of a window a relay has those of all its agents.
	bundleDelay = sealDelay + 100*time.Millisecond
	// maxAnswer bounds a message from the coordinator, as relays do.
	maxAnswer = 256 << 20
)

// region is a simulated relay with its agents: two connections for all of them, with what a relay makes of what they
// say. Streams of control and of snapshots have the same numbers: the agents' places in the region, from 1.
type region struct {
	*crowd
	name   string
	agents []*agent
	kinds  []kind

	control spatev1.RelayService_RelayControlClient
	sending sync.Mutex // of control
	sent    []clock.Instant
	startOn chan *spatev1.Arm
}

// kind is a window of a region: the sum of what its agents measured, and their snapshots without it.
type kind struct {
	sum     *spatev1.Snapshot
	members []*spatev1.Snapshot
}

// newRegion adds up what the agents of a region measure.
func newRegion(c *crowd, name string, agents []*agent) (*region, error) {
	r := &region{
		crowd: c, name: name, agents: agents, sent: make([]clock.Instant, c.windows),
		startOn: make(chan *spatev1.Arm, 1),
	}
	for k := range kinds {
		snapshots := make([]*spatev1.Snapshot, len(agents))
		for i, a := range agents {
			snapshots[i] = a.snapshot(&spatev1.AssignmentRef{}, k)
		}
		sum, members, misfits := bundle.Of(snapshots, &spatev1.Merged{Region: agents[0].info.GetRegion()})
		if len(misfits) > 0 {
			return nil, fmt.Errorf("%d snapshots of a region do not fit a bundle", len(misfits))
		}
		r.kinds = append(r.kinds, kind{sum, members})
	}
	return r, nil
}

// attend runs the relay and its agents.
func (r *region) attend(ctx context.Context) error {
	connect := func() (*grpc.ClientConn, error) {
		return grpc.NewClient(r.coordinator, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.UseCompressor(streams.Zstd)))
	}
	conn, err := connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	bulk, err := connect()
	if err != nil {
		return err
	}
	defer bulk.Close()
	group, ctx := errgroup.WithContext(ctx)
	if r.control, err = spatev1.NewRelayServiceClient(conn).RelayControl(ctx); err != nil {
		return err
	}
	push, err := spatev1.NewRelayServiceClient(bulk).RelayPush(ctx)
	if err != nil {
		return err
	}
	if err := r.control.Send(&spatev1.RelayControlRequest{Relay: r.name}); err != nil {
		return err
	}
	group.Go(r.listen)
	group.Go(func() error { return r.join(ctx) })
	group.Go(func() error { return r.beat(ctx) })
	group.Go(func() error { return r.probe(ctx, spatev1.NewControlServiceClient(conn)) })
	group.Go(func() error { return r.count(push) })
	group.Go(func() error { return r.deliver(ctx, push) })
	return group.Wait()
}

func (r *region) say(all ...*spatev1.FromAgent) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return ended(r.control.Send(&spatev1.RelayControlRequest{Messages: all}))
}

// probe probes the coordinator's clock, as a relay does.
func (r *region) probe(ctx context.Context, service spatev1.ControlServiceClient) error {
	for rest(ctx, time.Second) {
		if _, err := service.ProbeClock(ctx, &spatev1.ProbeClockRequest{}); err != nil {
			return ended(err)
		}
	}
	return nil
}

// said is what an agent says, by its place.
func said(place int, m *spatev1.ConnectRequest) *spatev1.FromAgent {
	return &spatev1.FromAgent{Stream: uint64(place) + 1, Event: &spatev1.FromAgent_Said{Said: m}}
}

// join connects the agents, one after the other.
func (r *region) join(ctx context.Context) error {
	for i, a := range r.agents {
		if !rest(ctx, r.settings.join/time.Duration(len(r.agents))) {
			return nil
		}
		connected := &spatev1.FromAgent{Stream: uint64(i) + 1, Event: &spatev1.FromAgent_Connected{
			Connected: &spatev1.AgentConnected{Address: "127.0.0.1:9"},
		}}
		if err := r.say(connected, said(i, a.introduction())); err != nil {
			return err
		}
	}
	return nil
}

// listen acts on the coordinator's messages.
func (r *region) listen() error {
	armed := 0
	for {
		m, err := r.control.Recv()
		if err != nil {
			return ended(err)
		}
		var answers []*spatev1.FromAgent
		for _, one := range m.GetMessages() {
			if e := one.GetEnded(); e != nil {
				return fmt.Errorf("the coordinator has ended the session of an agent: %s", e.GetReason())
			}
			place := int(one.GetStream()) - 1
			switch m := one.GetSay().GetMessage().(type) {
			case *spatev1.ConnectResponse_Welcome:
				r.agents[place].welcome.Store(true)
			case *spatev1.ConnectResponse_Assign:
				answers = append(answers, said(place, applied(m.Assign.GetRef())))
			case *spatev1.ConnectResponse_Arm:
				r.agents[place].revision = m.Arm.GetRef().GetRevision()
				if armed++; armed == len(r.agents) {
					r.armed(m.Arm)
					r.startOn <- m.Arm
				}
			case *spatev1.ConnectResponse_Renewed:
				r.agents[place].renewed(m.Renewed)
			case *spatev1.ConnectResponse_Stop:
				return fmt.Errorf("stopped: %s", m.Stop.GetReason())
			}
		}
		if len(answers) > 0 {
			if err := r.say(answers...); err != nil {
				return err
			}
		}
	}
}

// beat sends one heartbeat of each agent per second, many at once.
func (r *region) beat(ctx context.Context) error {
	for turn := 0; rest(ctx, time.Second/beatsAtOnce); turn++ {
		var all []*spatev1.FromAgent
		for i := turn % beatsAtOnce; i < len(r.agents); i += beatsAtOnce {
			if a := r.agents[i]; a.welcome.Load() {
				all = append(all, said(i, a.heartbeat()))
			}
		}
		if len(all) > 0 {
			if err := r.say(all...); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver sends a bundle after each window, with the totals in the last one.
func (r *region) deliver(ctx context.Context, push spatev1.RelayService_RelayPushClient) error {
	var arm *spatev1.Arm
	select {
	case arm = <-r.startOn:
	case <-ctx.Done():
		return nil
	}
	start := clock.Instant(arm.GetStartClockNs())
	for window := range r.windows {
		m := &spatev1.RelayPushRequest{Bundles: []*spatev1.Bundle{r.bundle(arm.GetRef(), window)}}
		if window == 0 {
			m.Relay = r.name
		}
		if !rest(ctx, clock.Until(start.Add(time.Duration(window+1)*time.Second+bundleDelay))) {
			return nil
		}
		r.sent[window] = clock.Now()
		if err := push.Send(m); err != nil {
			return ended(err)
		}
	}
	return nil
}

// bundle returns the bundle of a window.
func (r *region) bundle(ref *spatev1.AssignmentRef, window int) *spatev1.Bundle {
	k := r.kinds[window%kinds]
	sum := &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{RunId: ref.GetRunId()}, StageIndex: ref.GetStageIndex(), Window: uint32(window),
		Merged: k.sum.GetMerged(), Series: k.sum.GetSeries(),
	}
	b := &spatev1.Bundle{Number: uint64(window) + 1, Merged: sum}
	for i, a := range r.agents {
		of := k.members[i]
		m := &spatev1.BundleMember{Stream: uint64(i) + 1, Sequence: uint64(window) + 1, Snapshot: &spatev1.Snapshot{
			Revision: a.revision, Records: of.GetRecords(), PeakInFlight: of.GetPeakInFlight(), Series: of.GetSeries(),
			TakenOut: of.GetTakenOut(),
		}}
		if window == 0 {
			m.Sender = &spatev1.Sender{Agent: a.info.GetName(), Incarnation: a.incarnation}
		}
		if window == r.windows-1 {
			m.Snapshot.Totals = a.totals()
		}
		b.Members = append(b.Members, m)
		sum.Shares = addShares(sum.Shares, shares(a.measured(window).GetCounters(), window))
	}
	return b
}

// addShares adds the shares of an agent to a sum of the same windows.
func addShares(sum, more []*spatev1.WindowShare) []*spatev1.WindowShare {
	if sum == nil {
		return more
	}
	for i, s := range more {
		sum[i].OutputTokens += s.GetOutputTokens()
		sum[i].Chunks += s.GetChunks()
		sum[i].MicroRequests += s.GetMicroRequests()
	}
	return sum
}

// count counts acks and refusals.
func (r *region) count(push spatev1.RelayService_RelayPushClient) error {
	for {
		m, err := push.Recv()
		if err != nil {
			return ended(err)
		}
		for _, b := range m.GetBundles() {
			if b.GetEnded() != nil || len(b.GetAlone()) > 0 {
				return fmt.Errorf("bundle %d is not in the ledger: %v", b.GetNumber(), b)
			}
			window := b.GetNumber() - 1
			for _, a := range r.agents {
				r.answers.acknowledged(&spatev1.PushResponse{Key: &spatev1.SnapshotKey{Agent: a.info.GetName()}},
					clock.Now().Sub(r.sent[window]))
			}
		}
	}
}
