// Package history keeps what the runs of a coordinator measured in one file of its data directory, for longer than the
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
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/spate-load/spate/compare"
)

// File is the name of the file in the data directory.
const File = "history.db"

// Buckets of the file.
var (
	records = []byte("records") // plan, 0, time, 0, run: the record as JSON
	runs    = []byte("runs")    // run: the key of its record, empty if it has none or was removed
)

// Store is the file. Its methods may be called concurrently. They block on the disk.
type Store struct {
	db *bbolt.DB

	mu   sync.Mutex
	read map[string]*compare.Record // by key, at most maxRead: pages show the same ones again and again
}

// maxRead is how many records are kept in memory: some 10 MB.
const maxRead = 1000

// openTimeout bounds the wait for another process that has the file.
const openTimeout = 5 * time.Second

// Open opens the file in a directory, or creates it. A damaged file is kept under another name, and a new one is begun,
// to which runs that are still there can be added again. It fails if the system does not let it read or write the file.
// The caller closes the store.
func Open(dir string, log *slog.Logger) (*Store, error) {
	path := filepath.Join(dir, File)
	db, err := open(path)
	var system syscall.Errno // such as a full disk, or too many open files: the file is as it was
	if err != nil && !errors.Is(err, berrors.ErrTimeout) && !errors.As(err, &system) {
		damaged := path + ".damaged"
		log.Error("history cannot be read: it is begun again with the runs that are still there", "file", damaged,
			"error", err)
		if err = os.Rename(path, damaged); err == nil {
			db, err = open(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Store{db: db, read: map[string]*compare.Record{}}, nil
}

func open(path string) (db *bbolt.DB, err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library's answer to some damage
			err = fmt.Errorf("damaged: %v", fault)
		}
	}()
	if db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: openTimeout}); err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err1 := tx.CreateBucketIfNotExists(records)
		_, err2 := tx.CreateBucketIfNotExists(runs)
		return errors.Join(err1, err2)
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Has reports whether a run has been recorded, or is known to have nothing to record.
func (s *Store) Has(run string) (has bool) {
	_ = s.db.View(func(tx *bbolt.Tx) error { // fails only if the file is closed
		has = tx.Bucket(runs).Get([]byte(run)) != nil
		return nil
	})
	return has
}

// Put keeps the record of a run, durably, unless the run was removed. nil: the run has nothing to record.
func (s *Store) Put(run string, record *compare.Record) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(runs).Get([]byte(run)) != nil { // recorded already, or removed since its requests were read
			return nil
		}
		if record == nil {
			return tx.Bucket(runs).Put([]byte(run), []byte{})
		}
		text, err := json.Marshal(record)
		if err != nil {
			return err
		}
		key := keyOf(record.Plan, record.Time, run)
		return errors.Join(tx.Bucket(runs).Put([]byte(run), key), tx.Bucket(records).Put(key, text))
	})
	if err != nil {
		return fmt.Errorf("history of run %s: %w", run, err)
	}
	return nil
}

// Remove forgets the record of a run, and that of a run that is being recorded. The run has nothing to record from then
// on.
func (s *Store) Remove(run string) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		key := bytes.Clone(tx.Bucket(runs).Get([]byte(run)))
		if len(key) > 0 {
			if err := tx.Bucket(records).Delete(key); err != nil {
				return err
			}
		}
		return tx.Bucket(runs).Put([]byte(run), []byte{})
	})
	if err != nil {
		return fmt.Errorf("history of run %s: %w", run, err)
	}
	return nil
}

// Plans returns the names of the plans that have records, in the order of their names.
func (s *Store) Plans() (plans []string, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(records).Cursor()
		for key, _ := c.First(); key != nil; {
			plan, _, _ := bytes.Cut(key, []byte{0})
			plans = append(plans, string(plan))
			key, _ = c.Seek(append(bytes.Clone(plan), 1)) // the first key behind those of the plan
		}
		return nil
	})
	return plans, err
}

// Newest returns the records of the newest runs of a plan, at most so many, the oldest first. Without a plan they are
// those of all plans. The records must not be changed.
func (s *Store) Newest(plan string, most int) (newest []*compare.Record, err error) {
	plans := []string{plan}
	if plan == "" {
		if plans, err = s.Plans(); err != nil {
			return nil, err
		}
	}
	for _, p := range plans {
		of := 0
		err := s.backwards(p, nil, func(r *compare.Record) bool {
			newest, of = append(newest, r), of+1
			return of < most
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(newest, func(a, b *compare.Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Run, b.Run))
	})
	return newest[max(0, len(newest)-most):], nil
}

// backwards passes the records of a plan to each, from the last before a key on, until each returns false. nil: from
// the newest on.
func (s *Store) backwards(plan string, before []byte, each func(*compare.Record) bool) error {
	prefix := append([]byte(plan), 0)
	if before == nil {
		before = append([]byte(plan), 1)
	}
	return s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(records).Cursor()
		step := c.Prev
		if key, _ := c.Seek(before); key == nil {
			step = c.Last
		}
		for key, text := step(); bytes.HasPrefix(key, prefix); key, text = c.Prev() {
			r, err := s.record(key, text)
			if err != nil {
				return fmt.Errorf("history: record of plan %s: %w", plan, err)
			}
			if !each(r) {
				break
			}
		}
		return nil
	})
}

// record returns a record, which must not be changed. Nothing writes a key twice with different records.
func (s *Store) record(key, text []byte) (*compare.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.read[string(key)]; r != nil {
		return r, nil
	}
	r := &compare.Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if len(s.read) >= maxRead {
		clear(s.read)
	}
	s.read[string(key)] = r
	return r, nil
}

// keyOf returns the key of a record. Keys of a plan are in the order of time. Names of plans have no byte 0.
func keyOf(plan string, at time.Time, run string) []byte {
	return []byte(plan + "\x00" + at.UTC().Format("2006-01-02T15:04:05.000000000Z") + "\x00" + run)
}
