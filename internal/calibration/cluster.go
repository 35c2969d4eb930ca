package calibration

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// leadTime is how long before its start a load is armed.
	leadTime = 100 * time.Millisecond
	// answerTime bounds how long the agent may take to connect and to prepare a load, or to end one.
	answerTime = 30 * time.Second
	// heartbeat is the heartbeat interval. It is long because an agent ends a session after three silent intervals, and
	// an agent that is starved of CPU may hear nothing for seconds. The end of its process is noticed without
	// heartbeats.
	heartbeat = 10 * time.Second
)

// cluster is a coordinator whose one agent is under calibration. Each load is a run.
type cluster struct {
	coordinator *coordinator.Coordinator
	serving     chan error
	conn        *grpc.ClientConn
	runs        spatev1.RunServiceClient

	id     string // of the run in progress
	events grpc.ServerStreamingClient[spatev1.FollowRunResponse]
}

// serveCluster serves on a listener until close, which also closes the listener. The runs' files are in a directory.
func serveCluster(l net.Listener, target, dir string) (*cluster, error) {
	made, err := coordinator.New(coordinator.Config{
		Name: "calibration", DataDir: dir, Logger: slog.New(slog.DiscardHandler), HeartbeatInterval: heartbeat,
		Lease: time.Hour, Run: lifecycle.Config{NearLead: leadTime, FarLead: leadTime},
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c := &cluster{coordinator: made, serving: make(chan error, 1)}
	go func() { c.serving <- made.Serve(l) }()
	if c.conn, err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.runs = spatev1.NewRunServiceClient(c.conn)
	return c, nil
}

// close disconnects the agent and stops serving.
func (c *cluster) close() error {
	var err error
	if c.conn != nil {
		err = c.conn.Close()
	}
	return errors.Join(err, c.coordinator.Close(), <-c.serving)
}

// startLoad makes the agent prepare a plan's load, and arms it. It returns the load's start.
func (c *cluster) startLoad(ctx context.Context, plan string) (clock.Instant, error) {
	submitted, err := c.runs.SubmitRun(ctx, &spatev1.SubmitRunRequest{PlanYaml: []byte(plan), PlanPath: "calibration",
		MinAgents: 1, AgentsTimeout: durationpb.New(answerTime)})
	if err != nil {
		return 0, err
	}
	c.id = submitted.GetRunId()
	if c.events, err = c.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: c.id}); err != nil {
		return 0, err
	}
	for {
		e, err := c.events.Recv()
		switch {
		case err != nil:
			return 0, err
		case e.GetEvent().GetRunEnded() != nil:
			return 0, errors.New(e.GetEvent().GetRunEnded().GetReason())
		case e.GetEvent().GetStageStarted() != nil: // armed
			return clock.Now().Add(leadTime), nil
		}
	}
}

// stopLoad cancels the load in progress and waits for its end. It returns why the load failed, or "".
func (c *cluster) stopLoad(ctx context.Context) (failure string, err error) {
	if _, err = c.runs.StopRun(ctx, &spatev1.StopRunRequest{RunId: c.id, Immediately: true}); err != nil {
		return "", err
	}
	for {
		e, err := c.events.Recv()
		if err != nil {
			return "", err
		}
		if end := e.GetEvent().GetRunEnded(); end != nil {
			if end.GetOutcome() == spatev1.Outcome_OUTCOME_FAILED {
				failure = end.GetReason()
			}
			return failure, nil
		}
	}
}
