package bodies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/workload"
)

// marks are the fields that each request fills in, as a template's text has them until the body is cut there. Their
// characters are for private use.
var marks = map[slot]string{
	promptSlot: "\uE000P\uE001", textSlot: "\uE000T\uE001", lengthSlot: "\uE000L\uE001", plainSlot: "\uE000F\uE001",
}

// Template encodes the body that a plan's template makes. The template is filled in once, with open slots for what
// differs between requests. It fails if the template has something that is not a field, does not send the prompt, or
// does not make JSON.
func Template(text, model string) (Body, error) {
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	filled, err := fill("body", text, map[string]string{".Model": string(name), ".Prompt": marks[promptSlot],
		".Text": marks[textSlot], ".OSL": marks[lengthSlot]})
	if err != nil {
		return nil, err
	}
	body := cutAtMarks(filled)
	if len(body) > maxSlots {
		return nil, fmt.Errorf("has more than %d fields", maxSlots)
	}
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

// Limits of a template: its text, what it may make, and how many fields each request fills in.
const (
	maxSlots    = 64
	maxTemplate = 256 << 10
	maxFilled   = 4 << 20
)

// fill puts values in the place of a template's {{.Field}}. Its errors start with the template's name and the line.
// Templates come from plans, which anyone may write: what one makes is limited.
func fill(name, text string, fields map[string]string) (string, error) {
	if len(text) > maxTemplate {
		return "", fmt.Errorf("%s: has %d bytes, more than the %d that a template may have", name, len(text), maxTemplate)
	}
	var filled strings.Builder
	for rest := text; ; {
		before, after, opened := strings.Cut(rest, "{{")
		filled.WriteString(before)
		if !opened {
			return filled.String(), nil
		}
		line := 1 + strings.Count(text[:len(text)-len(after)], "\n")
		field, after, closed := strings.Cut(after, "}}")
		value, known := fields[strings.TrimSpace(field)]
		if !closed {
			return "", fmt.Errorf("%s:%d: {{%.40s has no }}", name, line, field)
		}
		if !known {
			return "", fmt.Errorf("%s:%d: {{%.40s}} is not a field: use {{.Model}}, {{.Prompt}}, {{.Text}} or {{.OSL}}",
				name, line, field)
		}
		if filled.Len()+len(value) > maxFilled {
			return "", fmt.Errorf("%s:%d: makes more than %d bytes", name, line, maxFilled)
		}
		filled.WriteString(value)
		rest = after
	}
}

// cutAtMarks cuts a text at the marks of its slots.
func cutAtMarks(text string) Body {
	var body Body
	for {
		first, of := -1, noSlot
		for s, mark := range marks {
			if i := strings.Index(text, mark); i >= 0 && (first < 0 || i < first) {
				first, of = i, s
			}
		}
		if first < 0 {
			body.write([]byte(text))
			return body
		}
		body.write([]byte(text[:first]))
		body[len(body)-1].slot = of
		text = text[first+len(marks[of]):]
	}
}

// has reports whether a body has a slot.
func (t Body) has(s slot) bool {
	return slices.ContainsFunc(t, func(p piece) bool { return p.slot == s })
}

// Form encodes a form (multipart/form-data), whose boundary is api.FormBoundary. It fails if the template of a field
// has something that is not a field, or if neither the prompt nor a file is sent.
func Form(f *api.MultipartForm, model string) (Body, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(api.FormBoundary); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		value, err := FormField(name, f.Fields[name], model)
		if err != nil {
			return nil, err
		}
		if err := w.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	body := cutAtMarks(b.String())
	if !body.has(plainSlot) && len(f.Files) == 0 {
		return nil, errors.New("has neither {{.Prompt}}, {{.Text}} nor a file: it sends nothing")
	}
	b.Reset()
	for _, file := range f.Files {
		part, err := w.CreatePart(fileHeader(&file))
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	body.write(b.Bytes())
	return body, nil
}

// FormField fills in the template of a form's field, with open slots.
func FormField(name, text, model string) (string, error) {
	return fill(name, text, map[string]string{".Model": model, ".Prompt": marks[plainSlot], ".Text": marks[plainSlot],
		".OSL": marks[lengthSlot]})
}

// quotes escapes what stands between quotes in a part's header.
var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A")

// fileHeader returns the header of a file's part: servers go by its name and type.
func fileHeader(f *api.FormFile) textproto.MIMEHeader {
	field, name := quotes.Replace(f.Field), quotes.Replace(f.Name)
	return textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + field + `"; filename="` + name + `"`},
		"Content-Type":        {http.DetectContentType(f.Content)},
	}
}

// Dialect is an API with the form that a target's prompts have.
type Dialect struct {
	*api.API
	Prompt api.Prompt
}

// DialectOf returns the dialect of an API for a form of prompts: "token_ids", "text", or empty for the API's default.
// APIs that take messages ignore the form. whole: requests ask for answers in one piece. It fails for names that it
// does not know.
func DialectOf(name, prompts string, whole bool) (*Dialect, error) {
	a, known := registry.Find(name)
	if !known {
		return nil, fmt.Errorf("unknown api %q: use one of %s", name, strings.Join(registry.Names(), ", "))
	}
	return Of(a, prompts, whole)
}

// Of is DialectOf for an API.
func Of(a *api.API, prompts string, whole bool) (*Dialect, error) {
	if whole {
		a = a.InOnePiece()
	}
	d := &Dialect{a, a.Prompts[0]}
	form := d.Prompt.Form
	switch prompts {
	case "":
	case "token_ids":
		form = workload.TokenIDs
	case "text":
		form = workload.Text
	default:
		return nil, fmt.Errorf("unknown prompts %q: use \"token_ids\" or \"text\"", prompts)
	}
	if a.Chat() {
		return d, nil
	}
	var takes bool
	if d.Prompt, takes = a.Prompt(form); !takes {
		return nil, fmt.Errorf("prompts %q are not supported by api %q, which takes only text", prompts, a.Name)
	}
	return d, nil
}
