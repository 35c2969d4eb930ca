package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/retention"
)

// A dataset that was used lately is not removed whatever the limits: a run that has found it here may not have opened
// it yet. What was begun and not finished belongs to nobody after a day.
const (
	lately    = time.Hour
	abandoned = 24 * time.Hour
)

// List returns the datasets that are here, by their SHA-256. One that was used lately is held.
func (s *Store) List(now time.Time) ([]retention.Item, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("directory of datasets: %w", err)
	}
	var out []retention.Item
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), suffix)
		info, err := e.Info()
		if err != nil || !ours || !hashPattern.MatchString(name) {
			continue // gone meanwhile, or not ours
		}
		used := info.ModTime()
		out = append(out, retention.Item{Name: name, Bytes: uint64(info.Size()), Used: used,
			Held: now.Sub(used) < lately})
	}
	return out, nil
}

// Remove deletes a dataset. Who reads it reads on to its end. The error is ErrHash or ErrUnknown, or says why it cannot
// be deleted.
func (s *Store) Remove(sha256 string) error {
	path, err := s.file(sha256)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("dataset %s: %w", sha256, ErrUnknown)
	} else if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// Prune deletes the datasets beyond the limits, the one that was used longest ago first, and what others began and
// abandoned. Those whose SHA-256 is in inUse stay. It returns the datasets that are gone.
func (s *Store) Prune(l retention.Limits, now time.Time, inUse map[string]bool) (gone []retention.Item, err error) {
	items, err := s.List(now)
	if err != nil {
		return nil, err
	}
	for i := range items {
		items[i].Held = items[i].Held || inUse[items[i].Name]
	}
	for _, i := range l.Excess(items, now) {
		if e := s.Remove(i.Name); e == nil {
			gone = append(gone, i)
		} else if !errors.Is(e, ErrUnknown) {
			err = errors.Join(err, e)
		}
	}
	return gone, errors.Join(err, s.sweep(now))
}

// sweep deletes what was begun and abandoned.
func (s *Store) sweep(now time.Time) (err error) {
	begun, _ := fs.Glob(os.DirFS(s.dir), incoming+"*") // the pattern is good
	for _, name := range begun {
		path := filepath.Join(s.dir, name)
		if info, e := os.Stat(path); e == nil && now.Sub(info.ModTime()) > abandoned {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// used notes that a dataset is used now. That it cannot be noted is no fault of the dataset.
func used(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}
