//go:build unix

package agent

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// stoppableAgent is the environment variable that makes the test program an agent of the coordinator that it names.
const stoppableAgent = "SPATE_TEST_AGENT_OF"

// runStoppable is an agent in a process of its own, until it is killed.
func runStoppable(address string) int {
	a, err := New(Config{
		Name: "a", Logger: slog.New(slog.DiscardHandler),
		Coordinator: func(context.Context) (string, error) { return "passthrough:///" + address, nil },
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		return 1
	}
	_ = a.Run(context.Background())
	return 0
}

// startStoppable serves the coordinator and runs an agent of it in a process of its own.
func (c *coordinator) startStoppable() *os.Process {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	server := grpc.NewServer()
	spatev1.RegisterControlServiceServer(server, c)
	spatev1.RegisterMetricsServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), stoppableAgent+"="+listener.Addr().String())
	if err := agent.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		c.leave()
		server.Stop()
	})
	return agent.Process
}

// A process that stood still for longer than its lease sends nothing of what it missed when it goes on: that may be another's by then.
func TestStoppedBeyondItsLeaseItSendsNothingMore(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"open":   {Rate: 2000, Arrival: "constant", Duration: durationpb.New(time.Minute)},
		"closed": {Concurrency: 32, Duration: durationpb.New(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCoordinator(t)
			c.lease = 500 * time.Millisecond
			process := c.startStoppable()
			c.next()
			e := newEngine(t, 5*time.Millisecond, 0)
			c.begin(assignOf(stageOf(load, e), 0))
			eventually(t, "load", func() bool { return len(e.requests()) > 100 })
			if err := process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			<-time.After(3 * c.lease)
			before := len(e.requests())
			if err := process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			totals := c.totals(0)
			// Requests that were written when the process stopped may reach the server only now.
			if sent := len(e.requests()) - before; sent > 10 || !strings.Contains(totals.GetFailure(), "lease") {
				t.Errorf("%d requests after %d, ended by %q", sent, before, totals.GetFailure())
			}
		})
	}
}
