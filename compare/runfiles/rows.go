package runfiles

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/report/requests"
)

// row has the columns of a request row that a comparison needs. First and Last are not in the struct in it: the reader
// of Parquet makes 0 of null there.
type row struct {
	compare.Request

	Stage      uint32  `json:"stage" parquet:"stage"`
	First      *int64  `json:"first_token_ns" parquet:"first_token_ns,optional"`
	Last       *int64  `json:"last_token_ns" parquet:"last_token_ns,optional"`
	Unmeasured bool    `json:"unmeasured" parquet:"unmeasured"`
	ErrorClass *string `json:"error_class" parquet:"error_class,optional,dict"`
	Hash       string  `json:"body_hash" parquet:"body_hash"`
}

// rowsIn returns a function that reads a stage's rows from the file of request rows in a directory, or nil if there is
// none.
func rowsIn(dir string) (func(uint32, func(*compare.Request) error) error, error) {
	for _, of := range []struct {
		format string
		read   func(io.ReaderAt, int64) ([]row, error)
	}{{requests.Parquet, readParquet}, {requests.JSONL, readJSONL}} {
		path := filepath.Join(dir, "requests."+of.format)
		rows, err := readFile(path, of.read)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read request rows from %s: %w", path, err)
		}
		return byStage(rows)
	}
	return nil, nil //nolint:nilnil // nil is the answer: there are no rows
}

// readFile reads all rows of a file.
func readFile(path string, read func(io.ReaderAt, int64) ([]row, error)) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return read(f, info.Size())
}

func readJSONL(f io.ReaderAt, size int64) (rows []row, err error) {
	d := json.NewDecoder(bufio.NewReader(io.NewSectionReader(f, 0, size)))
	for {
		var r row
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, fmt.Errorf("row %d: %w", len(rows)+1, err)
		}
		rows = append(rows, r)
	}
}

// readParquet reads the rows of a Parquet file. The reader panics on some damaged files: that is an error, too.
func readParquet(f io.ReaderAt, size int64) (rows []row, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			rows, err = nil, fmt.Errorf("the file is damaged: %v", reason)
		}
	}()
	return parquet.Read[row](f, size)
}

// byStage returns a function that passes on the measured requests of a stage.
func byStage(rows []row) (func(uint32, func(*compare.Request) error) error, error) {
	stages := make(map[uint32][]compare.Request)
	for i := range rows {
		r := &rows[i]
		if r.Unmeasured {
			continue
		}
		var err error
		if r.BodyHash, err = strconv.ParseUint(r.Hash, 16, 64); err != nil {
			return nil, fmt.Errorf("row %d: body_hash %q is not a hash", i+1, r.Hash)
		}
		r.FirstTokenNs, r.LastTokenNs, r.Completed = r.First, r.Last, !r.Cancelled && r.ErrorClass == nil
		stages[r.Stage] = append(stages[r.Stage], r.Request)
	}
	return func(stage uint32, each func(*compare.Request) error) error {
		for i := range stages[stage] {
			if err := each(&stages[stage][i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
