package runfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

	Stage      uint32  `parquet:"stage"`
	First      *int64  `parquet:"first_token_ns,optional"`
	Last       *int64  `parquet:"last_token_ns,optional"`
	Unmeasured bool    `parquet:"unmeasured"`
	ErrorClass *string `parquet:"error_class,optional,dict"`
	Hash       string  `parquet:"body_hash"`
}

// rowsIn returns a function that reads a stage's rows from the file of request rows in a directory, or nil if there is
// none. It reads the file again each time, and holds few of its rows.
func rowsIn(dir string) (func(uint32, func(*compare.Request) error) error, error) {
	path := filepath.Join(dir, "requests."+requests.Parquet)
	read := func(stage uint32, each func(*compare.Request) error) error {
		if err := readRows(path, stage, each); err != nil {
			return fmt.Errorf("read request rows from %s: %w", path, err)
		}
		return nil
	}
	err := read(math.MaxUint32, nil) // no stage: the file is opened
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nil is the answer: there are no rows
	}
	return read, err
}

// batch is how many rows are read at a time.
const batch = 512

// readRows passes on the measured requests of a stage. each must not keep what it gets.
func readRows(path string, stage uint32, each func(*compare.Request) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var groups []parquet.RowGroup
	if err := guard(func() (err error) { groups, err = groupsOf(file, stage); return err }); err != nil {
		return err
	}
	for _, group := range groups {
		if err := readGroup(group, stage, each); err != nil {
			return err
		}
	}
	return nil
}

// readGroup is readRows for a row group.
func readGroup(group parquet.RowGroup, stage uint32, each func(*compare.Request) error) (err error) {
	reader := parquet.NewGenericRowGroupReader[row](group)
	defer func() { err = errors.Join(err, reader.Close()) }()
	rows := make([]row, batch)
	for {
		var n int
		clear(rows) // the reader would write to where pointers of earlier rows point
		err := guard(func() (err error) { n, err = reader.Read(rows); return err })
		switch end := errors.Is(err, io.EOF); {
		case err != nil && !end:
			return err
		case n == 0 && !end:
			return errors.New("the file is damaged: it has fewer rows than it says")
		}
		for i := range rows[:n] {
			if r := &rows[i]; r.Stage == stage && !r.Unmeasured {
				if err := r.pass(each); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return nil // the group's end
		}
	}
}

// guard calls a function of the reader of Parquet, which panics on some damaged files: that is an error, too.
func guard(read func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the file is damaged: %v", reason)
		}
	}()
	return read()
}

// groupsOf returns the row groups of a file that may have rows of a stage.
func groupsOf(file *os.File, stage uint32) (some []parquet.RowGroup, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, err
	}
	column, ok := f.Schema().Lookup("stage")
	if !ok {
		return nil, errors.New("the file has no column stage")
	}
	for _, group := range f.RowGroups() {
		chunk, is := group.ColumnChunks()[column.ColumnIndex].(*parquet.FileColumnChunk)
		if is {
			if low, high, known := chunk.Bounds(); known && (stage < low.Uint32() || stage > high.Uint32()) {
				continue
			}
		}
		some = append(some, group)
	}
	return some, nil
}

// pass passes on the request of a row.
func (r *row) pass(each func(*compare.Request) error) (err error) {
	if r.BodyHash, err = strconv.ParseUint(r.Hash, 16, 64); err != nil {
		return fmt.Errorf("request %d: body_hash %q is not a hash", r.Index, r.Hash)
	}
	r.FirstTokenNs, r.LastTokenNs, r.Completed = r.First, r.Last, !r.Cancelled && r.ErrorClass == nil
	return each(&r.Request)
}
