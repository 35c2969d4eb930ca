package bodies

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/workload"
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

// fill runs a template. Its errors start with its name and the line. Templates come from plans, which anyone may write:
// one that could run for long or make much is refused before it runs (see computes), and what it makes is limited.
func fill(name, text string, fields map[string]any) (string, error) {
	if len(text) > maxTemplate {
		return "", fmt.Errorf("%s: has %d bytes, more than the %d that a template may have", name, len(text), maxTemplate)
	}
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	for _, one := range t.Templates() {
		if err := computes(one.Tree, one.Root, one != t); err != nil {
			return "", err
		}
	}
	filled := limited{left: maxFilled}
	if err := t.Execute(&filled, fields); err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return filled.String(), nil
}

// computes returns an error if a template does more than write fields and choose between texts: loops, templates that
// execute one another, and functions that write text are the ways to make it run without end or fill the memory.
func computes(tree *parse.Tree, n parse.Node, defined bool) error {
	refuse := func(what string) error {
		at, _ := tree.ErrorContext(n)
		return fmt.Errorf("%s: %s is not allowed in a plan's template, which can only write fields and use if, with, and, "+
			"or, not, eq and ne: write its result instead", at, what)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if defined {
			return refuse("define")
		}
		return firstOf(tree, children(n))
	case *parse.ActionNode:
		return computes(tree, n.Pipe, false)
	case *parse.IfNode:
		return branch(tree, &n.BranchNode)
	case *parse.WithNode:
		return branch(tree, &n.BranchNode)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			if err := firstOf(tree, c.Args); err != nil {
				return err
			}
		}
	case *parse.IdentifierNode:
		if !slices.Contains([]string{"and", "or", "not", "eq", "ne"}, n.Ident) {
			return refuse(n.Ident)
		}
	case *parse.RangeNode:
		return refuse("range")
	case *parse.TemplateNode:
		return refuse("template")
	}
	return nil
}

// firstOf applies computes to nodes, and returns the first error.
func firstOf(tree *parse.Tree, nodes []parse.Node) error {
	for _, n := range nodes {
		if err := computes(tree, n, false); err != nil {
			return err
		}
	}
	return nil
}

// children returns the nodes of a list, which is nil where an {{else}} is missing.
func children(l *parse.ListNode) []parse.Node {
	if l == nil {
		return nil
	}
	return l.Nodes
}

// branch applies computes to the parts of an if or a with.
func branch(tree *parse.Tree, b *parse.BranchNode) error {
	return cmp.Or(computes(tree, b.Pipe, false), computes(tree, b.List, false), computes(tree, b.ElseList, false))
}

// limited is a text of a limited number of bytes.
type limited struct {
	strings.Builder
	left int
}

// Write fails when the text gets too long, which ends the template.
func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, fmt.Errorf("makes more than %d bytes", maxFilled)
	}
	return l.Builder.Write(b)
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
	return slices.ContainsFunc(t, func(p piece) bool { return p.slot == s })
}

// Form encodes a form (multipart/form-data), whose boundary is api.FormBoundary. It fails if the template of a field
// cannot be parsed or run, or if neither the prompt nor a file is sent.
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

// FormField runs the template of a form's field, with open slots.
func FormField(name, text, model string) (string, error) {
	return fill(name, text, map[string]any{"Model": field{model}, "Prompt": marks[plainSlot], "Text": marks[plainSlot],
		"OSL": marks[lengthSlot]})
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
