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

	"github.com/spate-load/spate/aggregate/ledger"
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
func (s *Runs) Dir(id string) string {
	return cmp.Or(s.single, filepath.Join(s.data, id))
}

// Ledger returns the path of a run's ledger.
func (s *Runs) Ledger(id string) string { return filepath.Join(s.Dir(id), ledger.File) }

// Reserve returns the disk space that a run holds back for its end.
func (s *Runs) Reserve(id string) Reserve {
	return Reserve(filepath.Join(s.Dir(id), "reserve"))
}

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
	for _, name := range names {
		dirs = append(dirs, filepath.Join(s.data, name))
	}
	return dirs
}
