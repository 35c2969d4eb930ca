// Package requests writes the rows of a run's requests, which the ledger keeps if the run's plan asks for them.
package requests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/measure"
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
	var write func(io.Writer, func(func([]record) error) error) error
	switch run.GetRecords() {
	case "":
		return nil, nil
	case JSONL:
		write = writeJSONL
	case Parquet:
		write = func(w io.Writer, stages func(func([]record) error) error) error {
			return writeParquet(w, footer(r), stages)
		}
	default:
		return nil, fmt.Errorf("request rows are kept as %q, and this program knows %q and %q", run.GetRecords(),
			JSONL, Parquet)
	}
	return func(w io.Writer) error {
		return write(w, func(each func([]record) error) error { return eachStage(ledger, each) })
	}, nil
}

// eachStage calls each with the rows of each stage, some at a time, and stops at the first error.
func eachStage(ledger *ledger.Ledger, each func([]record) error) error {
	stages, err := ledger.Stages()
	if err != nil {
		return err
	}
	for _, stage := range stages {
		if err := eachRow(ledger, stage, window, each); err != nil {
			return err
		}
	}
	return nil
}

// window is how many rows wait for earlier ones: some 50 MB.
const window = 50_000

// eachRow calls each with the rows of a stage's result, some at a time, by index and turn. They arrived in the order of
// their ends, and a stage may have millions: a row that arrived more than window rows after its successors comes out of
// order.
func eachRow(ledger *ledger.Ledger, stage *spatev1.StageRecord, window int, each func([]record) error) error {
	var rows []record
	release := func(n int) error {
		slices.SortStableFunc(rows, inOrder)
		err := each(rows[:n])
		rows = slices.Delete(rows, 0, n)
		return err
	}
	err := eachArrival(ledger, stage, func(r record) error {
		if rows = append(rows, r); len(rows) < 2*window {
			return nil
		}
		return release(len(rows) - window)
	})
	if err != nil {
		return err
	}
	return release(len(rows))
}

// inOrder compares rows by index and turn.
func inOrder(a, b record) int {
	return cmp.Or(cmp.Compare(a.GetIndex(), b.GetIndex()), cmp.Compare(a.GetTurn(), b.GetTurn()),
		cmp.Compare(a.agent, b.agent))
}

// eachArrival calls each with the rows of a stage's result as they arrived.
func eachArrival(ledger *ledger.Ledger, stage *spatev1.StageRecord, each func(record) error) error {
	var ids *measure.RequestIDs
	return ledger.Arrivals(stage.GetStage().GetIndex(), func(s *spatev1.Snapshot) error {
		if !merge.InResult(stage, s) {
			return nil
		}
		if ids == nil && measure.Traced(stage.GetStage().GetTarget().GetHeaders()) {
			ids = new(measure.RequestIDsOf(s.GetKey().GetRunId(), s.GetStageIndex()))
		}
		for _, r := range s.GetRecords() {
			row := record{r, s.GetStageIndex(), s.GetKey().GetAgent(), partName(stage.GetStage(), r.GetPart()), ids}
			if err := each(row); err != nil {
				return err
			}
		}
		return nil
	})
}

// partName returns the name of a part of a stage's mixture. Empty: there is no mixture.
func partName(stage *spatev1.Stage, part uint32) string {
	if parts := stage.GetWorkload().GetMix().GetParts(); int64(part) < int64(len(parts)) {
		return parts[part].GetWorkload().GetName()
	}
	return ""
}

// writeJSONL writes one JSON object per line.
func writeJSONL(w io.Writer, stages func(func([]record) error) error) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	return stages(func(rows []record) error {
		for i := range rows {
			line.Reset()
			for j := range columns {
				line.WriteString(`,"` + columns[j].name + `":`)
				if err := e.Encode(columns[j].value(&rows[i])); err != nil {
					return err
				}
				line.Truncate(line.Len() - 1) // the line's end, which the encoder adds
			}
			line.WriteString("}\n")
			line.Bytes()[0] = '{'
			if _, err := w.Write(line.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeParquet writes a Parquet file.
func writeParquet(w io.Writer, footer []parquet.WriterOption, stages func(func([]record) error) error) error {
	p := parquet.NewGenericWriter[any](w, append(footer,
		schema(),
		parquet.CreatedBy("spate", "1", ""),
		parquet.Compression(&parquet.Snappy),
		parquet.MaxRowsPerRowGroup(rowGroup))...)
	err := stages(func(records []record) error {
		rows := make([]parquet.Row, 256)
		for part := range slices.Chunk(records, len(rows)) {
			for i := range part {
				rows[i] = rows[i][:0]
				for j := range columns {
					rows[i] = columns[j].appendTo(rows[i], j, &part[i])
				}
			}
			if _, err := p.WriteRows(rows[:len(part)]); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, p.Close())
}
