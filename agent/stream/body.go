package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// slot is a place in a body that each request fills in.
type slot int

const (
	noSlot slot = iota
	promptSlot
	lengthSlot
)

// piece is a constant part of a body and the slot that follows it.
type piece struct {
	text []byte
	slot slot
}

// template is a body encoded once, with its slots left open. Its keys are sorted: equal requests are equal byte for byte.
type template []piece

// newTemplate encodes what the dialect sends by default under what the plan's fields say. Exact asks for the whole output.
func newTemplate(d dialect, model string, fields map[string]any, exact bool) (template, error) {
	body := make(map[string]any)
	d.defaults(body, model)
	if exact {
		askExactly(body, fields)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "messages" || name == "prompt" {
			return nil, fmt.Errorf("body field %q: the workload makes the prompt, take the field out", name)
		}
		body[name] = fields[name]
	}
	if _, ok := fields["max_completion_tokens"]; ok {
		if _, ok := fields["max_tokens"]; !ok {
			delete(body, "max_tokens")
		}
	}
	if _, named := fields["stream_options"]; !named && body["stream"] == false {
		delete(body, "stream_options") // servers refuse the two together
	}
	var t template
	if err := t.add(body); err != nil {
		return nil, err
	}
	return t, nil
}

// askExactly asks for as many output tokens as max_tokens says, and not fewer. Where the fields speak of ignore_eos they decide. Servers
// refuse more min_tokens than max_tokens, so where the fields fix the length there are none.
func askExactly(body, fields map[string]any) {
	body["ignore_eos"] = true
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if _, fixed := fields[name]; fixed {
			return
		}
	}
	if _, named := fields["ignore_eos"]; named {
		return
	}
	body["min_tokens"] = lengthSlot
}

// probeFields returns the fields of a request that asks for one token in one piece, whose prompt is counted. It keeps what can change the
// prompt.
func probeFields(fields map[string]any) map[string]any {
	probe := maps.Clone(fields)
	if probe == nil {
		probe = make(map[string]any)
	}
	for _, name := range []string{"stream_options", "n", "best_of", "min_tokens", "ignore_eos"} {
		delete(probe, name)
	}
	probe["stream"] = false
	if _, ok := fields["max_completion_tokens"]; ok {
		probe["max_completion_tokens"] = 1
		delete(probe, "max_tokens")
	} else {
		probe["max_tokens"] = 1
	}
	return probe
}

// write adds constant text.
func (t *template) write(text []byte) {
	if n := len(*t); n == 0 || (*t)[n-1].slot != noSlot {
		*t = append(*t, piece{})
	}
	last := &(*t)[len(*t)-1]
	last.text = append(last.text, text...)
}

// add encodes a value. It goes into the values that can hold a slot itself and leaves the others to encoding/json.
func (t *template) add(value any) error {
	switch v := value.(type) {
	case slot:
		t.write(nil)
		(*t)[len(*t)-1].slot = v
		return nil
	case map[string]any:
		return t.addObject(v)
	case []any:
		return t.addArray(v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	t.write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return nil
}

func (t *template) addObject(o map[string]any) error {
	t.write([]byte("{"))
	for i, name := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			t.write([]byte(","))
		}
		if err := t.add(name); err != nil {
			return err
		}
		t.write([]byte(":"))
		if err := t.add(o[name]); err != nil {
			return fmt.Errorf("body field %q: %w", name, err)
		}
	}
	t.write([]byte("}"))
	return nil
}

func (t *template) addArray(a []any) error {
	t.write([]byte("["))
	for i, v := range a {
		if i > 0 {
			t.write([]byte(","))
		}
		if err := t.add(v); err != nil {
			return err
		}
	}
	t.write([]byte("]"))
	return nil
}

// append writes one body.
func (t template) append(dst []byte, osl uint32, prompt func(dst []byte) []byte) []byte {
	for _, p := range t {
		dst = append(dst, p.text...)
		switch p.slot {
		case promptSlot:
			dst = prompt(dst)
		case lengthSlot:
			dst = strconv.AppendUint(dst, uint64(osl), 10)
		}
	}
	return dst
}
