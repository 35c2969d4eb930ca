package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/internal/retention"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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

// datasetsInUse returns the datasets of the waiting runs and the run in progress.
func (c *Coordinator) datasetsInUse() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs, out := slices.Clone(c.queue), map[string]bool{}
	if c.active != nil {
		runs = append(runs, c.active)
	}
	for _, r := range runs {
		for _, stage := range r.submission.GetPlan() {
			if d := stage.GetDataset(); d != nil {
				out[d.GetSha256()] = true
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
	if c.cfg.KeepRuns == (retention.Limits{}) {
		return
	}
	items, err := c.runItems()
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

// runItems returns the runs on disk. Runs that have not ended, and runs whose points a database may lack, are held:
// they are not deleted.
func (c *Coordinator) runItems() ([]retention.Item, error) {
	ids, err := c.storage.IDs()
	var items []retention.Item
	for _, id := range ids {
		file, err := os.Stat(c.storage.Ledger(id))
		if err != nil {
			continue // deleted meanwhile
		}
		summary := c.storage.Summary(id, file)
		item := retention.Item{Name: id, Used: file.ModTime(),
			Held: summary.GetState() != spatev1.RunState_RUN_STATE_ENDED || c.unended(id)}
		if end := summary.GetEndTime(); end != nil {
			item.Used = end.AsTime()
		}
		item.Held = item.Held || delivery.Incomplete(c.storage.Dir(id))
		item.Bytes = retention.SizeOf(c.storage.Dir(id))
		items = append(items, item)
	}
	return items, err
}

// RemoveRun deletes a run that no process writes.
func (s runService) RemoveRun(_ context.Context, q *spatev1.RemoveRunRequest) (*spatev1.RemoveRunResponse, error) {
	if err := s.c.remove(q.GetRunId()); err != nil {
		return nil, err
	}
	s.c.log.Info("run removed on request", "run", q.GetRunId())
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
	if c.unended(id) {
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

// hide forgets a run and renames its directory. It returns the directory's new path.
func (c *Coordinator) hide(id string) (gone string, err error) {
	if err := c.forget(id); err != nil {
		return "", err
	}
	return c.storage.Hide(id)
}

// forget removes a run from memory. It fails if the run waits or is in progress.
func (c *Coordinator) forget(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[id]; r != nil && (r == c.active || slices.Contains(c.queue, r)) {
		return errors.New("it is waiting or in progress")
	}
	delete(c.runs, id)
	c.recent = slices.DeleteFunc(c.recent, func(other string) bool { return other == id })
	return nil
}
