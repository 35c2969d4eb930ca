package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// runService is the service that clients call.
type runService struct {
	spatev1.UnimplementedRunServiceServer
	c *Coordinator
}

// RunService returns the service that clients call, for callers in this process. They must check who may call it: the
// roles of certificates are checked where connections are served.
func (c *Coordinator) RunService() spatev1.RunServiceServer { return runService{c: c} }

// RunDir returns the directory with the ledger of a run. The directory need not exist; the run's id must be valid.
func (c *Coordinator) RunDir(id string) string { return c.storage.Dir(id) }

// SubmitRun checks a plan and begins its run, or queues it after the runs before it.
func (s runService) SubmitRun(ctx context.Context, q *spatev1.SubmitRunRequest) (*spatev1.SubmitRunResponse, error) {
	if err := access.CheckClient(q); err != nil {
		return nil, err
	}
	caller, policy := access.CallerOf(ctx), s.c.cfg.Access.Policy()
	if err := s.c.permit(caller, policy.MaySubmit(caller)); err != nil {
		return nil, err
	}
	submission, err := check(q)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.c.datasets.Check(q.GetDatasets()); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if err := s.c.permit(caller, policy.CheckTargets(caller, submission.stages)); err != nil {
		return nil, err
	}
	submission.submitter = caller
	s.c.settle(ctx)
	r, waiting, err := s.c.submit(ctx, submission)
	if err != nil {
		return nil, err
	}
	s.c.record(access.AuditEntry{Action: access.Submit, Caller: submission.submitter, Run: r.id})
	return &spatev1.SubmitRunResponse{RunId: r.id, Waiting: uint32(waiting)}, nil
}

// submit accepts a run, which begins at once or when its agents are free. It returns its place in the queue, 0 if it
// begins at once. It blocks until all that the answer says is durable, and fails when ctx ends first.
func (c *Coordinator) submit(ctx context.Context, s submission) (r *run, waiting int, err error) {
	if err := c.queue.reservePlace(); err != nil {
		return nil, 0, err
	}
	r, err = c.queue.create(s, time.Now())
	waiting, written, err := c.queue.enqueue(r, err)
	if err != nil {
		return nil, 0, status.Errorf(codes.Internal, "the run's ledger cannot be created: %v", err)
	}
	return r, waiting, await(ctx, written)
}

// await waits for a channel to be closed. Its error is a status.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// When the members have not changed for quietMembers, all are taken to have arrived. settleTimeout bounds the wait.
const (
	quietMembers  = time.Second
	settleTimeout = 5 * time.Second
)

// settle blocks until agents that were started together have found each other, so that a plan is split over all of
// them.
func (c *Coordinator) settle(ctx context.Context) {
	c.mu.Lock()
	cluster := c.cluster
	c.mu.Unlock()
	if cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := cluster.Stable(ctx, quietMembers); err != nil {
		c.log.Info("cluster membership keeps changing: the run begins with the agents found so far", "error", err)
	}
}

// submission is a request with a valid plan.
type submission struct {
	plan      *plans.Plan
	stages    []*spatev1.Stage
	secrets   map[string]string
	request   *spatev1.SubmitRunRequest
	submitter access.Caller
}

// mostPriority is the highest priority of a run.
const mostPriority = 100

// check validates a request.
func check(q *spatev1.SubmitRunRequest) (submission, error) {
	none := submission{}
	if f := q.GetRecords(); f != "" && f != "jsonl" && f != "parquet" {
		return none, fmt.Errorf("request rows in the form %.32q: want jsonl, parquet or none", f)
	}
	if p := q.GetPriority(); p < -mostPriority || p > mostPriority {
		return none, fmt.Errorf("priority %d: want %d to %d", p, -mostPriority, mostPriority)
	}
	plan, err := plans.Load(q.GetPlanPath(), q.GetPlanYaml(), plans.Options{})
	if err != nil {
		return none, err
	}
	if most := plan.Proto().GetAgents().GetCount(); most > 0 && q.GetMinAgents() > most {
		return none, fmt.Errorf("min_agents %d: the plan takes %d agents: give one of the two", q.GetMinAgents(), most)
	}
	served := func(t *spatev1.Target) bool { return t.GetServer() != nil }
	if !q.GetServes() && slices.ContainsFunc(plan.Targets(), served) {
		return none, errors.New("targets of the plan have servers, which only the command `spate run` starts")
	}
	simulated := map[string][]string{}
	for name, e := range q.GetSimulated() {
		simulated[name] = e.GetUrls()
	}
	stages, err := plan.Stages(plans.Resources{Endpoints: simulated, Datasets: q.GetDatasets(),
		Lexicons: q.GetLexicons()})
	if err != nil {
		return none, err
	}
	secrets, err := plan.Secrets(func(reference string) (string, error) {
		if v, ok := q.GetSecrets()[reference]; ok {
			return v, nil
		}
		return "", fmt.Errorf("the value of %s did not come with the plan", reference)
	})
	return submission{plan: plan, stages: stages, secrets: secrets, request: q}, err
}

// secretsOf returns the secrets that a target's agents need, as far as they are known: a restarted coordinator knows
// none.
func secretsOf(t *spatev1.Target, values map[string]string) map[string]string {
	out := map[string]string{}
	for _, reference := range secret.Of(t) {
		if value, ok := values[reference]; ok {
			out[reference] = value
		}
	}
	return out
}

// checkID refuses invalid run ids, because an id names a directory.
func checkID(id string) error {
	if !storage.Valid(id) {
		return status.Errorf(codes.InvalidArgument, "run id %.80q: want letters, digits, dots, dashes and underscores",
			id)
	}
	return nil
}

// FindDataset reports whether a dataset is in the store.
func (s runService) FindDataset(
	ctx context.Context, q *spatev1.FindDatasetRequest,
) (*spatev1.FindDatasetResponse, error) {
	return s.c.datasets.FindDataset(ctx, q)
}

// PutDataset receives a dataset and adds it to the store.
func (s runService) PutDataset(stream spatev1.RunService_PutDatasetServer) error {
	caller := access.CallerOf(stream.Context())
	if err := s.c.permit(caller, s.c.cfg.Access.Policy().MaySubmit(caller)); err != nil {
		return err
	}
	return s.c.datasets.PutDataset(stream)
}

// FollowRun sends a run's events until the run ends: from memory and live or, for a run that is only on disk, from its
// ledger.
func (s runService) FollowRun(q *spatev1.FollowRunRequest, stream spatev1.RunService_FollowRunServer) error {
	r := s.c.queue.known(q.GetRunId())
	if r == nil {
		return s.replay(q, stream)
	}
	for number := q.GetAfter(); ; {
		events, ended, more := r.events.After(number)
		for _, e := range events {
			number = e.GetNumber()
			if e.GetEvent().GetStageWindow() != nil && !q.GetWindows() {
				continue
			}
			if err := stream.Send(inPlanTime(e, r.record.GetTimeCompression())); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-more:
		case <-r.ended:
			if events, ended, _ := r.events.After(number); len(events) == 0 && !ended {
				return s.c.gone(r.id)
			}
		case <-s.c.closing:
			if _, ended, _ := r.events.After(number); !ended {
				return errClosing
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// replay sends the events of a run that is only on disk.
func (s runService) replay(q *spatev1.FollowRunRequest, stream spatev1.RunService_FollowRunServer) error {
	var events []*spatev1.FollowRunResponse
	ended := false
	err := s.c.peek(q.GetRunId(), func(l *ledger.Ledger) error {
		record, err := l.Run()
		if err != nil {
			return err
		}
		return l.Events(0, func(e *spatev1.FollowRunResponse) error {
			ended = ended || e.GetEvent().GetRunEnded() != nil
			if e.GetNumber() > q.GetAfter() {
				events = append(events, inPlanTime(e, record.GetTimeCompression()))
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	if !ended {
		return s.c.gone(q.GetRunId())
	}
	return nil
}

// inPlanTime returns an event as followers see it: with the loads, rates and latencies of the plan, if a simulation
// compresses time.
func inPlanTime(e *spatev1.FollowRunResponse, speed float64) *spatev1.FollowRunResponse {
	if speed <= 1 {
		return e
	}
	return &spatev1.FollowRunResponse{Number: e.GetNumber(), Event: results.EventInPlanTime(e.GetEvent(), speed)}
}

// gone is the status of a run that has not ended, and is not in progress here.
func (c *Coordinator) gone(id string) error {
	if c.leaves() {
		return errClosing // the next coordinator continues it
	}
	return status.Errorf(codes.FailedPrecondition,
		"run %s was interrupted and is not in progress: what it measured can be fetched", id)
}

// peek reads the ledger of a run that is only on disk. Its error is a status.
func (c *Coordinator) peek(id string, fn func(*ledger.Ledger) error) error {
	if err := checkID(id); err != nil {
		return err
	}
	err := ledger.Peek(c.storage.Ledger(id), fn)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return status.Errorf(codes.NotFound, "there is no run %s here", id)
	case err != nil:
		return status.Errorf(codes.FailedPrecondition, "run %s: %v", id, err)
	}
	return nil
}

// record writes down who did something. What was done stands even if that is not possible, so that a run can be stopped
// when the disk is full.
func (c *Coordinator) record(e access.AuditEntry) {
	if err := c.audit.Add(e); err != nil {
		c.log.Error("who did what cannot be written down", "error", err, "action", e.Action, "by", e.By,
			"address", e.Address, "run", e.Run, "agents", e.Agents)
	}
}

// StopRun ends a run early. Stopping a run that has ended changes nothing. The stop is durable when StopRun answers.
func (s runService) StopRun(ctx context.Context, q *spatev1.StopRunRequest) (*spatev1.StopRunResponse, error) {
	id, caller := q.GetRunId(), access.CallerOf(ctx)
	if s.c.queue.unended(id) {
		if err := s.c.mayEnd(caller, id); err != nil {
			return nil, err
		}
		defer s.c.record(access.AuditEntry{
			Action: access.Stop, Caller: caller, Run: id, Immediately: q.GetImmediately(),
		})
	}
	if err := s.c.awaitRebuilt(ctx, id); err != nil {
		return nil, err
	}
	written := s.c.queue.stop(id, q.GetImmediately(), caller.String())
	if written == nil {
		return &spatev1.StopRunResponse{}, s.c.peek(id, func(*ledger.Ledger) error { return nil })
	}
	return &spatev1.StopRunResponse{}, await(ctx, written)
}

// ReportServer tells a run of one of its servers. A run that has ended is not told.
func (s runService) ReportServer(
	ctx context.Context, q *spatev1.ReportServerRequest,
) (*spatev1.ReportServerResponse, error) {
	id := q.GetRunId()
	if err := s.c.mayEnd(access.CallerOf(ctx), id); err != nil {
		return nil, err
	}
	if err := s.c.awaitRebuilt(ctx, id); err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if r := s.c.queue.runs[id]; r != nil {
		r.feed(func(m *lifecycle.Run, at clock.Instant) { m.ServerReported(at, q) })
	}
	return &spatev1.ReportServerResponse{}, nil
}

// FetchLedger sends the ledger file of a run that has ended.
func (s runService) FetchLedger(q *spatev1.FetchLedgerRequest, stream spatev1.RunService_FetchLedgerServer) error {
	id := q.GetRunId()
	if err := checkID(id); err != nil {
		return err
	}
	if s.c.queue.unended(id) {
		return status.Errorf(codes.FailedPrecondition,
			"run %s is waiting or in progress: follow it to its end, or stop it, then fetch it", id)
	}
	f, err := os.Open(s.c.storage.Ledger(id))
	if errors.Is(err, os.ErrNotExist) {
		return status.Errorf(codes.NotFound, "there is no run %s here", id)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "ledger of run %s: %v", id, err)
	}
	defer f.Close()
	return store.SendPieces(f, func(piece []byte) error {
		return stream.Send(&spatev1.FetchLedgerResponse{Data: piece})
	})
}
