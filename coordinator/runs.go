package coordinator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// runService is what clients call.
type runService struct {
	spatev1.UnimplementedRunServiceServer
	c *Coordinator
}

// SubmitRun checks a plan and begins its run.
func (s runService) SubmitRun(_ context.Context, q *spatev1.SubmitRunRequest) (*spatev1.SubmitRunResponse, error) {
	submission, err := check(q)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.c.haveDatasets(q.GetDatasets()); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	r, err := s.c.begin(submission)
	if err != nil {
		return nil, err
	}
	return &spatev1.SubmitRunResponse{RunId: r.id}, nil
}

// submission is a request whose plan is right.
type submission struct {
	plan    *plans.Plan
	stages  []*spatev1.Stage
	secrets map[string]string
	request *spatev1.SubmitRunRequest
}

// check validates a request.
func check(q *spatev1.SubmitRunRequest) (submission, error) {
	none := submission{}
	if f := q.GetRecords(); f != "" && f != "jsonl" && f != "parquet" {
		return none, fmt.Errorf("request rows in the form %.32q: want jsonl, parquet or none", f)
	}
	plan, err := plans.Load(q.GetPlanPath(), q.GetPlanYaml(), plans.Options{})
	if err != nil {
		return none, err
	}
	simulated := map[string][]string{}
	for name, e := range q.GetSimulated() {
		simulated[name] = e.GetUrls()
	}
	stages, err := plan.Stages(plans.Resources{Endpoints: simulated, Datasets: q.GetDatasets(), Lexicons: q.GetLexicons()})
	if err != nil {
		return none, err
	}
	secrets, err := plan.Secrets(func(reference string) (string, error) {
		if v, ok := q.GetSecrets()[reference]; ok {
			return v, nil
		}
		return "", fmt.Errorf("the value of %s did not come with the plan", reference)
	})
	return submission{plan, stages, secrets, q}, err
}

// secretsOf are the values a target's agents need.
func secretsOf(t *spatev1.Target, values map[string]string) map[string]string {
	out := map[string]string{}
	for _, reference := range plans.References(t) {
		out[reference] = values[reference]
	}
	return out
}

// begin starts a run, if none is in progress.
func (c *Coordinator) begin(s submission) (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosing
	}
	if c.active != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "run %s is in progress: wait for its end, or stop it", c.active.id)
	}
	now, wall := clock.Now(), time.Now()
	r, err := c.newRun(s, now, wall)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the run's ledger cannot be made: %v", err)
	}
	c.active = r
	c.remember(r)
	c.log.Info("run begins", "run", r.id, "stages", len(s.stages), "agents", len(c.sessions))
	for _, session := range c.sessions {
		r.machine.Connected(now, session.info, session.incarnation, nil, false)
	}
	r.machine.Tick(now)
	c.carryOut(r)
	c.workers.Go(func() { c.conduct(r) })
	return r, nil
}

// newRun makes a run and its ledger.
func (c *Coordinator) newRun(s submission, now clock.Instant, wall time.Time) (*run, error) {
	id := runID(s.plan.Name(), wall)
	record := &spatev1.RunRecord{
		RunId: id, PlanYaml: s.plan.Source(), BeginTime: timestamppb.New(wall), Version: c.cfg.Version,
		Records: s.request.GetRecords(),
	}
	if speed, simulation := s.plan.Compression(); simulation {
		record.TimeCompression = speed
	}
	for _, st := range s.stages {
		record.Stages += plans.EstimateOf(st).Stages
	}
	if err := os.MkdirAll(c.runDir(id), 0o755); err != nil {
		return nil, err
	}
	ledger, err := aggregate.Create(c.ledgerPath(id), record)
	if err != nil {
		return nil, err
	}
	cfg := c.cfg.Run
	cfg.MinAgents = int(s.request.GetMinAgents())
	if d := s.request.GetAgentsTimeout(); d != nil {
		cfg.AgentsTimeout = d.AsDuration()
	}
	cfg.Records = record.GetRecords() != ""
	return &run{
		id: id, plan: s.plan.Name(), record: record, ledger: ledger, secrets: s.secrets, sink: c.openSink(id),
		machine: lifecycle.New(cfg, id, s.stages, now, wall), events: newEventLog(),
		toClose: make(chan lifecycle.CloseStage, 1), ended: make(chan struct{}), stages: map[uint32]*measured{},
	}, nil
}

// openSink opens the run's sink. One that cannot be opened changes no result.
func (c *Coordinator) openSink(id string) sink.Sink {
	if c.cfg.OpenSink == nil {
		return sink.Discard
	}
	s, err := c.cfg.OpenSink(c.runDir(id))
	if err != nil {
		c.log.Error("nothing will be written while the run goes on", "run", id, "error", err)
		return sink.Discard
	}
	return s
}

// maxRecent is how many runs can be followed from memory. Older ones are on disk.
const maxRecent = 8

// remember keeps a run for its followers, and forgets the oldest.
func (c *Coordinator) remember(r *run) {
	c.runs[r.id] = r
	c.recent = append(c.recent, r.id)
	if len(c.recent) > maxRecent {
		delete(c.runs, c.recent[0])
		c.recent = c.recent[1:]
	}
}

// runID names a run: what it is, when it began, and something random against a clash.
func runID(plan string, wall time.Time) string {
	var b [3]byte
	rand.Read(b[:]) // never fails, by its contract
	return fmt.Sprintf("%s-%s-%s", plan, wall.UTC().Format("20060102T150405Z"), hex.EncodeToString(b[:]))
}

// runDir is where a run's ledger lies, and its sink's spool.
func (c *Coordinator) runDir(id string) string {
	return cmp.Or(c.cfg.RunDir, filepath.Join(c.cfg.DataDir, id))
}

func (c *Coordinator) ledgerPath(id string) string { return filepath.Join(c.runDir(id), "ledger.db") }

// find returns a run that is in memory.
func (c *Coordinator) find(id string) (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[id]; r != nil {
		return r, nil
	}
	return nil, status.Errorf(codes.NotFound, "run %.80q is not known; if it ended before this coordinator started, only its ledger "+
		"can be fetched", id)
}

// FollowRun sends a run's events from its begin until its end.
func (s runService) FollowRun(q *spatev1.FollowRunRequest, stream spatev1.RunService_FollowRunServer) error {
	r, err := s.c.find(q.GetRunId())
	if err != nil {
		return err
	}
	for number := uint64(0); ; {
		events, last, ended, more := r.events.after(number)
		for _, e := range events {
			if err := stream.Send(&spatev1.FollowRunResponse{Event: e}); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		number = last
		select {
		case <-more:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// StopRun ends a run early. Stopping a run that has ended changes nothing.
func (s runService) StopRun(_ context.Context, q *spatev1.StopRunRequest) (*spatev1.StopRunResponse, error) {
	r, err := s.c.find(q.GetRunId())
	if err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.active == r {
		s.c.log.Info("run is to stop", "run", r.id, "immediately", q.GetImmediately())
		s.c.feed(func(r *run, at clock.Instant) { r.machine.Stop(at, q.GetImmediately()) })
	}
	return &spatev1.StopRunResponse{}, nil
}

// idPattern keeps ids from naming other files.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// pieceSize is the size of the pieces in which files are sent.
const pieceSize = 256 << 10

// FetchLedger sends the file of a run that has ended.
func (s runService) FetchLedger(q *spatev1.FetchLedgerRequest, stream spatev1.RunService_FetchLedgerServer) error {
	id := q.GetRunId()
	if !idPattern.MatchString(id) {
		return status.Errorf(codes.InvalidArgument, "run id %.80q: want letters, digits, dots, dashes and underscores", id)
	}
	if s.c.runInProgress(id) != nil {
		return status.Errorf(codes.FailedPrecondition, "run %s goes on: follow it to its end, or stop it, and fetch then", id)
	}
	f, err := os.Open(s.c.ledgerPath(id))
	if errors.Is(err, os.ErrNotExist) {
		return status.Errorf(codes.NotFound, "there is no run %s here", id)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "ledger of run %s: %v", id, err)
	}
	defer f.Close()
	return inPieces(f, func(piece []byte) error { return stream.Send(&spatev1.FetchLedgerResponse{Data: piece}) })
}
