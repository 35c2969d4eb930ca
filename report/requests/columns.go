package requests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// columns are the columns of request rows, in their order. docs/results.md has them as a table. Each has the value of
// the field of spatev1.RequestRecord with its name, or that of own.
var columns = columnsOf([]column{
	{name: "stage", meaning: "Index of the stage, from 0, as in results.json"},
	{name: "index", meaning: "Index of the request in its stage; of the session, where `turn` counts"},
	{name: "agent", meaning: "Name of the agent that sent it"},
	{name: "endpoint", meaning: "Index of the endpoint in the target's list"},
	{name: "part", meaning: "Name of the mixture's part; null: the workload is not a mixture"},
	{name: "model", meaning: "Model that it named, if the mixture's part has models of its own; null: the target's"},
	{name: "unmeasured", meaning: "It belongs to warm-up or cool-down"},
	{name: "scheduled_ns", meaning: "When it was due by the schedule"},
	{name: "start_ns", meaning: "When the agent started it"},
	{name: "sent_ns", meaning: "When its last byte was handed to the kernel"},
	{name: "first_byte_ns", meaning: "First byte of the response"},
	{name: "first_token_ns", meaning: "First frame with a token"},
	{name: "last_token_ns", meaning: "Last frame with a token"},
	{name: "first_text_ns", meaning: "First frame with text of any kind"},
	{name: "first_answer_ns", meaning: "First frame with text of the answer, not of reasoning"},
	{name: "first_chunk_ns", meaning: "First frame that vLLM's client takes the time of"},
	{name: "last_chunk_ns", meaning: "Last frame that vLLM's client takes the time of"},
	{name: "end_ns", meaning: "End of the response, or failure"},
	{name: "connect_ns", meaning: "Time for DNS, TCP and TLS of the connection; null: it had been used before"},
	{name: "itl_ns", meaning: "Gaps between frames with a token"},
	{name: "isl_asked", meaning: "Input tokens asked for"},
	{name: "osl_asked", meaning: "Output tokens asked for"},
	{name: "input_tokens", meaning: "Input tokens seen"},
	{name: "output_tokens", meaning: "Output tokens seen"},
	{name: "usage", meaning: "The server's usage counted the tokens"},
	{name: "token_frames", meaning: "Frames that carried a token"},
	{name: "chunks", meaning: "Frames that vLLM's client takes the time of"},
	{name: "text_bytes", meaning: "Bytes of text of the output, as JSON writes it; a tool call counts with all of its JSON"},
	{name: "reasoning_tokens", meaning: "Output tokens that were reasoning; null: not reported, or none"},
	{name: "error_class", meaning: "How it failed, by the names of `errors` in results.json (`http_429`); null: it did not"},
	{name: "http_status", meaning: "HTTP status of the answer; null: there was none"},
	{name: "error", meaning: "The failure in words; null: it did not fail"},
	{name: "cancelled", meaning: "Cancelled by a stop or the end of the drain"},
	{name: "body_hash", meaning: "FNV-1a of the request body, 16 hexadecimal digits, so that two runs' requests can be compared"},
	{name: "finish_reason", meaning: "What the server gave; null: nothing"},
	{name: "answer_model", meaning: "Model that the answer named; null: none"},
	{name: "trace_id", meaning: "ID of its trace; null: the plan sets `traceparent`"},
	{name: "turn", meaning: "Turn of the session, from 0"},
	{name: "cached_tokens", meaning: "Prompt tokens that the server took from its prefix cache; null: not reported"},
	{name: "shared_tokens", meaning: "Prompt tokens that an earlier request began with too, by the workload's own account"},
	{name: "dns_ns", meaning: "DNS's part of it; null: there was none"},
	{name: "tcp_ns", meaning: "TCP's part of it; null: there was none"},
	{name: "tls_ns", meaning: "TLS's part of it; null: there was none"},
	{name: "held_ns", meaning: "For how long max_in_flight held it back after `scheduled_ns`; null: not at all"},
	{name: "tool_calls", meaning: "Tool calls in the answer; null: no tools were defined, and there are none"},
	{name: "valid_tool_calls", meaning: "Those that name a tool of the request and have a JSON object as arguments; null with `tool_calls`"},
	{name: "valid_answer", meaning: "The answer has the form that the request demanded; null: none that can be checked"},
	{name: "texts", meaning: "Texts of the request (inputs, documents); null: the workload sets no number"},
})

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
	"trace_id": {node: parquet.Optional(parquet.String()), own: func(r *record) any {
		if r.ids == nil {
			return nil
		}
		return string(measure.AppendTraceID(nil, r.ids.String(r.GetIndex(), int(r.GetTurn()))))
	}},
	"error":     {node: parquet.Optional(parquet.String()), own: func(r *record) any { return r.GetError() }},
	"body_hash": {node: parquet.String(), own: func(r *record) any { return fmt.Sprintf("%016x", r.GetBodyHash()) }},
	"itl_ns": {node: parquet.List(nodes[protoreflect.Int64Kind]), own: func(r *record) any {
		return append([]int64{}, r.GetItlNs()...)
	}},
}

// columnsOf fills in the fields and types of columns.
func columnsOf(columns []column) []column {
	fields := (&spatev1.RequestRecord{}).ProtoReflect().Descriptor().Fields()
	for i := range columns {
		c := &columns[i]
		if of, is := own[c.name]; is {
			c.own, c.node = of.own, of.node
			continue
		}
		c.field = fields.ByName(protoreflect.Name(c.name))
		c.node = nodes[c.field.Kind()]
		if c.field.HasPresence() || c.field.Kind() == protoreflect.StringKind {
			c.node = parquet.Optional(c.node)
		}
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
	switch v := c.value(r).(type) {
	case nil:
		return append(row, parquet.NullValue().Level(0, 0, place))
	case []int64:
		if len(v) == 0 {
			return append(row, parquet.NullValue().Level(0, 0, place))
		}
		for i, n := range v {
			row = append(row, parquet.ValueOf(n).Level(min(i, 1), 1, place))
		}
		return row
	default:
		definition := 0
		if c.node.Optional() {
			definition = 1
		}
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

// rowUnits describes the units of the numbers in a row.
const rowUnits = "Columns that end in _ns: nanoseconds since the start of the row's stage (held_ns, connect_ns, dns_ns, tcp_ns, tls_ns and itl_ns: " +
	"nanoseconds). Lengths: tokens. Null: not known, or not reached."

// rowStage describes the stage that rows refer to by its index.
type rowStage struct {
	Stage     uint32  `json:"stage"`
	Target    string  `json:"target"`
	Workload  string  `json:"workload"`
	Load      string  `json:"load"`
	StartTime *string `json:"start_time"` // null: the stage never started
}

// footer returns the metadata of a Parquet file, with which it can be read without the files beside it: the run, the
// version of the program that measured, the units, the stages and what the columns mean.
func footer(r *results.Result) ([]parquet.WriterOption, error) {
	stages := []rowStage{}
	for _, s := range r.Stages {
		stages = append(stages, rowStage{s.Index, s.Target, s.Workload, s.Load.Words, s.StartTime})
	}
	meanings := make(map[string]string)
	for _, c := range columns {
		meanings[c.name] = c.meaning
	}
	entries := []struct {
		key   string
		value any
	}{
		{"spate.run_id", r.Run.ID}, {"spate.version", r.Run.Version}, {"spate.units", rowUnits},
		{"spate.stages", stages}, {"spate.columns", meanings},
	}
	var options []parquet.WriterOption
	for _, e := range entries {
		text, plain := e.value.(string)
		if !plain {
			data, err := json.Marshal(e.value)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		options = append(options, parquet.KeyValueMetadata(e.key, text))
	}
	return options, nil
}
