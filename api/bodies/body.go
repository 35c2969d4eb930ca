// Package bodies writes the bodies of requests: what an API needs, overridden by the fields of a plan, with the prompt
// and the length of each request.
package bodies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
)

// slot is a placeholder in a body that each request fills in.
type slot int

const (
	noSlot slot = iota
	promptSlot
	textSlot // the prompt without its quotes
	lengthSlot
	plainSlot // the prompt as plain text
)

// piece is a constant part of a body and the slot that follows it.
type piece struct {
	text []byte
	slot slot
}

// Body is a body encoded once, with its slots open. Keys are sorted, so equal requests are equal byte for byte. It is
// safe for concurrent use.
type Body []piece

// Options are what a body asks for in addition to what its API needs.
type Options struct {
	Exact   bool // exactly the output tokens asked for
	Running bool // running usage
}

// New encodes the default body of an API, overridden by the plan's fields. A field that is nil is left out. Without its
// first field for the length of outputs, a body has the next of them that is not left out. New fails if the plan gives
// the prompt, or a value that is not JSON.
func New(t *Dialect, model string, fields map[string]any, options Options) (Body, error) {
	switch {
	case t.Form != nil:
		return Form(t.Form, model)
	case t.Template != "":
		return Template(t.Template, model)
	}
	body := t.body(model, fields, options.Exact)
	requestRunningUsage(body, options.Running)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(t.PromptFields(), name) || name == "messages" || name == "prompt" {
			return nil, fmt.Errorf("body field %q: the workload generates the prompt: remove the field", name)
		}
		if _, err := json.Marshal(fields[name]); err != nil {
			return nil, fmt.Errorf("body field %q: %w", name, err)
		}
		if err := t.override(body, name, fields[name]); err != nil {
			return nil, err
		}
	}
	t.dropOwnLength(t.optionsOf(body), t.optionsOf(fields))
	if _, named := fields[api.StreamOptions]; !named && body["stream"] == false {
		delete(body, api.StreamOptions) // servers refuse the two together
	}
	leaveOut(body)
	leaveOut(t.optionsOf(body))
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return nil, err
	}
	return cutAtMarks(bareMarks.Replace(strings.TrimSuffix(encoded.String(), "\n"))), nil
}

// MarshalJSON writes the mark of a slot, at which the body is cut.
func (s slot) MarshalJSON() ([]byte, error) { return json.Marshal(marks[s]) }

// bareMarks removes the quotes around the marks of slots that stand for whole values.
var bareMarks = strings.NewReplacer(`"`+marks[promptSlot]+`"`, marks[promptSlot],
	`"`+marks[lengthSlot]+`"`, marks[lengthSlot])

// override sets a field of a body as the plan gives it. The members of options are added to the body's own.
func (t *Dialect) override(body map[string]any, name string, value any) error {
	given, ok := value.(map[string]any)
	if name == t.Options {
		if !ok {
			return fmt.Errorf("body field %q: must be an object", name)
		}
		maps.Copy(t.optionsOf(body), given)
		return nil
	}
	if own, had := body[name].(map[string]any); had && ok && name == api.StreamOptions {
		maps.Copy(own, given)
		return nil
	}
	body[name] = value
	return nil
}

// leaveOut removes the members of an object, and of its stream options, that are nil.
func leaveOut(object map[string]any) {
	maps.DeleteFunc(object, func(_ string, value any) bool { return value == nil })
	if options, ok := object[api.StreamOptions].(map[string]any); ok {
		maps.DeleteFunc(options, func(_ string, value any) bool { return value == nil })
	}
}

// lengthField returns the field for the length of outputs: the first of the API's that the given fields do not leave
// out. Empty: they leave out all.
func (t *Dialect) lengthField(given map[string]any) string {
	for _, name := range t.MaxFields {
		if value, named := given[name]; !named || value != nil {
			return name
		}
	}
	return ""
}

// requestRunningUsage replaces the body's stream options, if it has any, by a copy, and asks there for running usage.
func requestRunningUsage(body map[string]any, running bool) {
	options, ok := body[api.StreamOptions].(map[string]any)
	if !ok {
		return
	}
	options = maps.Clone(options)
	body[api.StreamOptions] = options
	if running {
		options["continuous_usage_stats"] = true
	}
}

// body returns the default body, before the plan's fields override it.
func (t *Dialect) body(model string, fields map[string]any, exact bool) map[string]any {
	body := make(map[string]any)
	maps.Copy(body, t.Defaults)
	if t.Model != "" {
		body[t.Model] = model
	}
	body[t.Prompt.Field] = promptSlot
	options := body
	if t.Options != "" {
		options = maps.Clone(t.optionsOf(t.Defaults))
		body[t.Options] = options
	}
	if t.NoOutput {
		return body
	}
	if name := t.lengthField(t.optionsOf(fields)); name != "" {
		options[name] = lengthSlot
	}
	if exact {
		t.requestExact(options, t.optionsOf(fields))
	}
	return body
}

// optionsOf returns the object of a body that holds the length and related options. If the body has no such object, it
// returns an empty one that is not part of the body.
func (t *Dialect) optionsOf(body map[string]any) map[string]any {
	if t.Options == "" {
		return body
	}
	if options, ok := body[t.Options].(map[string]any); ok {
		return options
	}
	return map[string]any{}
}

// dropOwnLength removes the client's own length if the plan gives the length under another name.
func (t *Dialect) dropOwnLength(options, given map[string]any) {
	if t.NoOutput {
		return
	}
	if _, same := given[t.MaxFields[0]]; same {
		return
	}
	for _, name := range t.MaxFields[1:] {
		if given[name] != nil {
			delete(options, t.MaxFields[0])
		}
	}
}

// requestExact asks for as many output tokens as the length says, and not fewer. The plan's fields override that. If
// they set the length or the end-of-output field, no minimum is set: servers refuse a minimum above the maximum.
func (t *Dialect) requestExact(options, given map[string]any) {
	if t.IgnoreEOS != "" {
		options[t.IgnoreEOS] = true
	}
	if _, named := given[t.IgnoreEOS]; named {
		return
	}
	for _, name := range t.MaxFields {
		if given[name] != nil {
			return
		}
	}
	for _, name := range t.MinFields {
		options[name] = lengthSlot
	}
}

// CountFields returns the plan's fields for a request that counts the prompt's tokens: one output token, in one piece
// if the API can. It keeps the fields that can change the prompt.
func (t *Dialect) CountFields(fields map[string]any) map[string]any {
	body := map[string]any{}
	maps.Copy(body, fields)
	options := body
	if t.Options != "" {
		options = maps.Clone(t.optionsOf(fields))
		body[t.Options] = options
	}
	for _, name := range []string{"n", "best_of", t.IgnoreEOS} {
		delete(options, name)
	}
	for _, name := range t.MinFields {
		delete(options, name)
	}
	if body[api.StreamOptions] != nil {
		delete(body, api.StreamOptions)
	}
	if t.StreamField() {
		body["stream"] = false
	}
	if t.NoOutput || t.DescribedBody() {
		return body
	}
	one := t.lengthField(options)
	for _, name := range t.MaxFields {
		if options[name] != nil {
			one = name
			delete(options, name)
		}
	}
	if one != "" {
		options[one] = 1
	}
	return body
}

// write appends constant text.
func (t *Body) write(text []byte) {
	if n := len(*t); n == 0 || (*t)[n-1].slot != noSlot {
		*t = append(*t, piece{})
	}
	last := &(*t)[len(*t)-1]
	last.text = append(last.text, text...)
}

// Append appends the body of a request for osl output tokens. prompt appends the prompt's JSON value. rewrite is
// API.Rewrite.
func (t Body) Append(
	dst []byte, osl uint32, prompt func(dst []byte) []byte, rewrite func(dst []byte, from int) []byte,
) []byte {
	for _, p := range t {
		dst = append(dst, p.text...)
		switch p.slot {
		case promptSlot:
			from := len(dst)
			dst = prompt(dst)
			if rewrite != nil {
				dst = rewrite(dst, from)
			}
		case textSlot:
			from := len(dst)
			dst = prompt(dst)
			copy(dst[from:], dst[from+1:len(dst)-1])
			dst = dst[:len(dst)-2]
		case plainSlot:
			from := len(dst)
			dst = prompt(dst)
			text := jsonscan.Text(dst[from:])
			dst = append(dst[:from], text...)
		case lengthSlot:
			dst = strconv.AppendUint(dst, uint64(osl), 10)
		}
	}
	return dst
}
