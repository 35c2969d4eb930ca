package coordinator

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// served starts a coordinator on a loopback port.
func served(t *testing.T, limits Limits) (c *Coordinator, address string) {
	t.Helper()
	h := start(t, func(c *Config) { c.Limits = limits })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.c.server.Serve(l) }()
	t.Cleanup(func() {
		h.c.server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return h.c, l.Addr().String()
}

// ask opens a connection, which is closed with the test, and makes one call over it.
func ask(t *testing.T, address string) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = spatev1.NewRunServiceClient(conn).ListAgents(t.Context(), &spatev1.ListAgentsRequest{})
	return err
}

func TestConnectionsAreBounded(t *testing.T) {
	c, address := served(t, Limits{Connections: 2})
	for n := range 2 {
		if err := ask(t, address); err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	for n := range 2 {
		if err := ask(t, address); status.Code(err) != codes.ResourceExhausted ||
			!strings.Contains(err.Error(), "2 connections") {
			t.Errorf("connection %d: %v", 2+n, err)
		}
	}
	if err := ask(t, address); status.Code(err) != codes.Unavailable {
		t.Errorf("connection 4: %v", err)
	}
	if got := c.Stats().Limited; got < 3 {
		t.Errorf("%d refused", got)
	}
}

func TestAConnectionThatWasClosedMakesRoom(t *testing.T) {
	c, address := served(t, Limits{Connections: 1})
	for range 5 {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spatev1.NewRunServiceClient(conn).ListAgents(t.Context(),
			&spatev1.ListAgentsRequest{}); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		for c.limits.connections.Load() > 0 && t.Context().Err() == nil {
			c.Stats() // the server may notice the closed connection later
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	h := start(t, func(c *Config) { c.Limits.Streams = 2 })
	h.agent("a") // has two streams
	for h.c.limits.streams.Load() < 2 && t.Context().Err() == nil {
		h.c.Stats() // the server may start a stream later
	}
	stream, err := h.runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "2 streams") {
		t.Errorf("a third stream: %v", err)
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

func TestHeartbeatsAreAnswered(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	for number := uint64(1); number <= 3; number++ {
		a.say(
			&spatev1.ConnectRequest{
				Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{Number: number}},
			},
		)
		if m := a.hear(); m.GetRenewed().GetNumber() != number {
			t.Errorf("heartbeat %d is answered with %v", number, m)
		}
	}
	if s := h.c.Stats(); s.Renewals != 3 {
		t.Errorf("%+v", s)
	}
}

func TestAnAgentOfARunThatDoesNotGoOnHereIsToldToStop(t *testing.T) {
	h := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	control, err := spatev1.NewControlServiceClient(h.conn).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ref := &spatev1.AssignmentRef{RunId: "gone", StageIndex: 3, Revision: 1}
	err = control.Send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: protocol, Definitions: measure.Definitions, Incarnation: 1, Agent: &spatev1.AgentInfo{Name: "a"},
		Resume: ref, Armed: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := control.Recv(); err != nil || m.GetWelcome() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	m, err := control.Recv()
	if err != nil || m.GetStop().GetRef().GetStageIndex() != 3 || !m.GetStop().GetImmediately() {
		t.Errorf("%v, %v", m, err)
	}
}
