// Package history keeps what the runs of a coordinator measured in one file of its data directory, for longer than the
// runs themselves are kept: the numbers of their stages, each compared with the run before. It knows nothing of runs in
// memory.
//
// Reading the results of months for each page would take minutes, and runs must be compared before the requests of the
// first one are removed. So a run is recorded once, when it has ended.
package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// File is the name of the file in the data directory: a line for each run, by its checksum as it was written. Only its
// last line about a run counts.
const File = "history.jsonl"

// Limits. A stage takes some 2 KB.
const (
	mostLive = 64 << 20 // bytes of lines that count: beyond, the oldest records are removed
	slack    = 1 << 20  // bytes of lines that do not count any more, and that are left in a small file
	maxLine  = 16 << 20 // bytes of a line
	maxRead  = 1000     // records that are kept in memory: pages show the same ones again and again
)

// Store is the file. Its methods may be called concurrently. They block on the disk.
type Store struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	file   *os.File
	end    int64 // of the file's lines
	live   int64 // bytes of the lines that count
	number int64 // of the last line
	runs   map[string]*entry
	plans  map[string][]*entry // with records, by time
	read   map[string]*compare.Record
}

// Open reads the file in a directory, or creates it. A damaged file is kept under another name, and a new one is begun
// with the records that can be read, to which runs that are still there can be added again. It fails if the system does
// not let it read or write the file. The caller closes the store.
func Open(dir string, log *slog.Logger) (*Store, error) {
	s := &Store{path: filepath.Join(dir, File), log: log}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if wrong := s.load(f); wrong != "" {
		damaged := s.path + ".damaged"
		log.Error("history is damaged: it is set aside, and built again from what can be read and the runs still there",
			"file", damaged, "damage", wrong, "runs_read", len(s.runs))
		if err = os.Rename(s.path, damaged); err == nil {
			err = s.compact()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("history: %w", err), s.Close())
		}
	}
	log.Info("history is read", "runs", len(s.runs))
	return s, nil
}

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}

// Has reports whether a run has been recorded, or is known to have nothing to record.
func (s *Store) Has(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[run] != nil
}

// Skip notes that a run has nothing to record.
func (s *Store) Skip(run string) error { return s.Put(run, nil) }

// Put keeps the record of a run, durably, unless the run was removed. nil: the run has nothing to record.
func (s *Store) Put(run string, record *compare.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[run] != nil { // recorded already, or removed since its requests were read
		return nil
	}
	h := head{Run: run}
	if record != nil {
		h.Plan, h.Time = record.Plan, record.Time.UTC()
	}
	text, err := json.Marshal(record)
	if err == nil {
		err = s.write(h, text)
	}
	if err != nil {
		return fmt.Errorf("history of run %s: %w", run, err)
	}
	return nil
}

// Remove forgets the record of a run, and that of a run that is being recorded. The run has nothing to record from then
// on.
func (s *Store) Remove(run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(head{Run: run}, []byte("null")); err != nil {
		return fmt.Errorf("history of run %s: %w", run, err)
	}
	return nil
}

// Plans returns the names of the plans that have records, in the order of their names.
func (s *Store) Plans() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.plans))
}

// Newest returns the records of the newest runs of a plan, at most so many, the oldest first. Without a plan they are
// those of all plans. The records must not be changed.
func (s *Store) Newest(plan string, most int) (newest []*compare.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.plans[plan]
	if plan == "" {
		entries = slices.SortedFunc(maps.Values(s.runs), byTime)
		entries = slices.DeleteFunc(entries, func(e *entry) bool { return e.none })
	}
	s.backwards(entries, func(r *compare.Record) bool {
		newest = append(newest, r)
		return len(newest) < most
	})
	slices.Reverse(newest)
	return newest
}

// before passes the records of a plan to each, from the last one before a run on, until each returns false.
func (s *Store) before(of *compare.Record, each func(*compare.Record) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.plans[of.Plan]
	at, _ := slices.BinarySearchFunc(entries, &entry{head: head{Run: of.Run, Time: of.Time}}, byTime)
	s.backwards(entries[:at], each)
}

// backwards passes the records of entries to each, from the last one on, until each returns false. s.mu is held.
func (s *Store) backwards(entries []*entry, each func(*compare.Record) bool) {
	for _, e := range slices.Backward(slices.Clone(entries)) { // a record that is lost is taken out of entries
		r, err := s.record(e)
		if err != nil {
			if !errors.Is(err, fs.ErrClosed) {
				s.lost(e, err)
			}
			continue
		}
		if !each(r) {
			return
		}
	}
}

// record returns a record, which must not be changed. s.mu is held.
func (s *Store) record(e *entry) (*compare.Record, error) {
	if r := s.read[e.Run]; r != nil {
		return r, nil
	}
	text, err := s.text(e)
	if err != nil {
		return nil, err
	}
	r := &compare.Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if len(s.read) >= maxRead {
		clear(s.read)
	}
	s.read[e.Run] = r
	return r, nil
}

// Read returns a number over the newest runs of a plan, at most so many: an empty plan asks for all plans, an empty
// metric for the default. removed reports whether a run is not there any more. It fails if there is no such metric.
func (s *Store) Read(
	plan, metric string, most int, removed func(run string) bool,
) (*spatev1.ReadHistoryResponse, error) {
	of, err := compare.MetricNamed(cmp.Or(metric, compare.DefaultMetric))
	if err != nil {
		return nil, err
	}
	lines := compare.Lines(s.Newest(plan, most), of)
	gone := map[string]bool{} // asked once for each run
	for _, l := range lines {
		for _, p := range l.GetPoints() {
			if _, known := gone[p.GetRun()]; !known {
				gone[p.GetRun()] = removed(p.GetRun())
			}
			p.Removed = gone[p.GetRun()]
		}
	}
	return &spatev1.ReadHistoryResponse{Lines: lines, Plans: s.Plans()}, nil
}

// mostBack is how many runs of a plan are searched for those that a run is compared with.
const mostBack = 100

// Take records a run that has ended. It reads all request rows of the run and of those that it is compared with, which
// takes seconds. dir returns the directory of a run. A run before that is not there any more is compared with no more.
func (s *Store) Take(run string, dir func(run string) string) (err error) {
	file, err := runfiles.Open(dir(run))
	if err != nil {
		return err
	}
	file.Name = run
	opened := map[string]*runfiles.File{run: file}
	defer func() {
		for _, f := range opened {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	before, err := s.comparable(&file.Run)
	if err != nil {
		return err
	}
	tolerance, _ := compare.Tolerance(compare.DefaultTolerance)
	record, err := compare.RecordOf(&file.Run, func(k compare.StageKey) *compare.Run {
		last := before[k]
		if last == "" {
			return nil
		}
		if _, known := opened[last]; !known {
			opened[last], _ = runfiles.Open(dir(last)) // nil if it was removed
		}
		if opened[last] == nil {
			return nil
		}
		opened[last].Name = last
		return &opened[last].Run
	}, compare.Options{Tolerance: tolerance})
	if err != nil {
		return err
	}
	return s.Put(run, record)
}

// comparable returns the runs with which the stages of a run are compared, by stage.
func (s *Store) comparable(r *compare.Run) (map[compare.StageKey]string, error) {
	alone, err := compare.RecordOf(r, func(compare.StageKey) *compare.Run { return nil }, compare.Options{})
	if err != nil || alone == nil {
		return nil, err
	}
	wanted := map[compare.StageKey]bool{}
	for i := range alone.Stages {
		wanted[alone.Key(&alone.Stages[i])] = true
	}
	found, looked := map[compare.StageKey]string{}, 0
	s.before(alone, func(earlier *compare.Record) bool {
		for i := range earlier.Stages {
			if k := earlier.Key(&earlier.Stages[i]); wanted[k] && earlier.Stages[i].Usable {
				found[k] = earlier.Run
				delete(wanted, k)
			}
		}
		looked++
		return len(wanted) > 0 && looked < mostBack
	})
	return found, nil
}
