package requests

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/encoding/protowire"
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

// columns are the columns of request rows. Each has the value of the field of spatev1.RequestRecord with its name,
// unless own has a text for it.
var columns = columnsOf(catalogue)

// column is a column of request rows.
type column struct {
	name, meaning string
	field         protowire.Number // 0: text is its value, or it is the index of the stage
	text          func([]byte, *row) []byte
	kind          protoreflect.Kind
	node          parquet.Node
	optional      bool
}

// word is the type of texts of which few differ.
var word = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)

// nodes are the types of columns by those of their fields.
var nodes = map[protoreflect.Kind]parquet.Node{
	protoreflect.BoolKind: parquet.Leaf(parquet.BooleanType), protoreflect.Int64Kind: parquet.Int(64),
	protoreflect.Uint32Kind: parquet.Uint(32), protoreflect.Uint64Kind: parquet.Uint(64), protoreflect.StringKind: word,
}

// own are the columns whose types are not those of their fields, or whose values are texts of their own.
var own = map[string]column{
	"stage": {kind: protoreflect.Uint32Kind, node: nodes[protoreflect.Uint32Kind]},
	"agent": {node: word, text: func(b []byte, r *row) []byte { return append(b, r.agent...) }},
	"part":  {node: parquet.Optional(word), text: func(b []byte, r *row) []byte { return append(b, r.partName()...) }},
	"error_class": {node: parquet.Optional(word), text: func(b []byte, r *row) []byte {
		class := spatev1.ErrorClass(r.numbers[errorClass])
		if class == spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED {
			return b
		}
		return append(b, measure.ErrorName(class, uint32(r.numbers[httpStatus]))...)
	}},
	"trace_id": {node: parquet.Optional(parquet.String()), text: func(b []byte, r *row) []byte { return r.appendTrace(b) }},
	"body_hash": {node: parquet.String(), text: func(b []byte, r *row) []byte {
		var hash [8]byte
		binary.BigEndian.PutUint64(hash[:], uint64(r.numbers[bodyHash]))
		return hex.AppendEncode(b, hash[:])
	}},
	"http_status": {node: parquet.Optional(nodes[protoreflect.Uint32Kind])},
	"error":       {node: parquet.Optional(parquet.String())},
	"itl_ns":      {node: parquet.List(nodes[protoreflect.Int64Kind])},
}

// columnsOf fills in the fields and types of columns.
func columnsOf(catalogue string) (columns []column) {
	for line := range strings.Lines(catalogue) {
		name, meaning, _ := strings.Cut(strings.TrimSpace(line), "\t")
		c := own[name]
		c.name, c.meaning = name, meaning
		if f := fields.ByName(protoreflect.Name(name)); f != nil && c.text == nil {
			if c.field, c.kind = f.Number(), f.Kind(); c.node == nil {
				c.node = nodes[c.kind]
				if f.HasPresence() || c.kind == protoreflect.StringKind {
					c.node = parquet.Optional(c.node)
				}
			}
		}
		c.optional = c.node.Optional()
		columns = append(columns, c)
	}
	return columns
}

// appendTo appends a row's values to those of other rows. They are valid until the row is decoded again.
func (c *column) appendTo(values []parquet.Value, r *row) []parquet.Value {
	if c.field == itlNs && len(r.gaps()) > 0 {
		for i, gap := range r.list {
			values = append(values, parquet.Int64Value(gap))
			values[len(values)-1].SetRepetitionLevel(min(i, 1))
			values[len(values)-1].SetDefinitionLevel(1)
		}
		return values
	}
	values = append(values, c.value(r))
	if last := &values[len(values)-1]; c.optional && !last.IsNull() {
		last.SetDefinitionLevel(1)
	}
	return values
}

// value returns a row's value. It is null if there is none, and for lists.
func (c *column) value(r *row) parquet.Value {
	n := r.numbers[c.field]
	switch {
	case c.text != nil:
		from := len(r.memory)
		if r.memory = c.text(r.memory, r); len(r.memory) == from {
			return parquet.NullValue()
		}
		return parquet.ByteArrayValue(r.memory[from:])
	case c.field == itlNs || c.optional && !r.has(c.field):
		return parquet.NullValue()
	case c.kind == protoreflect.StringKind:
		return parquet.ByteArrayValue(r.texts[c.field])
	case c.kind == protoreflect.BoolKind:
		return parquet.BooleanValue(n != 0)
	case c.kind == protoreflect.Uint32Kind:
		return parquet.Int32Value(int32(n))
	}
	return parquet.Int64Value(n)
}

// plain returns a row's value for JSON.
func (c *column) plain(r *row) any {
	switch v := c.value(r); {
	case c.field == itlNs:
		return append([]int64{}, r.gaps()...)
	case v.IsNull():
		return nil
	case v.Kind() == parquet.ByteArray:
		return string(v.ByteArray())
	case v.Kind() == parquet.Boolean:
		return v.Boolean()
	}
	return r.numbers[c.field]
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
