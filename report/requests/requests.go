// Package requests writes the rows of a run's requests, which the ledger keeps if the run's plan asks for them.
package requests

import (
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

// Row is the row of one request. Times are nanoseconds since the stage's start; null: the request did not get
// that far.
type Row struct {
	Stage           uint32  `json:"stage" parquet:"stage"`
	Index           uint64  `json:"index" parquet:"index"`
	Agent           string  `json:"agent" parquet:"agent,dict"`
	Endpoint        uint32  `json:"endpoint" parquet:"endpoint"`
	Part            *string `json:"part" parquet:"part,optional,dict"`
	Model           *string `json:"model" parquet:"model,optional,dict"`
	Unmeasured      bool    `json:"unmeasured" parquet:"unmeasured"`
	ScheduledNs     int64   `json:"scheduled_ns" parquet:"scheduled_ns"`
	StartNs         int64   `json:"start_ns" parquet:"start_ns"`
	SentNs          *int64  `json:"sent_ns" parquet:"sent_ns,optional"`
	FirstByteNs     *int64  `json:"first_byte_ns" parquet:"first_byte_ns,optional"`
	FirstTokenNs    *int64  `json:"first_token_ns" parquet:"first_token_ns,optional"`
	LastTokenNs     *int64  `json:"last_token_ns" parquet:"last_token_ns,optional"`
	FirstTextNs     *int64  `json:"first_text_ns" parquet:"first_text_ns,optional"`
	FirstAnswerNs   *int64  `json:"first_answer_ns" parquet:"first_answer_ns,optional"`
	FirstChunkNs    *int64  `json:"first_chunk_ns" parquet:"first_chunk_ns,optional"`
	LastChunkNs     *int64  `json:"last_chunk_ns" parquet:"last_chunk_ns,optional"`
	EndNs           int64   `json:"end_ns" parquet:"end_ns"`
	ConnectNs       *int64  `json:"connect_ns" parquet:"connect_ns,optional"`
	ITLNs           []int64 `json:"itl_ns" parquet:"itl_ns,list"`
	ISLAsked        uint32  `json:"isl_asked" parquet:"isl_asked"`
	OSLAsked        uint32  `json:"osl_asked" parquet:"osl_asked"`
	InputTokens     *uint64 `json:"input_tokens" parquet:"input_tokens,optional"`
	OutputTokens    *uint64 `json:"output_tokens" parquet:"output_tokens,optional"`
	Usage           bool    `json:"usage" parquet:"usage"`
	TokenFrames     uint64  `json:"token_frames" parquet:"token_frames"`
	Chunks          uint64  `json:"chunks" parquet:"chunks"`
	TextBytes       uint64  `json:"text_bytes" parquet:"text_bytes"`
	ReasoningTokens *uint64 `json:"reasoning_tokens" parquet:"reasoning_tokens,optional"`
	ErrorClass      *string `json:"error_class" parquet:"error_class,optional,dict"`
	HTTPStatus      *uint32 `json:"http_status" parquet:"http_status,optional"`
	Error           *string `json:"error" parquet:"error,optional"`
	Cancelled       bool    `json:"cancelled" parquet:"cancelled"`
	BodyHash        string  `json:"body_hash" parquet:"body_hash"`
	FinishReason    *string `json:"finish_reason" parquet:"finish_reason,optional,dict"`
	AnswerModel     *string `json:"answer_model" parquet:"answer_model,optional,dict"`
	Turn            uint32  `json:"turn" parquet:"turn"`
	CachedTokens    *uint64 `json:"cached_tokens" parquet:"cached_tokens,optional"`
	SharedTokens    uint32  `json:"shared_tokens" parquet:"shared_tokens"`
	DNSNs           *int64  `json:"dns_ns" parquet:"dns_ns,optional"`
	TCPNs           *int64  `json:"tcp_ns" parquet:"tcp_ns,optional"`
	TLSNs           *int64  `json:"tls_ns" parquet:"tls_ns,optional"`
	HeldNs          *int64  `json:"held_ns" parquet:"held_ns,optional"`
	ToolCalls       *uint64 `json:"tool_calls" parquet:"tool_calls,optional"`
	ValidToolCalls  *uint64 `json:"valid_tool_calls" parquet:"valid_tool_calls,optional"`
	ValidAnswer     *bool   `json:"valid_answer" parquet:"valid_answer,optional"`
	Texts           *uint32 `json:"texts" parquet:"texts,optional"`
}

// Writer returns a function that writes the rows of a run in the format in which the run keeps them. It returns nil if
// the run keeps none, and an error if this program does not know the format. The ledger must stay open until the
// function has returned.
func Writer(ledger *ledger.Ledger, run *spatev1.RunRecord, r *results.Result) (func(io.Writer) error, error) {
	var write func(io.Writer, func(func([]Row) error) error) error
	switch run.GetRecords() {
	case "":
		return nil, nil
	case JSONL:
		write = writeJSONL
	case Parquet:
		footer, err := footer(r)
		if err != nil {
			return nil, err
		}
		write = func(w io.Writer, stages func(func([]Row) error) error) error {
			return writeParquet(w, footer, stages)
		}
	default:
		return nil, fmt.Errorf("request rows are kept as %q, and this program knows %q and %q", run.GetRecords(),
			JSONL, Parquet)
	}
	return func(w io.Writer) error {
		return write(w, func(each func([]Row) error) error { return eachStage(ledger, each) })
	}, nil
}

// eachStage calls each with the rows of each stage, by index, and stops at the first error.
func eachStage(ledger *ledger.Ledger, each func([]Row) error) error {
	stages, err := ledger.Stages()
	if err != nil {
		return err
	}
	for _, stage := range stages {
		rows, err := rowsOf(ledger, stage)
		if err != nil {
			return err
		}
		if err := each(rows); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf returns the rows of a stage's result.
func rowsOf(ledger *ledger.Ledger, stage *spatev1.StageRecord) (rows []Row, err error) {
	err = ledger.Snapshots(stage.GetStage().GetIndex(), func(s *spatev1.Snapshot) error {
		if !merge.InResult(stage, s) {
			return nil
		}
		for _, r := range s.GetRecords() {
			row := rowOf(s, r)
			row.Part = partName(stage.GetStage(), r.GetPart())
			rows = append(rows, row)
		}
		return nil
	})
	// The order of the ledger is fixed, so with a stable sort, rows of one index have a fixed order, too.
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Turn, b.Turn))
	})
	return rows, err
}

// partName returns the name of a part of a stage's mixture. Nil: there is no mixture.
func partName(stage *spatev1.Stage, part uint32) *string {
	if parts := stage.GetWorkload().GetMix().GetParts(); int64(part) < int64(len(parts)) {
		return new(parts[part].GetWorkload().GetName())
	}
	return nil
}

// rowOf converts a record to a row.
func rowOf(s *spatev1.Snapshot, r *spatev1.RequestRecord) Row {
	row := Row{
		Stage:           s.GetStageIndex(),
		Index:           r.GetIndex(),
		Agent:           s.GetKey().GetAgent(),
		Endpoint:        r.GetEndpoint(),
		Model:           unlessZero(r.GetModel()),
		Unmeasured:      r.GetUnmeasured(),
		ScheduledNs:     r.GetScheduledNs(),
		StartNs:         r.GetStartNs(),
		SentNs:          r.SentNs,
		FirstByteNs:     r.FirstByteNs,
		FirstTokenNs:    r.FirstTokenNs,
		LastTokenNs:     r.LastTokenNs,
		FirstTextNs:     r.FirstTextNs,
		FirstAnswerNs:   r.FirstAnswerNs,
		HeldNs:          r.HeldNs,
		FirstChunkNs:    r.FirstChunkNs,
		LastChunkNs:     r.LastChunkNs,
		EndNs:           r.GetEndNs(),
		ConnectNs:       r.ConnectNs,
		ITLNs:           append([]int64{}, r.GetItlNs()...),
		ISLAsked:        r.GetIslAsked(),
		OSLAsked:        r.GetOslAsked(),
		InputTokens:     r.InputTokens,
		OutputTokens:    r.OutputTokens,
		Usage:           r.GetUsage(),
		TokenFrames:     r.GetTokenFrames(),
		HTTPStatus:      unlessZero(r.GetHttpStatus()),
		Error:           unlessZero(r.GetError()),
		Cancelled:       r.GetCancelled(),
		BodyHash:        fmt.Sprintf("%016x", r.GetBodyHash()),
		FinishReason:    unlessZero(r.GetFinishReason()),
		AnswerModel:     unlessZero(r.GetAnswerModel()),
		Chunks:          r.GetChunks(),
		TextBytes:       r.GetTextBytes(),
		ReasoningTokens: r.ReasoningTokens,
		Turn:            r.GetTurn(),
		CachedTokens:    r.CachedTokens,
		SharedTokens:    r.GetSharedTokens(),
		DNSNs:           r.DnsNs,
		TCPNs:           r.TcpNs,
		TLSNs:           r.TlsNs,
		ToolCalls:       r.ToolCalls,
		ValidToolCalls:  r.ValidToolCalls,
		ValidAnswer:     r.ValidAnswer,
		Texts:           r.Texts,
	}
	if class := r.GetErrorClass(); class != spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED {
		row.ErrorClass = unlessZero(measure.ErrorName(class, r.GetHttpStatus()))
	}
	return row
}

// unlessZero returns nil for a zero value, which means "there is none" in a record, and a pointer to v otherwise.
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// writeJSONL writes one JSON object per line.
func writeJSONL(w io.Writer, stages func(func([]Row) error) error) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return stages(func(rows []Row) error {
		for i := range rows {
			if err := e.Encode(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeParquet writes a Parquet file.
func writeParquet(w io.Writer, footer []parquet.WriterOption, stages func(func([]Row) error) error) error {
	p := parquet.NewGenericWriter[Row](w, append(footer,
		parquet.CreatedBy("spate", "1", ""),
		parquet.Compression(&parquet.Snappy),
		parquet.MaxRowsPerRowGroup(rowGroup))...)
	err := stages(func(rows []Row) error {
		_, err := p.Write(rows)
		return err
	})
	return errors.Join(err, p.Close())
}
