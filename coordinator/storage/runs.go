// Package storage is the directory in which a coordinator keeps its runs: one directory for each run, with its ledger.
// The coordinator asks which runs are on disk, what they are, and removes them. The package knows nothing of runs in
// memory.
//
// It also queues what a run writes, and notices when the disk makes no progress. Code that holds the coordinator's lock
// never waits for the disk: heartbeats need that lock, and an agent whose heartbeats are not answered loses its lease.
// What a run's machine decides is queued under the lock, in order. A goroutine of the run writes it, and only then
// tells agents and followers.
package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Runs are the runs on disk. It is safe for concurrent use.
type Runs struct {
	data, single string

	mu     sync.Mutex // held for look-ups, not for reading ledgers
	listed map[string]listed
}

// New returns the runs in a data directory. single is the directory of the only run of a local coordinator; empty: each
// run has its own directory in the data directory. New reads nothing.
func New(data, single string) *Runs {
	return &Runs{data: data, single: single, listed: map[string]listed{}}
}

// Dir is the directory of a run's ledger, in which its sink notes which databases may lack points.
func (s *Runs) Dir(id string) string { return cmp.Or(s.single, filepath.Join(s.data, id)) }

// Ledger returns the path of a run's ledger.
func (s *Runs) Ledger(id string) string { return filepath.Join(s.Dir(id), ledger.File) }

// Reserve returns the disk space that a run holds back for its end.
func (s *Runs) Reserve(id string) Reserve { return Reserve(filepath.Join(s.Dir(id), "reserve")) }

// Valid reports whether a run id is valid, so that it cannot name a file elsewhere.
func Valid(id string) bool { return idPattern.MatchString(id) }

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// IDs returns the names of the directories that hold a ledger, sorted. Other files are ignored.
func (s *Runs) IDs() ([]string, error) {
	files, err := s.files()
	return slices.Sorted(maps.Keys(files)), err
}

// Ended returns the summaries of the runs whose ledgers say that they have ended, except those that are left out.
func (s *Runs) Ended(leaveOut func(id string) bool) (out []*spatev1.RunSummary, err error) {
	files, err := s.files()
	for id, file := range files {
		if leaveOut(id) {
			continue
		}
		if one := s.Summary(id, file); one.GetState() == spatev1.RunState_RUN_STATE_ENDED {
			out = append(out, one)
		}
	}
	return out, err
}

// files returns the ledgers by the ids of their runs.
func (s *Runs) files() (map[string]os.FileInfo, error) {
	entries, err := os.ReadDir(s.data)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: data directory: %w", err)
	}
	files := map[string]os.FileInfo{}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(s.data, e.Name(), ledger.File))
		if err == nil && info.Mode().IsRegular() && Valid(e.Name()) {
			files[e.Name()] = info
		}
	}
	return files, nil
}

// removedPrefix starts the name of the directory of a run that is being deleted. No run id starts like that.
const removedPrefix = ".removed-"

// Hide renames a run's directory, so that it is a run no more, and returns the new path. The caller deletes it.
func (s *Runs) Hide(id string) (gone string, err error) {
	s.mu.Lock()
	delete(s.listed, id)
	s.mu.Unlock()
	gone = filepath.Join(s.data, removedPrefix+id)
	return gone, os.Rename(s.Dir(id), gone)
}

// Remains returns the directories of runs whose deletion was interrupted.
func (s *Runs) Remains() (dirs []string) {
	names, _ := fs.Glob(os.DirFS(s.data), removedPrefix+"*") // fails only on a bad pattern
	return lists.Each(names, func(name string) string { return filepath.Join(s.data, name) })
}

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
		out.StagesEnded = uint32(lists.Count(stages, (*spatev1.StageRecord).GetEnded))
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
	return lists.Each(ids[:min(most, len(ids))], func(id string) *spatev1.RunSummary {
		return s.Summary(id, files[id])
	}), nil
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
