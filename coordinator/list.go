package coordinator

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/ledger"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Numbers of runs in a list.
const (
	defaultListed = 50
	maxListed     = 1000
)

// listed is the summary of a run on disk, with the modification time and size that its file had when it was read.
type listed struct {
	changed time.Time
	size    int64
	summary *spatev1.RunSummary
}

// ListRuns lists the runs in memory that have not ended, then the runs on disk. A ledger is read again only if its file
// has changed.
func (s runService) ListRuns(_ context.Context, q *spatev1.ListRunsRequest) (*spatev1.ListRunsResponse, error) {
	limit := int(min(cmp.Or(q.GetLimit(), defaultListed), maxListed))
	out, unended := s.c.unendedRuns()
	if len(out) < limit {
		ended, err := s.c.endedRuns(limit-len(out), unended)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out = append(out, ended...)
	}
	return &spatev1.ListRunsResponse{Runs: out[:min(limit, len(out))]}, nil
}

// unendedRuns returns the waiting runs, last first, and then the run in progress. unended has their ids.
func (c *Coordinator) unendedRuns() (out []*spatev1.RunSummary, unended map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unended = map[string]bool{}
	runs := slices.Clone(c.queue)
	slices.Reverse(runs)
	if c.active != nil {
		runs = append(runs, c.active)
	}
	for _, r := range runs {
		unended[r.id] = true
		out = append(out, r.summary())
	}
	return out, unended
}

// summary summarises a run in memory. Coordinator.mu is held.
func (r *run) summary() *spatev1.RunSummary {
	out := summaryOf(proto.CloneOf(r.record), r.plan())
	out.State = spatev1.RunState_RUN_STATE_WAITING
	if r.machine != nil {
		out.State = spatev1.RunState_RUN_STATE_RUNNING
	}
	for _, rec := range r.stages.Records() {
		if rec.GetEnded() {
			out.StagesEnded++
		}
	}
	return out
}

// summaryOf returns the summary that a run's record gives.
func summaryOf(rec *spatev1.RunRecord, plan string) *spatev1.RunSummary {
	submitted := rec.GetSubmitTime()
	if submitted == nil {
		submitted = rec.GetBeginTime()
	}
	return &spatev1.RunSummary{
		RunId: rec.GetRunId(), Plan: plan, SubmitTime: submitted, BeginTime: rec.GetBeginTime(),
		EndTime: rec.GetEndTime(),
		Outcome: rec.GetOutcome(), Complete: rec.GetComplete(), Reason: rec.GetReason(), Stages: rec.GetStages(),
		Submitter: rec.GetSubmitter(),
		Verdict:   rec.GetVerdict(),
	}
}

// endedRuns returns up to most runs on disk that are not in unended, most recently changed first.
func (c *Coordinator) endedRuns(most int, unended map[string]bool) ([]*spatev1.RunSummary, error) {
	if c.cfg.Local {
		return nil, nil
	}
	ids, err := c.runIDs()
	if err != nil {
		return nil, err
	}
	files := map[string]os.FileInfo{}
	for _, id := range ids {
		if info, err := os.Stat(c.ledgerPath(id)); err == nil && !unended[id] {
			files[id] = info
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return files[id] == nil })
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(files[b].ModTime().Compare(files[a].ModTime()), cmp.Compare(b, a))
	})
	var out []*spatev1.RunSummary
	for _, id := range ids[:min(most, len(ids))] {
		out = append(out, c.storedSummary(id, files[id]))
	}
	return out, nil
}

// storedSummary returns the summary of a run on disk, from the cache if the file has not changed.
func (c *Coordinator) storedSummary(id string, file os.FileInfo) *spatev1.RunSummary {
	c.mu.Lock()
	known, ok := c.listed[id]
	c.mu.Unlock()
	if ok && known.size == file.Size() && known.changed.Equal(file.ModTime()) {
		return known.summary
	}
	known = listed{changed: file.ModTime(), size: file.Size(), summary: readSummary(id, c.ledgerPath(id))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.listed) >= maxListed {
		clear(c.listed)
	}
	if known.summary.GetState() != spatev1.RunState_RUN_STATE_RUNNING {
		c.listed[id] = known
	}
	return known.summary
}

// readSummary reads a ledger's summary. A ledger that another process has locked counts as running. A ledger that
// cannot be read counts as broken, with the reason.
func readSummary(id, path string) *spatev1.RunSummary {
	out := &spatev1.RunSummary{RunId: id, State: spatev1.RunState_RUN_STATE_BROKEN}
	err := ledger.Peek(path, func(l *ledger.Ledger) error {
		record, err1 := l.Run()
		submission, err2 := l.Submission()
		stages, err3 := l.Stages()
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		out = summaryOf(record, submission.GetName())
		out.RunId, out.State = id, spatev1.RunState_RUN_STATE_ENDED
		if record.GetEndTime() == nil {
			out.State = spatev1.RunState_RUN_STATE_BROKEN
		}
		for _, s := range stages {
			if s.GetEnded() {
				out.StagesEnded++
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrLocked):
		return &spatev1.RunSummary{RunId: id, State: spatev1.RunState_RUN_STATE_RUNNING}
	case err != nil:
		return &spatev1.RunSummary{RunId: id, State: spatev1.RunState_RUN_STATE_BROKEN, Reason: err.Error()}
	}
	return out
}
