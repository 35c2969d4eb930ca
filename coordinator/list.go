package coordinator

import (
	"cmp"
	"context"
	"os"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/coordinator/storage"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Numbers of runs in a list.
const (
	defaultListed = 50
	maxListed     = 1000
)

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
	out := storage.SummaryOf(proto.CloneOf(r.record), r.plan())
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

// endedRuns returns up to most runs on disk that are not in unended, most recently changed first.
func (c *Coordinator) endedRuns(most int, unended map[string]bool) ([]*spatev1.RunSummary, error) {
	if c.cfg.Local {
		return nil, nil
	}
	ids, err := c.storage.IDs()
	if err != nil {
		return nil, err
	}
	files := map[string]os.FileInfo{}
	for _, id := range ids {
		if info, err := os.Stat(c.storage.Ledger(id)); err == nil && !unended[id] {
			files[id] = info
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return files[id] == nil })
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(files[b].ModTime().Compare(files[a].ModTime()), cmp.Compare(b, a))
	})
	var out []*spatev1.RunSummary
	for _, id := range ids[:min(most, len(ids))] {
		out = append(out, c.storage.Summary(id, files[id]))
	}
	return out, nil
}
