package requests

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// catalogue has the name and the meaning of each column, in their order. docs/results.md has them as a table.
//
//go:embed columns.tsv
var catalogue string

// columns are the columns of request rows. Each has the value of the field of spatev1.RequestRecord with its name, or
// that of own.
var columns = columnsOf(catalogue)

// column is a column of request rows.
type column struct {
	name, meaning string
	field         protoreflect.FieldDescriptor
	own           func(*record) any // in place of the field's value
	node          parquet.Node
}

// record is what a row is made from.
type record struct {
	*spatev1.RequestRecord
	stage uint32
	agent string
	part  string              // empty: the workload is not a mixture
	ids   *measure.RequestIDs // nil: it has no trace
}

// trace returns the ID of its trace. Nil: it has none.
func (r *record) trace() *string {
	if r.ids == nil {
		return nil
	}
	return new(string(measure.AppendTraceID(nil, r.ids.String(r.GetIndex(), int(r.GetTurn())))))
}

// word is the type of texts of which few differ.
var word = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)

// nodes are the types of columns by those of their fields.
var nodes = map[protoreflect.Kind]parquet.Node{
	protoreflect.BoolKind: parquet.Leaf(parquet.BooleanType), protoreflect.Int64Kind: parquet.Int(64),
	protoreflect.Uint32Kind: parquet.Uint(32), protoreflect.Uint64Kind: parquet.Uint(64), protoreflect.StringKind: word,
}

// own are the columns whose values are not those of fields.
var own = map[string]column{
	"stage": {node: nodes[protoreflect.Uint32Kind], own: func(r *record) any { return r.stage }},
	"agent": {node: word, own: func(r *record) any { return r.agent }},
	"part":  {node: parquet.Optional(word), own: func(r *record) any { return r.part }},
	"error_class": {node: parquet.Optional(word), own: func(r *record) any {
		if r.GetErrorClass() == spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED {
			return nil
		}
		return measure.ErrorName(r.GetErrorClass(), r.GetHttpStatus())
	}},
	"http_status": {node: parquet.Optional(nodes[protoreflect.Uint32Kind]), own: func(r *record) any {
		if r.GetHttpStatus() == 0 {
			return nil
		}
		return r.GetHttpStatus()
	}},
	"trace_id":  {node: parquet.Optional(parquet.String()), own: func(r *record) any { return *cmp.Or(r.trace(), new("")) }},
	"error":     {node: parquet.Optional(parquet.String()), own: func(r *record) any { return r.GetError() }},
	"body_hash": {node: parquet.String(), own: func(r *record) any { return fmt.Sprintf("%016x", r.GetBodyHash()) }},
	"itl_ns": {node: parquet.List(nodes[protoreflect.Int64Kind]), own: func(r *record) any {
		return append([]int64{}, r.GetItlNs()...)
	}},
}

// columnsOf fills in the fields and types of columns.
func columnsOf(catalogue string) (columns []column) {
	fields := (&spatev1.RequestRecord{}).ProtoReflect().Descriptor().Fields()
	for line := range strings.Lines(catalogue) {
		name, meaning, _ := strings.Cut(strings.TrimSpace(line), "\t")
		c := own[name]
		if c.name, c.meaning = name, meaning; c.own == nil {
			c.field = fields.ByName(protoreflect.Name(name))
			c.node = nodes[c.field.Kind()]
			if c.field.HasPresence() || c.field.Kind() == protoreflect.StringKind {
				c.node = parquet.Optional(c.node)
			}
		}
		columns = append(columns, c)
	}
	return columns
}

// value returns a row's value. It is nil if there is none.
func (c *column) value(r *record) (v any) {
	switch m := r.ProtoReflect(); {
	case c.own != nil:
		v = c.own(r)
	case c.field.HasPresence() && !m.Has(c.field):
		return nil
	default:
		v = m.Get(c.field).Interface()
	}
	if v == "" {
		return nil
	}
	return v
}

// appendTo appends a row's values of the column at a place to those of a Parquet file.
func (c *column) appendTo(row parquet.Row, place int, r *record) parquet.Row {
	definition := 0
	if c.node.Optional() {
		definition = 1
	}
	if m := r.ProtoReflect(); c.own == nil && (!c.field.HasPresence() || m.Has(c.field)) {
		switch v := m.Get(c.field); c.field.Kind() { // most values, without a copy on the heap
		case protoreflect.Int64Kind:
			return append(row, parquet.Int64Value(v.Int()).Level(0, definition, place))
		case protoreflect.Uint32Kind:
			return append(row, parquet.Int32Value(int32(v.Uint())).Level(0, definition, place))
		}
	}
	switch v := c.value(r).(type) {
	case nil:
		return append(row, parquet.NullValue().Level(0, 0, place))
	case []int64:
		if len(v) == 0 {
			return append(row, parquet.NullValue().Level(0, 0, place))
		}
		for i, n := range v {
			row = append(row, parquet.Int64Value(n).Level(min(i, 1), 1, place))
		}
		return row
	default:
		return append(row, parquet.ValueOf(v).Level(0, definition, place))
	}
}

// schema returns the schema of a Parquet file.
func schema() *parquet.Schema {
	all := ordered{parquet.Group{}}
	for _, c := range columns {
		all.Group[c.name] = c.node
	}
	return parquet.NewSchema("Row", all)
}

// ordered is a group whose fields are in the order of columns.
type ordered struct{ parquet.Group }

// Fields implements parquet.Node.
func (o ordered) Fields() []parquet.Field {
	place := map[string]int{}
	for i, c := range columns {
		place[c.name] = i
	}
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return cmp.Compare(place[a.Name()], place[b.Name()]) })
	return fields
}

// rowStage describes the stage that rows refer to by its index.
type rowStage struct {
	Stage     uint32  `json:"stage"`
	Target    string  `json:"target"`
	Workload  string  `json:"workload"`
	Load      string  `json:"load"`
	StartTime *string `json:"start_time"` // null: the stage never started
}

// footer returns the metadata of a Parquet file: the run, the version of the program that measured, and the stages.
func footer(r *results.Result) []parquet.WriterOption {
	stages, _ := json.Marshal(lists.Each(r.Stages, func(s results.StageResult) rowStage { // texts and numbers
		return rowStage{s.Index, s.Target, s.Workload, s.Load.Words, s.StartTime}
	}))
	return []parquet.WriterOption{parquet.KeyValueMetadata("spate.run_id", r.Run.ID),
		parquet.KeyValueMetadata("spate.version", r.Run.Version), parquet.KeyValueMetadata("spate.stages", string(stages))}
}
