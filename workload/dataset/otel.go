package dataset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/workload/rows"
)

// span is a span in OTLP JSON, as far as it is used.
type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	ParentID   string      `json:"parentSpanId"`
	Start      json.Number `json:"startTimeUnixNano"`
	End        json.Number `json:"endTimeUnixNano"`
	Attributes []struct {
		Key   string    `json:"key"`
		Value otelValue `json:"value"`
	} `json:"attributes"`
}

// otelValue is a value of an attribute. One field is set.
type otelValue struct {
	String *string      `json:"stringValue"`
	Bool   *bool        `json:"boolValue"`
	Int    *json.Number `json:"intValue"`
	Double *float64     `json:"doubleValue"`
	Array  *struct {
		Values []otelValue `json:"values"`
	} `json:"arrayValue"`
	Map *struct {
		Values []struct {
			Key   string    `json:"key"`
			Value otelValue `json:"value"`
		} `json:"values"`
	} `json:"kvlistValue"`
}

// plain returns the value as encoding/json decodes the same in plain JSON.
func (v otelValue) plain() any {
	switch {
	case v.String != nil:
		return *v.String
	case v.Bool != nil:
		return *v.Bool
	case v.Int != nil:
		return *v.Int
	case v.Double != nil:
		return *v.Double
	case v.Array != nil:
		return append([]any{}, lists.Each(v.Array.Values, otelValue.plain)...)
	case v.Map != nil:
		object := map[string]any{}
		for _, one := range v.Map.Values {
			object[one.Key] = one.Value.plain()
		}
		return object
	}
	return nil
}

// text returns the value as text: a string as it is, anything else as JSON.
func (v otelValue) text() string {
	if v.String != nil {
		return *v.String
	}
	text, _ := json.Marshal(v.plain()) // a number, a boolean, or made of strings
	return string(text)
}

// operations are the values of gen_ai.operation.name that are requests to a model.
var operations = []string{"chat", "text_completion", "generate_content"}

// spanReader reads spans.
type spanReader struct{ requests *recordedRequests }

// read returns the call of a span and, if it is a request to a model, its row.
func (r *spanReader) read(it item) (c call, row *linkedRow, err error) {
	o, err := readObject(it.Text)
	if err != nil {
		return c, nil, err
	}
	attributes := map[string]string{}
	if flat := objectIn(o["attributes"]); flat != nil {
		c, err = flatSpan(o, flat, attributes)
	} else {
		c, err = otlpSpan(it.Text, attributes)
	}
	c.session, c.ended = attributes["gen_ai.conversation.id"], true
	if err != nil || !slices.Contains(operations, attributes["gen_ai.operation.name"]) {
		return c, nil, err
	}
	row, err = r.request(attributes)
	return c, row, err
}

// otlpSpan reads a span of OTLP JSON, and its attributes for GenAI into a map.
func otlpSpan(text []byte, attributes map[string]string) (c call, err error) {
	var s span
	if json.Unmarshal(text, &s) != nil {
		return c, unusable("is not a span of OTLP JSON, with attributes of a key and a value each")
	}
	for _, a := range s.Attributes {
		if strings.HasPrefix(a.Key, "gen_ai.") {
			attributes[a.Key] = a.Value.text()
		}
	}
	c = call{trace: s.TraceID, id: s.SpanID, parent: s.ParentID}
	if c.start, err = strconv.ParseInt(s.Start.String(), 10, 64); err != nil {
		return c, unusable("has the startTimeUnixNano %.40q, not a number", s.Start)
	}
	if c.end, err = strconv.ParseInt(s.End.String(), 10, 64); err != nil || c.end < c.start {
		return c, unusable("has the endTimeUnixNano %.40q, not a number from its start on", s.End)
	}
	return c, nil
}

// flatSpan does the same for a span whose attributes are an object and whose times are texts, as inference-perf records
// them.
func flatSpan(o, given object, attributes map[string]string) (c call, err error) {
	for name, value := range given {
		if strings.HasPrefix(name, "gen_ai.") {
			attributes[name] = textIn(value)
		}
	}
	c = call{trace: textIn(o["trace_id"]), id: textIn(o["span_id"]), parent: textIn(o["parent_span_id"])}
	for name, into := range map[string]*int64{"start_time": &c.start, "end_time": &c.end} {
		value := o.take(name)
		if value == nil {
			return c, unusable("has no %s", name)
		}
		if *into, err = parseInstant(name, value); err != nil {
			return c, err
		}
	}
	if c.end < c.start {
		return c, unusable("ends before it starts")
	}
	return c, nil
}

// request returns the row of a request: its messages if they were recorded, or else random text of their length.
func (r *spanReader) request(attributes map[string]string) (*linkedRow, error) {
	q := recordedRequest{input: []byte(attributes["gen_ai.usage.input_tokens"]),
		output: []byte(attributes["gen_ai.usage.output_tokens"]),
		limit:  []byte(attributes["gen_ai.request.max_tokens"])}
	var instructions []otelPart
	var messages []otelMessage
	var tools []map[string]any
	for name, into := range map[string]any{"gen_ai.system_instructions": &instructions,
		"gen_ai.input.messages": &messages, "gen_ai.tool.definitions": &tools} {
		given := attributes[name]
		if given == "" {
			continue
		}
		if err := json.Unmarshal([]byte(given), into); err != nil {
			return nil, unusable("%s: %v", name, err)
		}
	}
	if len(messages) == 0 {
		return r.requests.row(q)
	}
	var chat []any
	if len(instructions) > 0 {
		chat = append(chat, map[string]any{"role": "system", "content": textOf(instructions)})
	}
	for _, m := range messages {
		chat = append(chat, m.chat()...)
	}
	q.messages = encoded(chat)
	if len(tools) > 0 {
		q.fields = append([]byte(`"tools":`), encoded(chatTools(tools))...)
	}
	return r.requests.row(q)
}

// otelMessage is a message of gen_ai.input.messages.
type otelMessage struct {
	Role    string          `json:"role"`
	Parts   []otelPart      `json:"parts"`
	Content json.RawMessage `json:"content"` // in place of parts, as OpenAI has it
}

// otelPart is a part of a message: text, a tool call or its response.
type otelPart struct {
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Response  json.RawMessage `json:"response"`
	Result    json.RawMessage `json:"result"`
}

// chat returns the message as messages of a chat: a message for each response of a tool, and one for the rest.
// Reasoning and parts of other types are left out.
func (m otelMessage) chat() (messages []any) {
	if m.Parts == nil && m.Content != nil {
		return []any{map[string]any{"role": m.Role, "content": m.Content}}
	}
	var calls []any
	for _, p := range m.Parts {
		switch p.Type {
		case "tool_call":
			calls = append(calls, map[string]any{"id": p.ID, "type": "function",
				"function": map[string]any{"name": p.Name, "arguments": cmp.Or(textIn(p.Arguments), "{}")}})
		case "tool_call_response":
			messages = append(messages, map[string]any{"role": "tool", "tool_call_id": p.ID,
				"content": cmp.Or(textIn(p.Response), textIn(p.Result))})
		}
	}
	text := textOf(m.Parts)
	if text == "" && calls == nil {
		return messages
	}
	rest := map[string]any{"role": m.Role, "content": text}
	if calls != nil {
		rest["tool_calls"] = calls
	}
	return append(messages, rest)
}

// textOf returns the texts of parts, in lines of their own.
func textOf(parts []otelPart) string {
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, textIn(p.Content))
		}
	}
	return strings.Join(texts, "\n")
}

// textIn returns the text of a string, and any other value as compact JSON. A null or an absent value is "".
func textIn(value json.RawMessage) string {
	var text string
	var compact bytes.Buffer
	switch {
	case len(value) == 0 || json.Unmarshal(value, &text) == nil: // null leaves the text empty
		return text
	case json.Compact(&compact, value) == nil:
		return compact.String()
	}
	return string(value)
}

// chatTools returns definitions of tools as chats have them: {"type": "function", "function": {...}}.
func chatTools(tools []map[string]any) []any {
	list := make([]any, 0, len(tools))
	for _, tool := range tools {
		if tool["function"] == nil {
			delete(tool, "type")
			tool = map[string]any{"type": "function", "function": tool}
		}
		list = append(list, tool)
	}
	return list
}

// recordedRequest is what a recording says about a request to a model.
type recordedRequest struct {
	messages             []byte // JSON; empty: they were not recorded
	fields               []byte // beside the messages, as rows.Row has them
	input, output, limit []byte // numbers of tokens; empty: not known
}

// recordedRequests makes rows of recorded requests.
type recordedRequests struct {
	prompts reader
	current rows.Row
}

func newRecordedRequests(b *builder, o Options) *recordedRequests {
	return &recordedRequests{prompts: reader{unused: &b.skipped.Unused, lengths: lengths{count: o.Count}}}
}

// row returns the row of a request. Its content is valid until the next call. The output length is that of the recorded
// answer, or else the limit of the request.
func (r *recordedRequests) row(q recordedRequest) (*linkedRow, error) {
	var lengths [3]uint32
	for i, value := range [][]byte{q.input, q.output, q.limit} {
		if len(value) == 0 || value[0] == 'n' {
			continue // absent or null
		}
		name := []string{"its number of input tokens", "its number of output tokens", "its limit of output tokens"}[i]
		var err error
		if lengths[i], err = parseLength(name, value); err != nil {
			return nil, err
		}
	}
	input, output, limit := lengths[0], lengths[1], lengths[2]
	if len(q.output) > 0 && output == 0 {
		return nil, exclude(failedRequest)
	}
	l := &linkedRow{content: &r.current, step: rows.Step{ISL: input, OSL: cmp.Or(output, limit, defaultOutput)}}
	r.current.Reset()
	if len(q.messages) == 0 {
		if input == 0 {
			return nil, exclude("has neither messages nor a number of input tokens")
		}
		return l, nil
	}
	if err := r.prompts.messages(q.messages, q.fields, &r.current); err != nil {
		return nil, err
	}
	l.step.ISL = r.current.ISL // what was recorded is the count of another model
	return l, nil
}

// encoded returns a value that came from JSON as JSON, without escapes that it does not need.
func encoded(value any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // what came from JSON always encodes
	}
	return bytes.TrimSpace(out.Bytes())
}
