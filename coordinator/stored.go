package coordinator

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Numbers of runs in a list.
const (
	defaultListed = 50
	maxListed     = 1000
)

// ListRuns lists the runs in memory that have not ended, then the runs on disk. A ledger is read again only if its file
// has changed.
func (s runService) ListRuns(_ context.Context, q *spatev1.ListRunsRequest) (*spatev1.ListRunsResponse, error) {
	if id := q.GetRunId(); id != "" {
		one, err := s.c.find(id)
		return &spatev1.ListRunsResponse{Runs: one}, err
	}
	limit := int(min(cmp.Or(q.GetLimit(), defaultListed), maxListed))
	out, unended := s.c.unendedRuns()
	if len(out) < limit && !s.c.cfg.Local {
		ended, err := s.c.storage.Newest(limit-len(out), unended)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out = append(out, ended...)
	}
	return &spatev1.ListRunsResponse{Runs: out[:min(limit, len(out))]}, nil
}

// find returns the summary of one run. Its error is a status.
func (c *Coordinator) find(id string) ([]*spatev1.RunSummary, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	unended, _ := c.unendedRuns()
	if i := slices.IndexFunc(unended, func(r *spatev1.RunSummary) bool { return r.GetRunId() == id }); i >= 0 {
		return unended[i : i+1], nil
	}
	file, err := os.Stat(c.storage.Ledger(id))
	if err != nil || !file.Mode().IsRegular() {
		return nil, status.Errorf(codes.NotFound, "there is no run %s here", id)
	}
	return []*spatev1.RunSummary{c.storage.Summary(id, file)}, nil
}

// unendedRuns returns the waiting runs, last first, and then the runs in progress, newest first. unended has their ids.
func (c *Coordinator) unendedRuns() (out []*spatev1.RunSummary, unended map[string]bool) {
	out, unended = c.queue.summaries(), map[string]bool{}
	for _, s := range out {
		unended[s.GetRunId()] = true
	}
	slices.Reverse(out)
	return out, unended
}

// tidy deletes what is beyond the limits: runs that have ended, and datasets that no waiting or current run uses. A
// local coordinator has one run and leaves its datasets to the command.
func (c *Coordinator) tidy(now time.Time) {
	if c.cfg.Local {
		return
	}
	c.tidyRuns(now)
	gone, err := c.datasets.Store.Prune(c.cfg.KeepDatasets, now, c.datasetsInUse())
	for _, d := range gone {
		c.log.Info("dataset removed: it is beyond the limits", "sha256", d.Name, "bytes", d.Bytes, "used", d.Used)
	}
	if err != nil {
		c.log.Warn("datasets cannot be removed", "error", err)
	}
}

// datasetsInUse returns the datasets of the waiting runs and the runs in progress.
func (c *Coordinator) datasetsInUse() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]bool{}
	for _, r := range slices.Concat(c.queue.active, c.queue.waiting) {
		for _, stage := range r.submission.GetPlan() {
			for _, source := range content.Sources(stage) {
				if source.Rows != nil {
					out[source.Rows.GetSha256()] = true
				}
			}
		}
	}
	return out
}

// tidyRuns deletes ended runs beyond the limits, and the remains of interrupted deletions.
func (c *Coordinator) tidyRuns(now time.Time) {
	for _, dir := range c.storage.Remains() {
		c.log.Info("deleting what is left of a removed run", "directory", dir, "error", os.RemoveAll(dir))
	}
	if c.cfg.KeepRuns == (files.Limits{}) {
		return
	}
	items, err := c.storage.Items(c.needed)
	if err != nil {
		c.log.Warn("runs beyond the limits cannot be removed", "error", err)
	}
	for _, i := range c.cfg.KeepRuns.Excess(items, now) {
		if err := c.remove(i.Name); err != nil {
			c.log.Warn("a run beyond the limits cannot be removed", "run", i.Name, "error", err)
			continue
		}
		c.log.Info("run removed: it is beyond the limits", "run", i.Name, "bytes", i.Bytes, "ended", i.Used)
	}
}

// RemoveRun deletes a run that no process writes.
func (s runService) RemoveRun(ctx context.Context, q *spatev1.RemoveRunRequest) (*spatev1.RemoveRunResponse, error) {
	caller := access.CallerOf(ctx)
	if err := s.c.mayEnd(caller, q.GetRunId()); err != nil {
		return nil, err
	}
	if err := s.c.remove(q.GetRunId()); err != nil {
		return nil, err
	}
	if h := s.c.pastRuns(); h != nil {
		if err := h.Remove(q.GetRunId()); err != nil {
			s.c.log.Warn("a removed run is still in the history", "run", q.GetRunId(), "error", err)
		}
	}
	s.c.log.Info("run removed on request", "run", q.GetRunId())
	s.c.record(access.AuditEntry{Action: access.Remove, Caller: caller, Run: q.GetRunId()})
	return &spatev1.RemoveRunResponse{}, nil
}

// remove deletes a run with its directory. Its error is a status.
func (c *Coordinator) remove(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if c.cfg.Local {
		return status.Error(codes.FailedPrecondition, "the coordinator of a local run removes no runs")
	}
	if c.queue.unended(id) {
		return status.Errorf(codes.FailedPrecondition, "run %s is waiting or in progress: stop it first", id)
	}
	switch err := ledger.Peek(c.storage.Ledger(id), func(*ledger.Ledger) error { return nil }); {
	case errors.Is(err, fs.ErrNotExist):
		return status.Errorf(codes.NotFound, "there is no run %s here", id)
	case errors.Is(err, ledger.ErrLocked):
		return status.Errorf(codes.FailedPrecondition, "another process is writing run %s", id)
	}
	gone, err := c.hide(id)
	if err != nil {
		return status.Errorf(codes.Internal, "run %s cannot be removed: %v", id, err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return status.Errorf(codes.Internal, "run %s is removed, but some of its files cannot be deleted: %v", id, err)
	}
	return nil
}

// hide forgets a run and renames its directory. It returns the directory's new path. It fails if the run waits or is in
// progress.
func (c *Coordinator) hide(id string) (gone string, err error) {
	c.mu.Lock()
	r := c.queue.runs[id]
	needed := r != nil && c.queue.has(r)
	if !needed {
		c.queue.forget(id)
	}
	c.mu.Unlock()
	if needed {
		return "", errors.New("it is waiting or in progress")
	}
	return c.storage.Hide(id)
}

// openHistory opens the history. Runs do not depend on it: without it the coordinator serves all the same.
func (c *Coordinator) openHistory() {
	if c.cfg.OpenHistory == nil {
		return
	}
	h, err := c.cfg.OpenHistory(c.cfg.DataDir, c.log)
	if err != nil {
		c.log.Error("there is no history until the next start: runs are kept, but not recorded", "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = h
}

// pastRuns returns the history, nil if there is none.
func (c *Coordinator) pastRuns() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history
}

// catchUp starts to record the runs that ended while no coordinator was there to do so, or before there was a history.
// Retention removes runs only afterwards.
func (c *Coordinator) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.workers.Go(func() {
		c.recordEnded()
		c.tidy(time.Now())
	})
}

// recordEnded records the runs that have ended since, the oldest first, because each is compared with those before. It
// reads their requests, which takes a core for some seconds a run, so only one caller does so at a time.
func (c *Coordinator) recordEnded() {
	h := c.pastRuns()
	if h == nil {
		return
	}
	c.recording.Lock()
	defer c.recording.Unlock()
	for _, id := range c.unrecorded(h) {
		if c.leaves() { // the next coordinator does it
			return
		}
		err := c.recovered(id, func() error { return h.Take(id, c.storage.Dir) })
		if err == nil {
			continue
		}
		c.log.Warn("run is not in the history", "run", id, "error", err)
		if err := h.Skip(id); err != nil { // not tried again
			c.log.Warn("history cannot be written", "error", err)
			return
		}
	}
}

// unrecorded returns the runs that have ended and are not in the history, in the order in which they began.
func (c *Coordinator) unrecorded(h History) (ids []string) {
	ended, err := c.storage.Ended(func(id string) bool { return h.Has(id) || c.queue.unended(id) })
	if err != nil {
		c.log.Warn("runs cannot be listed for the history", "error", err)
	}
	slices.SortFunc(ended, func(a, b *spatev1.RunSummary) int {
		return cmp.Or(a.GetBeginTime().AsTime().Compare(b.GetBeginTime().AsTime()),
			cmp.Compare(a.GetRunId(), b.GetRunId()))
	})
	return lists.Each(ended, (*spatev1.RunSummary).GetRunId)
}

// needed reports whether a run must not be removed yet: it has not ended, or is not in the history.
func (c *Coordinator) needed(id string) bool {
	h := c.pastRuns()
	return c.queue.unended(id) || h != nil && !h.Has(id)
}

// defaultHistory is how many runs of a history are shown.
const defaultHistory = 100

// ReadHistory returns a number over runs from the history.
func (s runService) ReadHistory(
	_ context.Context, q *spatev1.ReadHistoryRequest,
) (*spatev1.ReadHistoryResponse, error) {
	h := s.c.pastRuns()
	if h == nil {
		return nil, status.Error(codes.FailedPrecondition,
			"this coordinator has no history: it is that of a local run, has not begun to serve, or could not open the file (see its log)")
	}
	most := int(min(cmp.Or(q.GetLimit(), defaultHistory), maxListed))
	out, err := h.Read(q.GetPlan(), q.GetMetric(), most, func(run string) bool {
		_, err := os.Stat(s.c.storage.Ledger(run))
		return err != nil
	})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return out, nil
}
