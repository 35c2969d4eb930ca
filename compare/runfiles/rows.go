package runfiles

import (
	"errors"
	"fmt"
	"io/fs"
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

	Stage      uint32  `parquet:"stage"`
	First      *int64  `parquet:"first_token_ns,optional"`
	Last       *int64  `parquet:"last_token_ns,optional"`
	Unmeasured bool    `parquet:"unmeasured"`
	ErrorClass *string `parquet:"error_class,optional,dict"`
	Hash       string  `parquet:"body_hash"`
}

// rowsIn returns a function that reads a stage's rows from the file of request rows in a directory, or nil if there is
// none.
func rowsIn(dir string) (func(uint32, func(*compare.Request) error) error, error) {
	path := filepath.Join(dir, "requests."+requests.Parquet)
	rows, err := readRows(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // nil is the answer: there are no rows
	case err != nil:
		return nil, fmt.Errorf("read request rows from %s: %w", path, err)
	}
	return byStage(rows)
}

// readRows reads the rows of a Parquet file. The reader panics on some damaged files: that is an error, too.
func readRows(path string) (rows []row, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			rows, err = nil, fmt.Errorf("the file is damaged: %v", reason)
		}
	}()
	return parquet.ReadFile[row](path)
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
