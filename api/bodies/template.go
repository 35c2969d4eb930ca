package bodies

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// field is what a template sees of a field that each request fills in: it can be written, and nothing else.
type field struct{ mark string }

// String returns the mark at which the body is cut. Its characters are for private use.
func (f field) String() string { return f.mark }

// marks are the fields of templates that each request fills in.
var marks = map[slot]field{
	promptSlot: {"\uE000P\uE001"}, textSlot: {"\uE000T\uE001"}, lengthSlot: {"\uE000L\uE001"},
	plainSlot: {"\uE000F\uE001"},
}

// Template encodes the body that a plan's template makes. The template is run once, with open slots for the fields that
// differ between requests. It fails if the template cannot be parsed or run, does not send the prompt, or does not make
// JSON.
func Template(text, model string) (Body, error) {
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	filled, err := fill("body", text, map[string]any{"Model": field{string(name)}, "Prompt": marks[promptSlot],
		"Text": marks[textSlot], "OSL": marks[lengthSlot]})
	if err != nil {
		return nil, err
	}
	body := cutAtMarks(filled)
	if !body.has(promptSlot) && !body.has(textSlot) {
		return nil, errors.New("has neither {{.Prompt}} nor {{.Text}}: all requests would be the same")
	}
	sample := body.Append(nil, 1, func(dst []byte) []byte { return append(dst, `"one two"`...) }, nil)
	var value json.RawMessage
	if err := json.Unmarshal(sample, &value); err != nil {
		return nil, fmt.Errorf("does not make JSON: %w, in %.200s", err, sample)
	}
	return body, nil
}

// fill runs a template. Its errors start with its name and the line.
func fill(name, text string, fields map[string]any) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	var filled strings.Builder
	if err := t.Execute(&filled, fields); err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return filled.String(), nil
}

// cutAtMarks cuts a text at the marks of its slots.
func cutAtMarks(text string) Body {
	var body Body
	for {
		first, of := -1, noSlot
		for s, f := range marks {
			if i := strings.Index(text, f.mark); i >= 0 && (first < 0 || i < first) {
				first, of = i, s
			}
		}
		if first < 0 {
			body.write([]byte(text))
			return body
		}
		body.write([]byte(text[:first]))
		body[len(body)-1].slot = of
		text = text[first+len(marks[of].mark):]
	}
}

// has reports whether a body has a slot.
func (t Body) has(s slot) bool {
	for _, p := range t {
		if p.slot == s {
			return true
		}
	}
	return false
}
