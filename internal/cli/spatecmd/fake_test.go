package spatecmd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// fakeService is a coordinator's run service with the runs and events that a test gives it.
type fakeService struct {
	spatev1.UnimplementedRunServiceServer

	mu     sync.Mutex
	runs   []*spatev1.RunSummary
	events []*spatev1.RunEvent // of each run
	// Calls of FollowRun, in turn, break after that many events. Later calls do not break.
	cut     []int
	ledger  []byte
	waiting uint32
	asked   []uint64 // the after of each call of FollowRun
	stopped []*spatev1.StopRunRequest
	submits []*spatev1.SubmitRunRequest
	changed chan struct{} // closed and replaced by set

	followed chan struct{} // receives each call of FollowRun, if there is room
}

// set changes the service under its lock.
func (s *fakeService) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *fakeService) ListRuns(_ context.Context, q *spatev1.ListRunsRequest) (*spatev1.ListRunsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := s.runs
	if n := int(q.GetLimit()); n > 0 {
		runs = runs[:min(n, len(runs))]
	}
	return &spatev1.ListRunsResponse{Runs: slices.Clone(runs)}, nil
}

func (s *fakeService) SubmitRun(_ context.Context, q *spatev1.SubmitRunRequest) (*spatev1.SubmitRunResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submits = append(s.submits, q)
	return &spatev1.SubmitRunResponse{RunId: "new-run", Waiting: s.waiting}, nil
}

func (s *fakeService) StopRun(_ context.Context, q *spatev1.StopRunRequest) (*spatev1.StopRunResponse, error) {
	s.set(func() { s.stopped = append(s.stopped, q) })
	return &spatev1.StopRunResponse{}, nil
}

// FollowRun sends the events after q.After, numbered from 1, and waits for more until one is the run's end.
func (s *fakeService) FollowRun(q *spatev1.FollowRunRequest, stream spatev1.RunService_FollowRunServer) error {
	most := -1
	s.mu.Lock()
	s.asked = append(s.asked, q.GetAfter())
	if len(s.cut) > 0 {
		most, s.cut = s.cut[0], s.cut[1:]
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	select {
	case s.followed <- struct{}{}:
	default:
	}
	for n := q.GetAfter(); ; {
		s.mu.Lock()
		events, changed := s.events, s.changed
		s.mu.Unlock()
		for ; n < uint64(len(events)); n++ {
			if most == 0 {
				return status.Error(codes.Unavailable, "the cable was cut")
			}
			most--
			if err := stream.Send(&spatev1.FollowRunResponse{Event: events[n], Number: n + 1}); err != nil {
				return err
			}
			if events[n].GetRunEnded() != nil {
				return nil
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *fakeService) FetchLedger(q *spatev1.FetchLedgerRequest, stream spatev1.RunService_FetchLedgerServer) error {
	s.mu.Lock()
	ledger := s.ledger
	s.mu.Unlock()
	if ledger == nil {
		return status.Errorf(codes.NotFound, "there is no run %s here", q.GetRunId())
	}
	for piece := range slices.Chunk(ledger, 1000) {
		if err := stream.Send(&spatev1.FetchLedgerResponse{Data: piece}); err != nil {
			return err
		}
	}
	return nil
}

// serve serves on loopback until the test ends, and returns the address. Port 0 takes a free one.
func (s *fakeService) serve(t *testing.T, address string) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	spatev1.RegisterRunServiceServer(server, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	stop = func() { server.Stop(); <-done }
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// ledgerOf returns the file of a ledger with a run and no stages.
func ledgerOf(t *testing.T, outcome spatev1.Outcome, reason string, change ...func(*spatev1.RunRecord)) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	run := &spatev1.RunRecord{
		RunId: "r", PlanYaml: []byte("name: r\ntargets: [{name: t, simulator: {}}]\nworkloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], requests: 1}]\n"),
		BeginTime: timestamppb.New(time.Unix(1000, 0)), Version: "v", Outcome: outcome, Reason: reason,
	}
	if outcome != spatev1.Outcome_OUTCOME_UNSPECIFIED {
		run.EndTime = timestamppb.New(time.Unix(1060, 0))
	}
	for _, f := range change {
		f(run)
	}
	ledger, err := ledger.Create(path, ledger.Change{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// spate runs a command line in its own directory, and returns its exit code and output.
func spate(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&err)
	failed := root.ExecuteContext(t.Context())
	if failed != nil && !errors.Is(failed, errAlreadySaid) {
		err.WriteString("spate: " + failed.Error() + "\n")
	}
	return exitCode(failed), out.String(), err.String()
}

func ended(outcome spatev1.Outcome, complete bool) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{Outcome: outcome,
		Complete: complete}}}
}

func summary(id string, state spatev1.RunState) *spatev1.RunSummary {
	return &spatev1.RunSummary{RunId: id, State: state, Stages: 4}
}
