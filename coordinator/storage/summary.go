package storage

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// maxKept bounds the summaries that are kept in memory.
const maxKept = 1000

// listed is the summary of a run on disk, with the modification time and size that its file had when it was read.
type listed struct {
	changed time.Time
	size    int64
	summary *spatev1.RunSummary
}

// Summary returns the summary of a run on disk, from the cache if the file has not changed.
func (s *Runs) Summary(id string, file os.FileInfo) *spatev1.RunSummary {
	s.mu.Lock()
	known, ok := s.listed[id]
	s.mu.Unlock()
	if ok && known.size == file.Size() && known.changed.Equal(file.ModTime()) {
		return known.summary
	}
	known = listed{changed: file.ModTime(), size: file.Size(), summary: readSummary(id, s.Ledger(id))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listed) >= maxKept {
		clear(s.listed)
	}
	if known.summary.GetState() != spatev1.RunState_RUN_STATE_RUNNING {
		s.listed[id] = known
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
		out = SummaryOf(record, submission.GetName())
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

// SummaryOf returns the summary that a run's record gives.
func SummaryOf(rec *spatev1.RunRecord, plan string) *spatev1.RunSummary {
	return &spatev1.RunSummary{
		RunId: rec.GetRunId(), Plan: plan, SubmitTime: cmp.Or(rec.GetSubmitTime(), rec.GetBeginTime()),
		BeginTime: rec.GetBeginTime(), EndTime: rec.GetEndTime(),
		Outcome: rec.GetOutcome(), Complete: rec.GetComplete(), Reason: rec.GetReason(), Stages: rec.GetStages(),
		Submitter: rec.GetSubmitter(), SubmitterAddress: rec.GetSubmitterAddress(), Stopper: rec.GetStopper(),
		Priority: rec.GetPriority(),
		Verdict:  rec.GetVerdict(),
	}
}

// Newest returns the summaries of up to most runs that are not left out, most recently changed first.
func (s *Runs) Newest(most int, leaveOut map[string]bool) ([]*spatev1.RunSummary, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(files, func(id string, _ os.FileInfo) bool { return leaveOut[id] })
	ids := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return cmp.Or(files[b].ModTime().Compare(files[a].ModTime()), cmp.Compare(b, a))
	})
	var out []*spatev1.RunSummary
	for _, id := range ids[:min(most, len(ids))] {
		out = append(out, s.Summary(id, files[id]))
	}
	return out, nil
}

// Items returns the runs on disk for a decision which to remove. Runs that have not ended by their ledger or are
// needed, and runs whose points a database may lack, are held: they must not be removed.
func (s *Runs) Items(needed func(id string) bool) ([]files.Item, error) {
	kept, err := s.files()
	var items []files.Item
	for id, file := range kept {
		summary, dir := s.Summary(id, file), s.Dir(id)
		item := files.Item{Name: id, Used: file.ModTime(), Bytes: files.SizeOf(dir),
			Held: summary.GetState() != spatev1.RunState_RUN_STATE_ENDED || needed(id) || delivery.Incomplete(dir)}
		if end := summary.GetEndTime(); end != nil {
			item.Used = end.AsTime()
		}
		items = append(items, item)
	}
	return items, err
}
