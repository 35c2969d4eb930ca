package clustertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What a broken agent sends is refused and counted, and does not crowd out the notices that followers need.
func TestGarbageIsCounted(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	a.Apply()
	a.Armed()
	const garbage = 100
	for range garbage {
		s := a.Snapshot(0)
		a.Sequence--
		s.StageIndex = 7
		if m := a.Deliver(s); m.GetRefused() == "" {
			t.Fatal("garbage was taken")
		}
	}
	a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(0), 4, 1)))
	if said := clustertest.Texts(h.Follow(id)); len(said) != 0 {
		t.Errorf("%d notices, the last %q", len(said), said[len(said)-1])
	}
	if got := h.c.Stats().Refused; got != garbage {
		t.Errorf("%d counted", got)
	}
}

func TestNotesOnATargetAreBounded(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	m := a.Hear().GetAssign()
	a.Assigned = m
	found := &spatev1.Preparation{Lengths: "words"}
	for i := range 1000 {
		found.Notes = append(found.Notes, fmt.Sprint("note ", i))
	}
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: m.GetRef(), ClockUncertaintyNs: 1000, Preparation: found,
	}}})
	a.Armed()
	a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(0), 4, 1)))
	if said := clustertest.Texts(h.Follow(id)); len(said) != 256 {
		t.Errorf("%d notices", len(said))
	}
}

func TestLongMessagesOnTheControlStreamEndIt(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	m := a.Hear().GetAssign()
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Rejected{Rejected: &spatev1.Rejected{
		Ref: m.GetRef(), Reason: strings.Repeat("x", 64<<10),
	}}})
	if _, err := a.Control.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("ended with %v", err)
	}
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
		t.Fatal(err)
	}
	h.End(id)
}

// Followers of a waiting run are told when the coordinator closes. They can ask again when it is back.
func TestCloseEndsTheFollowersOfRunsThatWait(t *testing.T) {
	h := start(t)
	h.SubmitPlan(1, clustertest.Keyless)
	waiting := h.SubmitPlan(1, clustertest.Keyless)
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	stream, err := h.Runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: waiting})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil { // its place in the queue
		t.Fatal(err)
	}
	if err := h.c.Close(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Convert(err).Message() != "the coordinator is closing" {
		t.Errorf("ended with %v", err)
	}
}

func TestAnAgentThatFloodsIsCutOff(t *testing.T) {
	h := start(t, func(c *coordinator.Config) { c.Limits.ControlRate, c.Limits.ControlBurst = 1, 50 })
	a := h.Agent("a")
	beat := &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{}}}
	for range 60 {
		if a.Control.Send(beat) != nil {
			break // it has been cut off
		}
	}
	for {
		_, err := a.Control.Recv()
		if err == nil {
			continue
		}
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than 50 messages") {
			t.Errorf("error %v", err)
		}
		break
	}
	if s := h.c.Stats(); s.Limited != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAFloodOfSnapshotsIsCutOffAndNotGarbage(t *testing.T) {
	h := start(t, func(c *coordinator.Config) { c.Limits.PushRate, c.Limits.PushBurst = 1, 5 })
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	s := a.Snapshot(0)
	var err error
	for n := 0; err == nil; n++ {
		if n > 6 {
			t.Fatal("it is not cut off")
		}
		if err = a.Push.Send(&spatev1.PushRequest{Snapshot: s}); err == nil {
			_, err = a.Push.Recv()
		}
	}
	if _, err = a.Push.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error %v", err)
	}
	if s := h.c.Stats(); s.Limited != 1 || s.Refused != 0 || s.Snapshots != 1 || s.Duplicates != 4 {
		t.Errorf("%+v", s)
	}
}

// Normal agents stay far below the limits, also one that reconnects and sends all that it kept.
func TestDefaultLimitsLetLegalAgentsPass(t *testing.T) {
	t.Parallel()
	h := start(t)
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	for n := range uint32(300) {
		a.Acked(a.Snapshot(n))
	}
	a.Acked(a.Last(300))
	if s := h.c.Stats(); s.Limited != 0 || s.Snapshots != 301 {
		t.Errorf("%+v", s)
	}
}
