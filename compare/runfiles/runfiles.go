// Package runfiles reads runs for a comparison from run directories and files of results.
package runfiles

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/requests"
)

// File is a run that was opened.
type File struct {
	compare.Run
	close func() error
}

// Close closes the run's ledger, if it has one. The run's requests cannot be read afterwards.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// Newest returns the run directories in a directory that changed last, the newest first.
func Newest(within string, limit int) ([]string, error) {
	entries, err := os.ReadDir(within)
	if err != nil {
		return nil, err
	}
	changed := map[string]int64{}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(within, e.Name())
		for _, name := range []string{ledger.File, results.File} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
				dirs, changed[dir] = append(dirs, dir), info.ModTime().UnixNano()
				break
			}
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(changed[b], changed[a]) })
	return dirs[:min(len(dirs), limit)], nil
}

// Named returns the newest run directory in runs for the name "latest", and other names as they are.
func Named(name string) string {
	if _, err := os.Stat(name); err != nil && name == "latest" {
		if all, err := Newest("runs", 1); err == nil && len(all) > 0 {
			return all[0]
		}
	}
	return name
}

// Open reads a run from a run directory, or from a file of results. The ledger comes first: its numbers and its request
// rows. Without a ledger the numbers are those of results.json, and the rows those of requests.parquet beside it, if
// there is one. The caller closes the file.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist: give a run directory (runs/ID) or a results.json", path)
	case err != nil:
		return nil, err
	}
	dir := path
	if !info.IsDir() {
		dir = filepath.Dir(path)
		if filepath.Base(path) == ledger.File {
			return openLedger(path, path)
		}
		if filepath.Base(path) != results.File {
			return openResults(path, path, "")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ledger.File)); err == nil {
		return openLedger(path, filepath.Join(dir, ledger.File))
	}
	file, err := openResults(path, filepath.Join(dir, results.File), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a run directory: there is no %s and no %s in it", path, ledger.File,
			results.File)
	}
	return file, err
}

// openLedger opens a run by its ledger.
func openLedger(name, path string) (*File, error) {
	l, err := ledger.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	result, err := results.Of(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	run, err := OfLedger(l, result)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	run.Name = name
	return &File{Run: *run, close: l.Close}, nil
}

// openResults reads a file of results. dir is where its request rows may be; empty: there are none.
func openResults(name, path, dir string) (*File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	result, err := results.Read(content)
	if err != nil {
		other, unknown := ofTool(name, content)
		if unknown != nil {
			return nil, fmt.Errorf("%s is not a file of results: %w; nor of another tool: %w", path, err, unknown)
		}
		return other, nil
	}
	file := &File{Run: compare.Run{Name: name, Result: result}}
	if dir != "" {
		file.Requests, err = rowsIn(dir)
	}
	return file, err
}

// OfLedger returns the run of an open ledger with its result. It is not for closing.
func OfLedger(l *ledger.Ledger, result *results.Result) (*compare.Run, error) {
	stages, err := l.Stages()
	if err != nil {
		return nil, err
	}
	run := &compare.Run{Name: result.Run.ID, Result: result, Definitions: map[uint32]string{},
		UniqueStarts: map[uint32]bool{}}
	records := make(map[uint32]*spatev1.StageRecord)
	for _, rec := range stages {
		index := rec.GetStage().GetIndex()
		records[index] = rec
		run.UniqueStarts[index] = rec.GetStage().GetWorkload().GetCacheBusting() == "request"
		if run.Definitions[index], err = definition(rec.GetStage()); err != nil {
			return nil, err
		}
	}
	if result.Run.Records != nil {
		run.Requests = func(stage uint32, each func(*compare.Request) error) error {
			return requests.Measured(l, records[stage], each)
		}
	}
	return run, nil
}

// definition returns a hash of what a stage asks for: all but its target, its index and how long it is waited for.
func definition(s *spatev1.Stage) (string, error) {
	asked := &spatev1.Stage{Workload: s.GetWorkload(), Load: s.GetLoad(), Seed: s.GetSeed(),
		Dataset: s.GetDataset(), PartDatasets: s.GetPartDatasets()}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(asked)
	if err != nil {
		return "", fmt.Errorf("hash stage %d: %w", s.GetIndex()+1, err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}
