// Package history keeps what the runs of a coordinator measured in a folder of its data directory, for longer than the
// runs themselves are kept: the numbers of their stages, each compared with the run before. It knows nothing of runs in
// memory.
//
// Reading the results of months for each page would take minutes, and runs must be compared before the requests of the
// first one are removed. So a run is recorded once, when it has ended.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Dir is the name of the folder in the data directory. It has a file for each run: a checksum, and its record as JSON,
// or null if the run has nothing to record or was removed.
const Dir = "history"

// mostBytes is how large the files become: beyond, records replace the oldest. A stage takes some 2 KB.
const mostBytes = 64 << 20

// Store is the folder. Its methods may be called concurrently. They block on the disk.
type Store struct {
	dir string
	log *slog.Logger

	mu   sync.Mutex
	runs map[string]entry
	size int // of all records, in bytes
}

// entry is what is known of a run without its file.
type entry struct {
	run, plan string
	time      time.Time
	size      int
	none      bool // it has nothing to record, or was removed
}

// byTime orders entries.
func byTime(a, b entry) int { return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.run, b.run)) }

// Open reads the folder in a directory, or creates it. A damaged file is kept under another name: if its run is still
// there, it can be recorded again. Open fails if the system does not let it read the folder.
func Open(dir string, log *slog.Logger) (*Store, error) {
	s := &Store{dir: filepath.Join(dir, Dir), log: log, runs: map[string]entry{}}
	err := os.MkdirAll(s.dir, 0o755)
	found, err1 := os.ReadDir(s.dir)
	if err = errors.Join(err, err1); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, f := range found {
		run, is := strings.CutSuffix(f.Name(), ".json")
		if !is {
			continue
		}
		r, size, err := s.read(run)
		if err != nil {
			err = errors.Join(err, os.Rename(s.path(run), s.path(run)+".damaged"))
			log.Error("a record of the history is damaged: it is set aside, and recorded again if its run is still there",
				"run", run, "error", err)
			continue
		}
		s.add(run, r, size)
	}
	log.Info("history is read", "runs", len(s.runs))
	return s, nil
}

func (s *Store) path(run string) string { return filepath.Join(s.dir, run+".json") }

// sumOf returns the checksum of a run's record.
func sumOf(run string, text []byte) []byte {
	return fmt.Appendf(nil, "%08x\n", crc32.Checksum(slices.Concat([]byte(run), text), crc32.MakeTable(crc32.Castagnoli)))
}

// read reads the record of a run, nil if it has nothing to record, and returns its size.
func (s *Store) read(run string) (r *compare.Record, size int, err error) {
	text, err := os.ReadFile(s.path(run))
	if err != nil {
		return nil, 0, err
	}
	sum, record, _ := bytes.Cut(text, []byte("\n"))
	if !bytes.Equal(append(sum, '\n'), sumOf(run, record)) {
		return nil, 0, errors.New("its checksum is wrong")
	}
	return r, len(text), json.Unmarshal(record, &r)
}

// add notes a record that is on the disk. s.mu is held, or nobody else has s.
func (s *Store) add(run string, r *compare.Record, size int) {
	e := entry{run: run, size: size, none: r == nil}
	if r != nil {
		e.plan, e.time = r.Plan, r.Time
	}
	s.size += size - s.runs[run].size
	s.runs[run] = e
}

// write writes the record of a run, durably. s.mu is held.
func (s *Store) write(run string, r *compare.Record) error {
	text, err := json.Marshal(r)
	if err == nil {
		text = append(sumOf(run, text), text...)
		err = files.Replace(s.path(run), text)
	}
	if err != nil {
		return fmt.Errorf("history of run %s: %w", run, err)
	}
	s.add(run, r, len(text))
	return nil
}

// Has reports whether a run has been recorded, or is known to have nothing to record.
func (s *Store) Has(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.runs[run]
	return has
}

// Skip notes that a run has nothing to record.
func (s *Store) Skip(run string) error { return s.Put(run, nil) }

// Put keeps the record of a run, durably, unless the run was removed. nil: the run has nothing to record.
func (s *Store) Put(run string, record *compare.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.runs[run]; has { // recorded already, or removed since its requests were read
		return nil
	}
	err := s.write(run, record)
	for err == nil && s.size > mostBytes {
		oldest := s.sorted("")[0].run
		s.log.Warn("history is full: its oldest record is removed", "run", oldest, "limit_bytes", mostBytes)
		err = s.write(oldest, nil)
	}
	return err
}

// Remove forgets the record of a run, and that of a run that is being recorded. The run has nothing to record from then
// on.
func (s *Store) Remove(run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(run, nil)
}

// sorted returns the runs of a plan that have records, or of all plans, in the order of time. s.mu is held.
func (s *Store) sorted(plan string) (all []entry) {
	for _, e := range s.runs {
		if !e.none && (plan == "" || e.plan == plan) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, byTime)
	return all
}

// Plans returns the names of the plans that have records, in the order of their names.
func (s *Store) Plans() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := lists.Each(s.sorted(""), func(e entry) string { return e.plan })
	slices.Sort(names)
	return slices.Compact(names)
}

// Newest returns the records of the newest runs of a plan, at most so many, the oldest first. Without a plan they are
// those of all plans.
func (s *Store) Newest(plan string, most int) (newest []*compare.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.sorted(plan)
	s.backwards(all[max(0, len(all)-most):], func(r *compare.Record) bool {
		newest = append(newest, r)
		return true
	})
	slices.Reverse(newest)
	return newest
}

// before passes the records of a plan to each, from the last one before a run on, until each returns false.
func (s *Store) before(of *compare.Record, each func(*compare.Record) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(s.sorted(of.Plan), func(e entry) bool {
		return e.plan != of.Plan || byTime(e, entry{run: of.Run, time: of.Time}) >= 0
	})
	s.backwards(all, each)
}

// backwards passes the records of entries to each, from the last one on, until each returns false. s.mu is held.
func (s *Store) backwards(entries []entry, each func(*compare.Record) bool) {
	for _, e := range slices.Backward(entries) {
		if r, _, err := s.read(e.run); err != nil || r == nil {
			s.log.Error("a record of the history cannot be read", "run", e.run, "error", err)
		} else if !each(r) {
			return
		}
	}
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
	wanted := lists.Set(lists.Each(alone.Stages, func(s compare.StageRecord) compare.StageKey { return alone.Key(&s) }))
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
