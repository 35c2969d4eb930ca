// Package runfiles reads runs for a comparison from run directories and files of results.
package runfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
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

// Open reads a run from a run directory, or from a file of results. The ledger comes first: its numbers and its request
// rows. Without a ledger the numbers are those of results.json, and the rows those of requests.jsonl or
// requests.parquet beside it, if one is there. The caller closes the file.
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
		return nil, fmt.Errorf("%s is not a file of results: %w", path, err)
	}
	file := &File{Run: compare.Run{Name: name, Result: result}}
	if dir != "" {
		file.Requests, err = rowsIn(dir)
	}
	return file, err
}
