package runcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var errBroken = status.Error(codes.Unavailable, "connection refused")

// TestPersistence: a broken call is retried when the coordinator answers again, the user is told once, and waiting
// ends.
func TestPersistence(t *testing.T) {
	refused := status.Error(codes.NotFound, "no such run")
	for name, test := range map[string]struct {
		patience time.Duration
		gone     time.Duration // how long, from the start, the coordinator does not answer
		calls    []error       // how the calls end, in turn; later ones end like the last
		want     error
		said     int // how often the user was told that the coordinator is gone
		most     time.Duration
	}{
		"nothing breaks":   {time.Minute, 0, []error{nil}, nil, 0, 0},
		"an answer":        {time.Minute, 0, []error{refused}, refused, 0, 0},
		"no patience":      {0, 0, []error{errBroken}, errBroken, 0, 0},
		"one break":        {time.Minute, 0, []error{errBroken, nil}, nil, 1, time.Second},
		"a new start":      {time.Minute, 30 * time.Second, []error{errBroken, nil}, nil, 1, 33 * time.Second},
		"break and answer": {time.Minute, 10 * time.Second, []error{errBroken, refused}, refused, 1, 13 * time.Second},
		"gone for good":    {time.Minute, time.Hour, []error{errBroken}, errPatience, 1, time.Minute},
		"it only answers":  {time.Minute, 0, []error{errBroken}, errPatience, 40, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var said []string
				calls := test.calls
				p := &persistence{
					patience: test.patience,
					say:      func(e *spatev1.RunEvent) { said = append(said, e.GetNotice().GetText()) },
					awake: func(context.Context) error {
						if time.Since(begin) < test.gone {
							return errBroken
						}
						return nil
					},
				}
				err := p.do(t.Context(), func(context.Context) error {
					err := calls[0]
					calls = calls[min(1, len(calls)-1):]
					return err
				})
				if !errors.Is(err, test.want) || p.gone.Load() {
					t.Errorf("ended with %v, gone %v", err, p.gone.Load())
				}
				gone := func(s string) bool {
					return strings.HasPrefix(s,
						"coordinator gone (refuses connections: nothing listens there): retrying for ")
				}
				n := len(slices.DeleteFunc(slices.Clone(said), func(s string) bool { return !gone(s) }))
				if n > test.said || n < min(1, test.said) {
					t.Errorf("said %q", said)
				}
				if took := time.Since(begin); took > test.most {
					t.Errorf("it took %v, at most %v", took, test.most)
				}
			})
		})
	}
}

// TestPersistenceIsInterrupted: an interrupt ends the wait for a coordinator that is gone.
func TestPersistenceIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &persistence{patience: time.Hour, say: func(*spatev1.RunEvent) {},
			awake: func(ctx context.Context) error { <-ctx.Done(); return errBroken }}
		go func() { time.Sleep(time.Minute); cancel(errLeft) }()
		err := p.do(ctx, func(context.Context) error { return errBroken })
		if !errors.Is(err, errLeft) || errors.Is(err, errPatience) {
			t.Errorf("ended with %v", err)
		}
	})
}

// followed returns a follower of a fake service over real connections.
func followed(t *testing.T, address string, out *bytes.Buffer) *follower {
	t.Helper()
	conn, err := clustercmd.Dial(address, &command.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newFollower(spatev1.NewRunServiceClient(conn), "r", address, time.Minute, terminal.NewView(out, false))
}

// TestFollowThroughBreaks: each event is shown once, whatever happens to the connection.
func TestFollowThroughBreaks(t *testing.T) {
	all := slices.Concat(clienttest.Events()[:7], []*spatev1.RunEvent{clienttest.Ended(clienttest.WasDone, true)})
	var want bytes.Buffer
	whole := terminal.NewView(&want, false)
	for _, e := range all {
		whole.Show(e)
	}
	for cut := range all {
		t.Run(fmt.Sprintf("behind %d events", cut), func(t *testing.T) {
			t.Parallel()
			service := &clienttest.FakeService{Events: all, Cut: []int{cut, 1}}
			address, _ := service.Serve(t, "127.0.0.1:0")
			var out bytes.Buffer
			end, err := followed(t, address, &out).follow(t.Context())
			if err != nil || end.GetOutcome() != clienttest.WasDone {
				t.Fatalf("%v, %v", end, err)
			}
			var rest []string
			for _, line := range strings.SplitAfter(out.String(), "\n") {
				if !strings.HasPrefix(line, "! coordinator ") {
					rest = append(rest, line)
				}
			}
			if got := strings.Join(rest, ""); got != want.String() {
				t.Errorf("got\n%s\nwant\n%s", got, want.String())
			}
			if asked := service.Asked; asked[0] != 0 || asked[1] != uint64(cut) {
				t.Errorf("asked for those after %v", asked)
			}
		})
	}
}

// TestFollowThroughANewStart: the coordinator stops, and another process starts at its address.
func TestFollowThroughANewStart(t *testing.T) {
	first := &clienttest.FakeService{Events: clienttest.Events()[:3], Followed: make(chan struct{}, 1)}
	address, stop := first.Serve(t, "127.0.0.1:0")
	var out bytes.Buffer
	f := followed(t, address, &out)
	f.persist.say = func(e *spatev1.RunEvent) { // by then the old process is surely gone
		f.view.Show(e)
		if strings.HasPrefix(e.GetNotice().GetText(), "coordinator gone") {
			second := &clienttest.FakeService{
				Events: append(clienttest.Events()[:4], clienttest.Ended(clienttest.WasDone, true)),
			}
			second.Serve(t, address)
		}
	}
	go func() { <-first.Followed; stop() }()
	end, err := f.follow(t.Context())
	if err != nil || !end.GetComplete() {
		t.Fatalf("%v, %v", end, err)
	}
	if said := out.String(); strings.Count(said, "coordinator gone") != 1 ||
		strings.Count(said, "! coordinator back") != 1 || strings.Count(said, "2 stages on 2 agents") != 1 {
		t.Errorf("said\n%s", said)
	}
}

// stopClient is a client that records calls of StopRun.
type stopClient struct {
	spatev1.RunServiceClient

	mu      sync.Mutex
	stopped []bool // the immediately of each call
}

func (c *stopClient) StopRun(
	_ context.Context, q *spatev1.StopRunRequest, _ ...grpc.CallOption,
) (*spatev1.StopRunResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = append(c.stopped, q.GetImmediately())
	return &spatev1.StopRunResponse{}, nil
}

// TestInterrupts: the effect of Ctrl-C depends on the state of the run.
func TestInterrupts(t *testing.T) {
	for name, test := range map[string]struct {
		set     func(f *follower)
		times   int
		said    string
		stopped []bool
		left    error
	}{
		"once":        {func(*follower) {}, 1, "! stopping: waiting for requests in flight", []bool{false}, nil},
		"twice":       {func(*follower) {}, 2, "! stopping at once", []bool{false, true}, nil},
		"three times": {func(*follower) {}, 3, "! stopping at once", []bool{false, true}, errGaveUp},
		"in the queue": {func(f *follower) { f.waiting.Store(true) }, 1, "! removing the run from the queue",
			[]bool{false}, nil},
		"another's run": {func(f *follower) { f.watches = true }, 1, "", nil, errLeft},
		"unreachable":   {func(f *follower) { f.persist.gone.Store(true) }, 1, "", nil, errLeft},
	} {
		t.Run(name, func(t *testing.T) {
			client := &stopClient{}
			var out bytes.Buffer
			f := newFollower(client, "r", "host:1", time.Minute, terminal.NewView(&out, false))
			test.set(f)
			ctx, giveUp := context.WithCancelCause(t.Context())
			defer giveUp(nil)
			for n := range test.times {
				var passing sync.WaitGroup
				f.interrupted(ctx, n, giveUp, &passing)
				passing.Wait()
			}
			if !slices.Equal(client.stopped, test.stopped) || !errors.Is(context.Cause(ctx), test.left) ||
				!strings.Contains(out.String(), test.said) {
				t.Errorf("stopped %v, left for %v, said %q", client.stopped, context.Cause(ctx), out.String())
			}
		})
	}
}

// TestOutOfTheQueue: a run that never started has nothing to fetch.
func TestOutOfTheQueue(t *testing.T) {
	f := newFollower(&stopClient{}, "r", "host:1", time.Minute, terminal.NewView(&bytes.Buffer{}, false))
	f.waiting.Store(true)
	stop, fail := clienttest.Ended(clienttest.WasStopped, false).
		GetRunEnded(),
		clienttest.Ended(clienttest.HasFailed, false).
			GetRunEnded()
	if !f.neverBegan(stop) || f.neverBegan(fail) {
		t.Error("a run that was stopped while it waited never began; one that failed has a ledger that says why")
	}
	f.take(clienttest.Events()[0])
	if f.neverBegan(stop) {
		t.Error("it has begun")
	}
}

// TestLost: each error says what the user can do.
func TestLost(t *testing.T) {
	f := newFollower(&stopClient{}, "r", "host:1", 2*time.Minute, terminal.NewView(&bytes.Buffer{}, false))
	for want, err := range map[string]error{
		"spate runs stop r --coordinator host:1":                    errLeft,
		"was gone for 2m while run r":                               errPatience,
		"does not know run r: no":                                   status.Error(codes.NotFound, "no"),
		"cannot follow run r on the coordinator at host:1: refused": status.Error(codes.PermissionDenied, "refused"),
	} {
		if got := f.lost(err); !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
	for want, err := range map[string]error{
		"run r were not fetched: no disk\nto try again: spate runs fetch r --coordinator host:1": errors.New("no disk"),
		"were not fetched: it is running\n": errors.Join(status.Error(codes.FailedPrecondition,
			"it is running"), nil),
		"were not fetched: the coordinator was gone for 2m\n": errors.Join(errPatience, errBroken),
	} {
		if got := f.notFetched(err); !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if code := command.ExitCode(f.lost(errLeft)); code != command.ExitStopped {
		t.Errorf("code %d", code)
	}
}
