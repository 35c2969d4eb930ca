package ready

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/schema"
	"github.com/spate-load/spate/internal/lists"
)

// This file checks answers against what their requests asked for: calls of the tools that a request defines, and
// the form that it demands, such as a JSON Schema. An answer is checked after its request has ended, in the memory that
// it already takes. The package knows no servers and no times.

// AnswerChecker checks the answers of one stage. It is safe for concurrent use.
type AnswerChecker struct {
	api *api.API
	// all is what the target's body asks for.
	all *Asked

	mu   sync.Mutex
	rows map[string]*Asked // by the rows' fields
}

// maxRows bounds how many different fields of rows are remembered.
const maxRows = 1024

// Asked is what a request asks for, besides text.
type Asked struct {
	tools []string // names of the tools
	form  form     // nil: any
}

// Form reports whether the request demands a form that can be checked. The answer's text must then be kept.
func (a *Asked) Form() bool { return a.form != nil }

// Outcome is what an answer has of what its request asked for.
type Outcome struct {
	// Tools: the request defines tools.
	Tools bool
	// Calls is the number of tool calls. Valid ones name a tool that the request defines, and have a JSON object as
	// arguments.
	Calls, ValidCalls uint64
	// Checked: the request demands a form that can be checked. ValidAnswer: the answer has it.
	Checked, ValidAnswer bool
}

// NewAnswerChecker returns a AnswerChecker for a target's API and the fields of its body.
func NewAnswerChecker(a *api.API, body map[string]any) (*AnswerChecker, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	c := &AnswerChecker{api: a, rows: map[string]*Asked{}}
	c.all = c.read(text)
	return c, nil
}

// Asked returns what a request asks for: the target's body, and the fields of its row, the members of a JSON object
// without its braces. They may be empty.
func (c *AnswerChecker) Asked(fields []byte) *Asked {
	if len(fields) == 0 {
		return c.all
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, known := c.rows[string(fields)]
	if known {
		return a
	}
	if len(c.rows) >= maxRows {
		clear(c.rows)
	}
	own := c.read(slices.Concat([]byte{'{'}, fields, []byte{'}'}))
	a = &Asked{tools: append(slices.Clone(c.all.tools), own.tools...), form: own.form}
	if a.form == nil {
		a.form = c.all.form
	}
	c.rows[string(fields)] = a
	return a
}

// read reads a body, or the members of one.
func (c *AnswerChecker) read(body []byte) *Asked {
	a := &Asked{}
	if c.api.Tools != nil {
		for _, name := range gjson.GetBytes(body, c.api.Tools.Names).Array() {
			a.tools = append(a.tools, name.String())
		}
	}
	for _, f := range c.api.Forms {
		if a.form == nil {
			a.form = formOf(f.Kind, gjson.GetBytes(body, f.Path))
		}
	}
	return a
}

// Check checks the answer of a request that has ended. What did not complete has no outcome.
func (c *AnswerChecker) Check(a *Asked, o *stream.Observation) Outcome {
	if o.Err != nil || o.Cancelled {
		return Outcome{}
	}
	out := Outcome{Tools: len(a.tools) > 0}
	if len(o.Calls) > 0 {
		for _, call := range c.callsOf(o.Calls) {
			out.Calls++
			if call.valid(c.api.Tools.NoArguments) && slices.Contains(a.tools, call.name) {
				out.ValidCalls++
			}
		}
	}
	if a.form != nil && out.Calls == 0 { // a call takes the place of an answer
		out.Checked, out.ValidAnswer = true, a.form(answerText(o.Answer))
	}
	return out
}

// answerText returns the text of an answer, which is between the quotes of a JSON string.
func answerText(answer []byte) string {
	var text string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, answer, []byte{'"'}), &text) // it is valid
	return text
}

// call is a tool call.
type call struct{ name, arguments string }

// valid reports whether the arguments are a JSON object. none: no arguments are an object without members.
func (c *call) valid(none bool) bool {
	return c.arguments == "" && none || gjson.Valid(c.arguments) && gjson.Parse(c.arguments).IsObject()
}

// callsOf puts the calls of an answer together from their pieces.
func (c *AnswerChecker) callsOf(pieces []byte) []*call {
	byIndex := map[int]*call{}
	var all []*call
	add := func(p api.CallPiece) {
		one := byIndex[p.Index]
		if one == nil || p.Index < 0 && p.Name != "" {
			one = &call{}
			byIndex[p.Index] = one
			all = append(all, one)
		}
		one.name += p.Name
		one.arguments += p.Arguments
	}
	values := json.NewDecoder(bytes.NewReader(pieces))
	for {
		var value json.RawMessage
		if values.Decode(&value) != nil { // the end: the values are valid
			return all
		}
		c.api.Tools.Calls(value, add)
	}
}

// form reports whether an answer has a form.
type form func(answer string) bool

// formOf returns the form that the value of a body's field demands. Nil: it demands none, or none that can be checked.
func formOf(kind api.FormKind, value gjson.Result) form {
	switch {
	case !value.Exists():
		return nil
	case kind == api.FormSchema:
		return schemaForm(value)
	case kind == api.FormJSON && slices.Contains([]string{"true", "json_object", "application/json"}, value.String()):
		return gjson.Valid
	case kind == api.FormRegex:
		all, err := regexp.Compile(`^(?s:` + value.String() + `)$`)
		if err != nil {
			return nil
		}
		return all.MatchString
	case kind == api.FormChoice:
		all := lists.Each(value.Array(), gjson.Result.String)
		return func(answer string) bool { return slices.Contains(all, answer) }
	}
	return nil
}

// schemaForm compiles a JSON Schema, an object or its text.
func schemaForm(value gjson.Result) form {
	compiled, err := schema.Compile(value.String())
	if err != nil {
		return nil
	}
	return func(answer string) bool {
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		return err == nil && !schema.TooDeep(instance) && compiled.Validate(instance) == nil
	}
}
