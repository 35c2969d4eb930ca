//go:build unix

package agent

import (
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// startStoppable serves the coordinator and runs an agent for it in a separate process.
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

// A process that was suspended for longer than its lease sends none of its backlog when it continues: another agent may
// own that by then.
func TestProcessStoppedBeyondItsLeaseSendsNothing(t *testing.T) {
	t.Parallel()
	const rate, slots = 2000, 32
	for name, load := range map[string]*spatev1.LoadPoint{
		"open":   {Rate: rate, Arrival: "constant", Duration: durationpb.New(time.Minute)},
		"closed": {Concurrency: slots, Duration: durationpb.New(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoordinator(t)
			c.lease = time.Second
			process := c.startStoppable()
			c.next()
			e := enginetest.New(t, 5*time.Millisecond, 0)
			a := enginetest.AssignOf(enginetest.StageOf(load, e), 0)
			c.assign(a)
			c.applied(a.GetRef())
			start := clock.Now().Add(30 * time.Millisecond)
			c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{Arm: &spatev1.Arm{
				Ref: a.GetRef(), StartClockNs: int64(start.Add(skew)),
			}}})
			enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 100 })
			if err := process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			// On a busy machine the agent's estimate of the coordinator's clock, and so its start, is off by tens of
			// milliseconds.
			stopped := clock.Now().Add(c.lease / 5)
			<-time.After(2 * c.lease)
			before := len(e.Requests())
			if err := process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			totals := c.totals(0)
			if !strings.Contains(totals.GetFailure(), "lease") {
				t.Errorf("ended by %q", totals.GetFailure())
			}
			if name == "open" {
				checkUnsent(t, totals, e.Requests(), rate)
			} else if totals.GetUnsentFromNs() <= 0 {
				t.Errorf("a closed loop says that its slots were idle from %d ns on", totals.GetUnsentFromNs())
			}
			// Requests that had started when the process stopped may end normally.
			late := e.Requests()[before:]
			if due := int(stopped.Sub(start).Seconds() * rate); name == "open" &&
				slices.ContainsFunc(late, func(id string) bool { return int(enginetest.IndexOf(t, id)) > due }) {
				t.Errorf("%d requests were due when it stopped, and it sent %v", due, late)
			}
			if name == "closed" && len(late) > slots {
				t.Errorf("%d requests more of %d slots", len(late), slots)
			}
		})
	}
}

// checkUnsent compares the due time of the first request that was never sent, by the totals, with the requests that the
// server received. The server lacks that request. It may also lack some earlier ones, which were in flight when the
// process stopped.
func checkUnsent(t *testing.T, totals *spatev1.Totals, had []string, rate int) {
	t.Helper()
	if totals.UnsentFromNs == nil || totals.GetNeverSent() == 0 {
		t.Fatalf("%d requests were never sent, and it is not said from when on", totals.GetNeverSent())
	}
	sent := map[int]bool{}
	for _, id := range had {
		sent[int(enginetest.IndexOf(t, id))] = true
	}
	lacks := 0
	for sent[lacks] {
		lacks++
	}
	first := int(math.Round(time.Duration(totals.GetUnsentFromNs()).Seconds() * float64(rate)))
	if first < lacks || sent[first] {
		t.Errorf("request %d is the first that was never sent; the server had it: %v, and lacks none before %d", first,
			sent[first], lacks)
	}
}
