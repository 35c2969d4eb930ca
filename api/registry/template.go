package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// TemplateName is the name in plans of the API that the plan describes.
const TemplateName = "template"

// Framings of streams in plans.
const (
	SSE   = "sse"
	Lines = "lines"
)

// Template describes an API without code of its own, whose answers have their text, their usage and their errors at
// paths: one that a plan describes, with the body of requests as JSON with fields, or one that ships as a definition.
// Paths are those of gjson; empty: answers do not have it.
type Template struct {
	// Path of requests, and the template of their body.
	Path, Body string
	// Form is sent in place of a body. Nil: there is none.
	Form *api.MultipartForm
	// Stream is how answers are divided into events: SSE, Lines, or else not at all.
	Stream string
	// Text is the path of a token's text. Finish is that of the finish reason, Error that of an error.
	Text, Finish, Error string
	// InputTokens, OutputTokens and CachedTokens are the paths of the usage.
	InputTokens, OutputTokens, CachedTokens string

	// Only definitions that ship have these paths. token is that of what each frame of a stream has for its one token,
	// and special that of a boolean: the token has no text. whole is the text of an answer in one piece, which the last
	// frame of a stream has too. kind is the kind of an error. model is the model that answers: frames of such an API
	// may each hold all of the text so far.
	token, special, whole, kind, model string
}

// Any stands for all APIs that plans describe, where only the name counts.
var Any = OfTemplate(Template{Text: "text"})

// OfTemplate returns the API that a plan describes.
func OfTemplate(s Template) *api.API {
	a := &api.API{
		Name: TemplateName, Path: s.Path, Template: s.Body, Form: s.Form,
		Prompts:  []api.Prompt{{Form: workload.Text, Field: "prompt"}},
		NoOutput: s.Text == "", NoEndMark: s.Finish == "", Uncounted: s.InputTokens == "", Parse: s.parse, Check: s.check,
	}
	a.Headers = make(map[string]string)
	if s.Stream == Lines {
		a.Framing, a.Headers["Accept"] = api.JSONLines, "application/x-ndjson"
	}
	if s.Form != nil {
		a.Headers["Content-Type"] = "multipart/form-data; boundary=" + api.FormBoundary
	}
	return a
}

// parse reads one event, or a whole answer.
func (s Template) parse(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	if !validPath(e.Data) {
		return errors.New("it is not JSON")
	}
	if fault := rawText(e.Data, s.Error); jsonscan.Filled(fault) {
		f.Fail(jsonscan.StringBytes(rawText(e.Data, s.kind)), fault)
		return nil
	}
	switch {
	case s.Text == "": // whatever it is, it is the answer
		f.Token = true
	case s.token != "":
		s.parseToken(e.Data, f)
	case s.model != "":
		text := rawText(e.Data, s.Text)
		f.Chunk, f.Answer, f.Span = len(text) > 0, jsonscan.Unquoted(text), api.SpanUnsure
		f.Model = rawText(e.Data, s.model)
	default:
		if text := rawText(e.Data, s.Text); len(text) > 0 && text[0] == '"' {
			f.Chunk, f.Answer = true, jsonscan.Unquoted(text)
			f.AddOutput(text, false)
		}
	}
	f.Finish = jsonscan.StringBytes(rawText(e.Data, s.Finish))
	f.Closes = len(f.Finish) > 0 && s.token == ""
	f.SetUsage(rawText(e.Data, s.InputTokens), rawText(e.Data, s.CachedTokens), rawText(e.Data, s.OutputTokens))
	return nil
}

// parseToken reads a frame that has one token, or an answer in one piece.
func (s Template) parseToken(data []byte, f *api.Frame) {
	token, all := rawText(data, s.token), rawText(data, s.whole)
	switch {
	case len(token) == 0:
		f.Answer = jsonscan.Unquoted(all)
	case string(rawText(data, s.special)) != "true":
		f.Answer = jsonscan.Unquoted(rawText(data, s.Text))
	}
	f.OneToken, f.TextBytes, f.HasAnswer = jsonscan.Filled(token), len(f.Answer), len(f.Answer) > 0
	f.Token = f.HasAnswer || f.OneToken
	f.Chunk, f.End = f.Token, len(all) > 0 && all[0] == '"'
}

// rawText returns the JSON value at a path, nil if there is none. A path of plain names is read in place.
func rawText(data []byte, path string) []byte {
	switch {
	case path == "":
		return nil
	case !plainPath(path):
		return []byte(gjson.GetBytes(data, path).Raw)
	}
	for more := true; more; {
		names, values := [1]string{}, [1][]byte{}
		names[0], path, more = strings.Cut(path, ".")
		if !templateObject(data) || jsonscan.Members(data, names[:], values[:]) != nil {
			return nil
		}
		data = values[0]
	}
	return data
}

// plainPath reports whether a path consists of the names of members, one within the other.
func plainPath(path string) bool {
	return !strings.ContainsFunc(path, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && r != '_' && r != '.'
	})
}

// templateObject reports whether JSON is an object.
func templateObject(data []byte) bool {
	c := jsonscan.Cursor{B: data}
	return c.Peek() == '{'
}

// validPath reports whether data is JSON. It does not ask gjson, whose stack grows as deep as a server nests its
// values.
func validPath(data []byte) bool {
	c := jsonscan.Cursor{B: data}
	c.Skip(0)
	return c.End() || json.Valid(data)
}

// check returns an error if a path finds nothing in any of an answer's events, or if lines are those of server-sent
// events, in which paths also find their values.
func (s Template) check(events [][]byte) error {
	sse := func(event []byte) bool { return bytes.HasPrefix(event, []byte("data:")) }
	if s.Stream == Lines && slices.ContainsFunc(events, sse) {
		return errors.New("template.stream: the server sends server-sent events, not lines of JSON: set stream: sse")
	}
	var missing []string
	for _, field := range []struct{ name, path string }{
		{"text", s.Text}, {"finish", s.Finish}, {"input_tokens", s.InputTokens}, {"output_tokens", s.OutputTokens},
		{"cached_tokens", s.CachedTokens},
	} {
		found := field.path == ""
		for _, event := range events {
			found = found || gjson.GetBytes(event, field.path).Exists()
		}
		if !found {
			missing = append(missing, fmt.Sprintf("template.%s: the path %q finds nothing", field.name, field.path))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New(strings.Join(missing, "; "))
}
