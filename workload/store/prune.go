package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/files"
)

// A dataset that was used in the last hour is never pruned, whatever the limits: a run that found it here may not have
// opened it yet. An unfinished file is considered abandoned after a day.
const (
	recent    = time.Hour
	abandoned = 24 * time.Hour
)

// List returns the stored datasets by their SHA-256. A dataset that was used in the last hour is held.
func (s *Store) List(now time.Time) ([]files.Item, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("directory of datasets: %w", err)
	}
	var out []files.Item
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), suffix)
		info, err := e.Info()
		if err != nil || !ours || !hashPattern.MatchString(name) {
			continue // deleted meanwhile, or not a dataset
		}
		used := info.ModTime()
		out = append(out, files.Item{Name: name, Bytes: uint64(info.Size()), Used: used,
			Held: now.Sub(used) < recent})
	}
	return out, nil
}

// Remove deletes a dataset. A process that has the dataset open can read it to its end. The error wraps ErrHash or
// ErrUnknown, or says why the file cannot be deleted.
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

// Prune deletes the datasets beyond the limits, least recently used first, and abandoned unfinished files. Datasets
// whose SHA-256 is in inUse stay. Prune returns the deleted datasets.
func (s *Store) Prune(l files.Limits, now time.Time, inUse map[string]bool) (gone []files.Item, err error) {
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

// sweep deletes abandoned files, unfinished or damaged.
func (s *Store) sweep(now time.Time) (err error) {
	unfinished, _ := fs.Glob(os.DirFS(s.dir), incoming+"*") // the patterns are valid
	aside, _ := fs.Glob(os.DirFS(s.dir), damaged+"*")
	for _, name := range append(unfinished, aside...) {
		path := filepath.Join(s.dir, name)
		if info, e := os.Stat(path); e == nil && now.Sub(info.ModTime()) > abandoned {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// touch marks a dataset as used now. A failure to do so is ignored, because the dataset itself is fine.
func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}
