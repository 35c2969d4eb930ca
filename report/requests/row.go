package requests

import (
	"cmp"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// record is a request row as the ledger has it. A run may have ten million of them, so they are decoded into rows that
// are used again: a message takes ten times as long, and five times the memory.
type record struct {
	stage   *spatev1.Stage
	agent   string
	ids     *measure.RequestIDs // nil: it has no trace
	encoded []byte
	index   uint64
	turn    uint32
}

// kept returns the record for longer than the ledger's memory is valid.
func (r record) kept() record {
	r.encoded = slices.Clone(r.encoded)
	return r
}

// row is a record with its fields.
type row struct {
	record
	set     uint64    // which fields it has, by number
	numbers [64]int64 // by number. That of 0 is the index of the stage
	texts   [64][]byte
	memory  []byte  // of texts that are made
	list    []int64 // the last gaps
}

// fields are those of a request row.
var fields = (&spatev1.RequestRecord{}).ProtoReflect().Descriptor().Fields()

// field returns the number of a field.
func field(name protoreflect.Name) protowire.Number { return fields.ByName(name).Number() }

// Fields that code reads by their names.
var (
	index, turn, part         = field("index"), field("turn"), field("part")
	unmeasured, cancelled     = field("unmeasured"), field("cancelled")
	startNs, endNs, itlNs     = field("start_ns"), field("end_ns"), field("itl_ns")
	firstTokenNs, lastTokenNs = field("first_token_ns"), field("last_token_ns")
	islAsked, oslAsked        = field("isl_asked"), field("osl_asked")
	outputTokens, bodyHash    = field("output_tokens"), field("body_hash")
	errorClass, httpStatus    = field("error_class"), field("http_status")
)

// decode decodes a record in place of the row before.
func (r *row) decode(of record) error {
	r.record, r.set, r.memory, r.texts[itlNs] = of, 0, r.memory[:0], nil
	clear(r.numbers[:])
	for rest := of.encoded; len(rest) > 0; {
		number, kind, tag := protowire.ConsumeTag(rest)
		var value uint64
		var text []byte
		n := -1
		switch rest = rest[max(tag, 0):]; kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(rest)
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(rest)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(rest)
		}
		if tag < 0 || n < 0 || int(number) >= len(r.numbers) {
			return errors.New("a request row cannot be read")
		}
		rest, r.set = rest[n:], r.set|1<<number
		r.numbers[number], r.texts[number] = int64(value), text
	}
	r.index, r.turn, r.numbers[0] = uint64(r.numbers[index]), uint32(r.numbers[turn]), int64(of.stage.GetIndex())
	return nil
}

// partName returns the name of the mixture's part. Empty: there is no mixture.
func (r *row) partName() string {
	if parts, n := r.stage.GetWorkload().GetMix().GetParts(), uint32(r.numbers[part]); int64(n) < int64(len(parts)) {
		return parts[n].GetWorkload().GetName()
	}
	return ""
}

// has reports whether a field is set.
func (r *row) has(f protowire.Number) bool { return r.set>>f&1 == 1 }

// optional returns the value of a field, which the next record replaces. Nil: it is not set.
func (r *row) optional(f protowire.Number) *int64 {
	if !r.has(f) {
		return nil
	}
	return &r.numbers[f]
}

// gaps returns the gaps between token frames. They are valid until it is called again.
func (r *row) gaps() []int64 {
	r.list = r.list[:0]
	for rest := r.texts[itlNs]; len(rest) > 0; {
		gap, n := protowire.ConsumeVarint(rest)
		r.list, rest = append(r.list, int64(gap)), rest[max(n, 1):]
	}
	return r.list
}

// completed reports whether the request neither failed nor was cancelled.
func (r *row) completed() bool { return r.numbers[cancelled] == 0 && r.numbers[errorClass] == 0 }

// appendTrace appends the ID of its trace, if it has one.
func (r *record) appendTrace(b []byte) []byte {
	if r.ids == nil {
		return b
	}
	return measure.AppendTraceID(b, r.ids.String(r.index, int(r.turn)))
}

// inOrder compares records by index and turn.
func inOrder(a, b record) int {
	return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.turn, b.turn), cmp.Compare(a.agent, b.agent))
}

// eachArrival calls each with the rows of a stage's result as they arrived. A row is valid until each returns.
func eachArrival(l *ledger.Ledger, rec *spatev1.StageRecord, each func(*row) error) error {
	r, of := &row{}, record{stage: rec.GetStage()}
	return l.Rows(of.stage.GetIndex(), func(s *spatev1.Snapshot, rows [][]byte) error {
		if !merge.InResult(rec, s) {
			return nil
		}
		if of.ids == nil && measure.Traced(of.stage.GetTarget().GetHeaders()) {
			of.ids = new(measure.RequestIDsOf(s.GetKey().GetRunId(), s.GetStageIndex()))
		}
		of.agent = s.GetKey().GetAgent()
		for _, of.encoded = range rows {
			if err := r.decode(of); err != nil {
				return err
			}
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// Measured calls each with the measured requests of a stage's result. A request is valid until each returns.
func Measured(l *ledger.Ledger, rec *spatev1.StageRecord, each func(*compare.Request) error) error {
	return eachArrival(l, rec, func(r *row) error {
		n := &r.numbers
		if n[unmeasured] != 0 {
			return nil
		}
		return each(&compare.Request{
			Index: r.index, Turn: r.turn, ISLAsked: uint32(n[islAsked]), OSLAsked: uint32(n[oslAsked]),
			BodyHash: uint64(n[bodyHash]), StartNs: n[startNs], EndNs: n[endNs],
			FirstTokenNs: r.optional(firstTokenNs), LastTokenNs: r.optional(lastTokenNs),
			OutputTokens: uint64(n[outputTokens]), ITLNs: r.gaps(), Cancelled: n[cancelled] != 0,
			Completed: r.completed(),
		})
	})
}
