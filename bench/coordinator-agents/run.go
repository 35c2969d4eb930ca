package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// planForm is the plan. The agents end its only stage themselves, before its load ends.
const planForm = `name: coordinator-agents
targets: [{name: closed-port, endpoints: ["http://127.0.0.1:9"], model: m}]
workloads: [{random: {isl: 3000, osl: 150}}]
loads: [{rate: [%d], arrival: constant, duration: %ds}]
`

// ending is how a run ended, and its cost by then.
type ending struct {
	run      string
	stage    *spatev1.StageEnded
	end      *spatev1.RunEnded
	measured []sample        // from the end of settling to the end of the last window
	after    sample          // after the run's end
	written  float64         // snapshots that the coordinator wrote
	delays   []time.Duration // of the windows after settling
	progress int             // number of progress events
}

// submit submits the plan and follows the run to its end, measuring while its windows pass.
func submit(ctx context.Context, s settings, c *crowd, m *meter) (ending, error) {
	conn, err := grpc.NewClient(s.coordinator, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return ending{}, err
	}
	defer conn.Close()
	service := spatev1.NewRunServiceClient(conn)
	answer, err := service.SubmitRun(ctx, &spatev1.SubmitRunRequest{
		PlanYaml: fmt.Appendf(nil, planForm, s.agents*s.values, s.windows*s.slow+60), PlanPath: "plan.yaml",
		Records:   s.records,
		MinAgents: uint32(s.agents), AgentsTimeout: durationpb.New(2 * time.Minute),
	})
	if err != nil {
		return ending{}, err
	}
	m.run = answer.GetRunId()
	stop := make(chan struct{})
	sampled := make(chan []sample, 1)
	go func() { sampled <- m.watch(ctx, c.began, stop) }()
	e, err := follow(ctx, service, m.run, c)
	close(stop)
	e.measured = <-sampled
	if err != nil {
		return ending{}, err
	}
	c.awaitAcks(ctx)
	if e.after, err = m.read(); err != nil {
		return e, err
	}
	e.written, err = m.written()
	return e, err
}

// follow reads a run's events to its end. Both processes are on this machine, so they share a clock.
func follow(ctx context.Context, service spatev1.RunServiceClient, id string, c *crowd) (ending, error) {
	e := ending{run: id}
	stream, err := service.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: id, Windows: true})
	if err != nil {
		return e, err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return e, nil
		}
		if err != nil {
			return e, err
		}
		switch event := m.GetEvent().GetEvent().(type) {
		case *spatev1.RunEvent_StageProgress:
			e.progress++
		case *spatev1.RunEvent_StageWindow:
			n := int(event.StageWindow.GetNumber()) + 1
			if n%c.slow == 0 && c.settle < n/c.slow && n/c.slow <= c.windows {
				end := clock.Instant(c.start.Load()).Add(c.seconds(n / c.slow))
				e.delays = append(e.delays, clock.Now().Sub(end)/time.Duration(c.slow))
			}
		case *spatev1.RunEvent_StageEnded:
			e.stage = event.StageEnded
		case *spatev1.RunEvent_RunEnded:
			e.end = event.RunEnded
		}
	}
}
