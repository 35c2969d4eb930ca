// Package requests writes the rows of a run's requests, which the ledger keeps if the run's plan asks for them.
package requests

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Formats of request rows.
const (
	JSONL   = "jsonl"
	Parquet = "parquet"
)

// rowGroup is the number of rows in a row group of a Parquet file, which bounds what a reader must load at once.
const rowGroup = 100_000

// Writer returns a function that writes the rows of a run in the format in which the run keeps them. It returns nil if
// the run keeps none, and an error if this program does not know the format. The ledger must stay open until the
// function has returned.
func Writer(ledger *ledger.Ledger, run *spatev1.RunRecord, r *results.Result) (func(io.Writer) error, error) {
	stages, err := ledger.Stages()
	if err != nil {
		return nil, err
	}
	each := func(each func([]record) error) (err error) {
		for i := 0; i < len(stages) && err == nil; i++ {
			err = eachRow(ledger, stages[i], window, each)
		}
		return err
	}
	meta := footer(r)
	switch run.GetRecords() {
	case "":
		return nil, nil
	case JSONL:
		return func(w io.Writer) error { return writeJSONL(w, each) }, nil
	case Parquet:
		return func(w io.Writer) error { return writeParquet(w, meta, each) }, nil
	}
	return nil, fmt.Errorf("request rows are kept as %q, and this program knows %q and %q", run.GetRecords(), JSONL, Parquet)
}

// window is how many rows wait for earlier ones: some 50 MB.
const window = 50_000

// eachRow calls each with the rows of a stage's result, some at a time, by index and turn. They arrived in the order of
// their ends, and a stage may have millions: a row that arrived more than window rows after its successors comes out of
// order. each may keep them.
func eachRow(ledger *ledger.Ledger, stage *spatev1.StageRecord, window int, each func([]record) error) error {
	var rows []record
	err := eachArrival(ledger, stage, func(r *row) error {
		if rows = append(rows, r.kept()); len(rows) < 2*window {
			return nil
		}
		slices.SortStableFunc(rows, inOrder)
		released := rows[:window:window]
		rows = append(make([]record, 0, 2*window), rows[window:]...)
		return each(released)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, inOrder)
	return each(rows)
}

// mostAtOnce is how many parts of a file are encoded at once, on however many cores: more would wait for the ledger.
const mostAtOnce = 4

// encoders encode the parts of a file beside one another and beside the reading of the ledger, and write them in order.
type encoders struct {
	group   *errgroup.Group
	failed  context.Context //nolint:containedctx // it belongs to the group
	earlier chan struct{}   // closed once the part before is written
}

func newEncoders() *encoders {
	e := &encoders{earlier: make(chan struct{})}
	e.group, e.failed = errgroup.WithContext(context.Background())
	e.group.SetLimit(min(runtime.GOMAXPROCS(0), mostAtOnce))
	close(e.earlier)
	return e
}

// start encodes a part on another goroutine, and calls write once all parts before it are written. It blocks while
// enough parts are being encoded.
func (e *encoders) start(encode, write func() error) {
	before, written := e.earlier, make(chan struct{})
	e.earlier = written
	e.group.Go(func() error {
		defer close(written)
		err := encode()
		if <-before; err != nil || e.failed.Err() != nil {
			return err
		}
		return write()
	})
}

// writeJSONL writes one JSON object per line.
func writeJSONL(w io.Writer, stages func(func([]record) error) error) error {
	all := newEncoders()
	err := stages(func(records []record) error {
		for part := range slices.Chunk(records, 4096) {
			var lines bytes.Buffer
			all.start(func() error { return encodeJSONL(&lines, part) }, func() error {
				_, err := lines.WriteTo(w)
				return err
			})
		}
		return all.failed.Err()
	})
	return cmp.Or(all.group.Wait(), err)
}

// encodeJSONL appends the lines of some rows.
func encodeJSONL(lines *bytes.Buffer, records []record) error {
	e, r := json.NewEncoder(lines), &row{}
	e.SetEscapeHTML(false)
	for _, of := range records {
		if err := r.decode(of); err != nil {
			return err
		}
		begin := lines.Len()
		for j := range columns {
			lines.WriteString(`,"` + columns[j].name + `":`)
			if err := e.Encode(columns[j].plain(r)); err != nil {
				return err
			}
			lines.Truncate(lines.Len() - 1) // the line's end, which the encoder adds
		}
		lines.WriteString("}\n")
		lines.Bytes()[begin] = '{'
	}
	return nil
}

// writeParquet writes a Parquet file.
func writeParquet(w io.Writer, footer []parquet.WriterOption, stages func(func([]record) error) error) error {
	p := parquet.NewGenericWriter[any](w, append(footer,
		schema(),
		parquet.CreatedBy("spate", "1", ""),
		parquet.Compression(&parquet.Snappy))...)
	all := newEncoders()
	start := func(parts [][]record) {
		group := p.BeginRowGroup()
		all.start(func() error { return encode(group, parts) }, func() error {
			_, err := group.Commit()
			return err
		})
	}
	var parts [][]record
	rows := 0
	err := stages(func(records []record) error {
		for part := range slices.Chunk(records, 256) {
			if rest := rows + len(part) - rowGroup; rest >= 0 {
				start(append(parts, part[:len(part)-rest]))
				parts, rows, part = nil, 0, part[len(part)-rest:]
			}
			parts, rows = append(parts, part), rows+len(part)
		}
		return all.failed.Err()
	})
	start(parts)
	return errors.Join(cmp.Or(all.group.Wait(), err), p.Close())
}

// encode encodes the rows of a row group.
func encode(group *parquet.ConcurrentRowGroupWriter, parts [][]record) error {
	rows, values := make([]row, 64), []parquet.Value(nil)
	for _, records := range parts {
		for part := range slices.Chunk(records, len(rows)) {
			for i, of := range part {
				if err := rows[i].decode(of); err != nil {
					return err
				}
			}
			for j, column := range group.ColumnWriters() {
				values = values[:0]
				for i := range part {
					values = columns[j].appendTo(values, &rows[i])
				}
				if _, err := column.WriteRowValues(values); err != nil {
					return err
				}
			}
		}
	}
	return group.Flush()
}
