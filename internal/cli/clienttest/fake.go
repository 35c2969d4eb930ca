// Package clienttest has a run service for tests of commands, with the runs and events that a test gives it.
package clienttest

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
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// FakeService is a coordinator's run service with the runs and events that a test gives it.
type FakeService struct {
	spatev1.UnimplementedRunServiceServer

	mu     sync.Mutex
	Runs   []*spatev1.RunSummary
	Events []*spatev1.RunEvent // of each run
	// Calls of FollowRun, in turn, break after that many events. Later calls do not break.
	Cut     []int
	Ledger  []byte
	Waiting uint32
	Asked   []uint64 // the after of each call of FollowRun
	Stopped []*spatev1.StopRunRequest
	Submits []*spatev1.SubmitRunRequest
	changed chan struct{} // closed and replaced by set

	Followed chan struct{} // receives each call of FollowRun, if there is room
}

// Set changes the service under its lock.
func (s *FakeService) Set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// ListRuns returns the first runs.
func (s *FakeService) ListRuns(_ context.Context, q *spatev1.ListRunsRequest) (*spatev1.ListRunsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := s.Runs
	if n := int(q.GetLimit()); n > 0 {
		runs = runs[:min(n, len(runs))]
	}
	return &spatev1.ListRunsResponse{Runs: slices.Clone(runs)}, nil
}

// SubmitRun notes what is submitted, and calls it new-run.
func (s *FakeService) SubmitRun(_ context.Context, q *spatev1.SubmitRunRequest) (*spatev1.SubmitRunResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Submits = append(s.Submits, q)
	return &spatev1.SubmitRunResponse{RunId: "new-run", Waiting: s.Waiting}, nil
}

// StopRun notes the request.
func (s *FakeService) StopRun(_ context.Context, q *spatev1.StopRunRequest) (*spatev1.StopRunResponse, error) {
	s.Set(func() { s.Stopped = append(s.Stopped, q) })
	return &spatev1.StopRunResponse{}, nil
}

// FollowRun sends the events after q.After, numbered from 1, and waits for more until one is the run's end.
func (s *FakeService) FollowRun(q *spatev1.FollowRunRequest, stream spatev1.RunService_FollowRunServer) error {
	most := -1
	s.mu.Lock()
	s.Asked = append(s.Asked, q.GetAfter())
	if len(s.Cut) > 0 {
		most, s.Cut = s.Cut[0], s.Cut[1:]
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	select {
	case s.Followed <- struct{}{}:
	default:
	}
	for n := q.GetAfter(); ; {
		s.mu.Lock()
		events, changed := s.Events, s.changed
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

// FetchLedger sends Ledger in pieces.
func (s *FakeService) FetchLedger(q *spatev1.FetchLedgerRequest, stream spatev1.RunService_FetchLedgerServer) error {
	s.mu.Lock()
	ledger := s.Ledger
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

// Serve serves on loopback until the test ends, and returns the address. Port 0 takes a free one.
func (s *FakeService) Serve(t *testing.T, address string) (addr string, stop func()) {
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

// LedgerOf returns the file of a ledger with a run and no stages.
func LedgerOf(t *testing.T, outcome spatev1.Outcome, reason string, change ...func(*spatev1.RunRecord)) []byte {
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

// Ended returns the event that ends a run.
func Ended(outcome spatev1.Outcome, complete bool) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{Outcome: outcome,
		Complete: complete}}}
}

// Summary returns a run of four stages.
func Summary(id string, state spatev1.RunState) *spatev1.RunSummary {
	return &spatev1.RunSummary{RunId: id, State: state, Stages: 4}
}

// Short names for values in the tests.
const (
	IsWaiting = spatev1.RunState_RUN_STATE_WAITING
	IsRunning = spatev1.RunState_RUN_STATE_RUNNING
	HasEnded  = spatev1.RunState_RUN_STATE_ENDED
	IsBroken  = spatev1.RunState_RUN_STATE_BROKEN

	WasDone    = spatev1.Outcome_OUTCOME_DONE
	WasStopped = spatev1.Outcome_OUTCOME_STOPPED
	HasFailed  = spatev1.Outcome_OUTCOME_FAILED
)

// Events returns the events of a short run: one stage that succeeds, one that fails.
func Events() []*spatev1.RunEvent {
	began := func(i uint32) *spatev1.RunEvent {
		return &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
			StageIndex: i, Target: "sim", Workload: "300:15", Load: "concurrency 8",
			Expected: durationpb.New(4 * time.Second),
		}}}
	}
	return []*spatev1.RunEvent{
		{Event: &spatev1.RunEvent_RunStarted{RunStarted: &spatev1.RunStarted{Stages: 2,
			Agents: []*spatev1.AgentInfo{{Name: "a"}, {Name: "b"}}}}},
		began(0),
		{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
			StageIndex: 0, Elapsed: durationpb.New(2 * time.Second), Completed: 1234, Failed: 2, InFlight: 8,
			OutputTokensPerSecond: new(45678.4),
			Ttft:                  &spatev1.Quantiles{P50Ms: 12.34, P99Ms: 1234.5},
			Tpot:                  &spatev1.Quantiles{P50Ms: 5.016, P99Ms: 9.5},
		}}},
		{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{StageIndex: 0, Complete: true}}},
		began(1),
		{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{StageIndex: 1,
			Failure: "target sim is dead"}}},
		{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{
			Severity: spatev1.Severity_SEVERITY_WARNING, Text: "careful"}}},
		{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{Outcome: spatev1.Outcome_OUTCOME_FAILED}}},
	}
}

// OfAllKinds returns runs in every state.
func OfAllKinds() []*spatev1.RunSummary {
	at := func(second int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(second, 0)) }
	waiting := Summary("quick-3", IsWaiting)
	waiting.SubmitTime, waiting.Plan = at(2000), "quick"
	running := Summary("quick-2", IsRunning)
	running.SubmitTime, running.BeginTime, running.StagesEnded, running.Submitter = at(1000), at(1000), 2, "me"
	running.SubmitterAddress = "10.0.0.7"
	done := Summary("quick-1", HasEnded)
	done.BeginTime, done.EndTime, done.Outcome, done.Complete, done.StagesEnded = at(100), at(225), WasDone, true, 4
	done.Verdict = "SUSPECT"
	partial := Summary("quick-0", HasEnded)
	partial.BeginTime, partial.EndTime, partial.Outcome, partial.StagesEnded = at(100), at(160), WasDone, 4
	failed := Summary("old-2", HasEnded)
	failed.BeginTime, failed.EndTime, failed.Outcome, failed.Reason = at(100), at(101), HasFailed, "agent a was lost"
	return []*spatev1.RunSummary{waiting, running, done, partial, failed, Summary("old-1", IsBroken)}
}

// Run runs a command line, whose first argument is the name of one of the commands, and returns its exit code and what
// it printed.
func Run(t *testing.T, commands []*cobra.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(commands...)
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(t.Context())
	if err != nil && !errors.Is(err, command.ErrPrinted) {
		errs.WriteString("spate: " + err.Error() + "\n")
	}
	return command.ExitCode(err), out.String(), errs.String()
}
