package history

import (
	"errors"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
)

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
