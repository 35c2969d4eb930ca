package coordinator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What a broken agent sends does not crowd out the notices that followers need.
func TestGarbageIsSaidAFewTimesOnly(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
	a.apply()
	a.armed()
	const garbage = 100
	for range garbage {
		s := a.snapshot(0)
		a.sequence--
		s.StageIndex = 7
		if m := a.deliver(s); m.GetRefused() == "" {
			t.Fatal("garbage was taken")
		}
	}
	a.acked(closing(values(a.snapshot(0), 4, 1)))
	said := texts(h.follow(id))
	if len(said) != maxRefusalsTold ||
		!strings.Contains(said[len(said)-1], "further ones are in the coordinator's log only") {
		t.Errorf("%d notices, the last %q", len(said), said[len(said)-1])
	}
	if got := h.c.Stats().Refused; got != garbage {
		t.Errorf("%d counted", got)
	}
}

func TestNotesOnATargetAreBounded(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
	m := a.hear().GetAssign()
	a.assigned = m
	found := &spatev1.Preparation{Lengths: "words"}
	for i := range 1000 {
		found.Notes = append(found.Notes, fmt.Sprint("note ", i))
	}
	a.say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: m.GetRef(), ClockUncertaintyNs: 1000, Preparation: found,
	}}})
	a.armed()
	a.acked(closing(values(a.snapshot(0), 4, 1)))
	if said := texts(h.follow(id)); len(said) != 256 {
		t.Errorf("%d notices", len(said))
	}
}

// An agent that connects and disconnects again and again is announced once.
func TestAFlappingStrangerIsSpokenOfOnce(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
	a.apply()
	a.armed()
	for i := range 20 {
		z, err := h.dial("z", uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if err := z.control.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := z.control.Recv(); err == nil {
			t.Fatal("the stream continues")
		}
	}
	a.acked(closing(values(a.snapshot(0), 4, 1)))
	if said := texts(h.follow(id)); len(said) != 1 {
		t.Errorf("%d notices: %q", len(said), said)
	}
}

func TestLongMessagesOnTheControlStreamEndIt(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
	m := a.hear().GetAssign()
	a.say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Rejected{Rejected: &spatev1.Rejected{
		Ref: m.GetRef(), Reason: strings.Repeat("x", maxSaid),
	}}})
	if _, err := a.control.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("ended with %v", err)
	}
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
		t.Fatal(err)
	}
	h.end(id)
}

// Followers of a waiting run are told when the coordinator closes. They can ask again when it is back.
func TestCloseEndsTheFollowersOfRunsThatWait(t *testing.T) {
	h := start(t)
	h.submitPlan(1, keyless)
	waiting := h.submitPlan(1, keyless)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := h.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: waiting})
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
	if status.Convert(err).Message() != status.Convert(errClosing).Message() {
		t.Errorf("ended with %v", err)
	}
}

// A peer with a different certificate cannot push in an agent's name.
func TestSnapshotsAreTakenFromTheirAgentsOnly(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
	a.apply()
	a.armed()
	h.c.mu.Lock()
	h.c.sessions["a"].Who = certs.Identity{Role: certs.Agent, Name: "eu"}
	h.c.owners["a"] = owner{incarnation: h.c.sessions["a"].incarnation,
		who: certs.Identity{Role: certs.Agent, Name: "eu"}}
	h.c.mu.Unlock()
	s := closing(values(a.snapshot(0), 4, 1))
	if _, err := h.c.receiveSnapshot(s, certs.Identity{Role: certs.Agent,
		Name: "us"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("taken from another: %v", err)
	}
	if m, err := h.c.receiveSnapshot(s, certs.Identity{Role: certs.Agent, Name: "eu"}); err != nil ||
		m.GetRefused() != "" {
		t.Errorf("not taken: %v, %v", m, err)
	}
	if end := h.end(id); !end.GetComplete() {
		t.Errorf("%v", end)
	}
}

// Knowing a process's incarnation, which is in every ledger, does not let a peer take its place, neither while the
// process is connected nor afterwards.
func TestASessionIsBoundToItsCertificate(t *testing.T) {
	h := start(t)
	hello := func(incarnation uint64) *spatev1.Hello {
		return &spatev1.Hello{Protocol: admission.Protocol, Definitions: measure.Definitions, Incarnation: incarnation,
			Agent: &spatev1.AgentInfo{Name: "z"}}
	}
	eu, us := certs.Identity{Role: certs.Agent, Name: "eu"}, certs.Identity{Role: certs.Agent, Name: "us"}
	first, err := h.c.join(hello(7), admission.Origin{Address: "1.1.1.1:1", Who: eu})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.c.join(hello(7), admission.Origin{Address: "2.2.2.2:2", Who: us}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("while it is connected: %v", err)
	}
	h.c.leave(first, "it went away")
	if _, err := h.c.join(hello(7), admission.Origin{Address: "2.2.2.2:2", Who: us}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("while it is away: %v", err)
	}
	push := &spatev1.Snapshot{Key: &spatev1.SnapshotKey{RunId: "r", Agent: "z", Incarnation: 7, Sequence: 1}}
	if _, err := h.c.receiveSnapshot(push, us); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a snapshot: %v", err)
	}
	if _, err := h.c.join(hello(7), admission.Origin{Address: "1.1.1.1:3", Who: eu}); err != nil {
		t.Errorf("the process itself: %v", err)
	}
}

func TestAnAgentThatFloodsIsCutOff(t *testing.T) {
	h := start(t, func(c *Config) { c.Limits.ControlRate, c.Limits.ControlBurst = 1, 50 })
	a := h.agent("a")
	beat := &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{}}}
	for range 60 {
		if a.control.Send(beat) != nil {
			break // it has been cut off
		}
	}
	for {
		_, err := a.control.Recv()
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
	h := start(t, func(c *Config) { c.Limits.PushRate, c.Limits.PushBurst = 1, 5 })
	a := h.agent("a")
	h.submit(1)
	a.apply()
	a.armed()
	s := a.snapshot(0)
	var err error
	for n := 0; err == nil; n++ {
		if n > 6 {
			t.Fatal("it is not cut off")
		}
		if err = a.push.Send(&spatev1.PushRequest{Snapshot: s}); err == nil {
			_, err = a.push.Recv()
		}
	}
	if _, err = a.push.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error %v", err)
	}
	if s := h.c.Stats(); s.Limited != 1 || s.Refused != 0 || s.Snapshots != 1 || s.Duplicates != 4 {
		t.Errorf("%+v", s)
	}
}

// Normal agents stay far below the limits, also one that reconnects and sends all that it kept.
func TestDefaultLimitsLetLegalAgentsPass(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	h.submit(1)
	a.apply()
	a.armed()
	for n := range uint32(300) {
		a.acked(a.snapshot(n))
	}
	a.acked(a.last(300))
	if s := h.c.Stats(); s.Limited != 0 || s.Snapshots != 301 {
		t.Errorf("%+v", s)
	}
}
