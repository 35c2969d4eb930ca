package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spate-load/spate/simulator/config"
)

// gemini is Google's API of Gemini models, at the paths of the Gemini API and of Vertex AI. Its streams are
// server-sent events with alt=sse, and else the elements of an array.
type gemini struct{ stream bool }

// geminiCount is the path that counts the tokens of a prompt.
type geminiCount struct{ gemini }

var geminiRoutes = map[string]API{
	geminiPath + "/:generateContent":       gemini{},
	geminiPath + "/:streamGenerateContent": gemini{stream: true},
	geminiPath + "/:countTokens":           geminiCount{},
	vertexPath + "/:generateContent":       gemini{},
	vertexPath + "/:streamGenerateContent": gemini{stream: true},
	vertexPath + "/:countTokens":           geminiCount{},
}

// The paths up to the verb, as WithVerb leaves them.
const (
	geminiPath = "POST /v1beta/models/{model}"
	vertexPath = "POST /v1/projects/{project}/locations/{location}/publishers/google/models/{model}"
)

// WithVerb returns the request with a slash before the verb that ends its path after a colon, as Google's paths do, so
// that routes can have the verb as a segment.
func WithVerb(r *http.Request) *http.Request {
	at := strings.LastIndexByte(r.URL.Path, ':')
	if at < strings.LastIndexByte(r.URL.Path, '/') {
		return r
	}
	u := *r.URL
	u.Path = u.Path[:at] + "/" + u.Path[at:]
	if at := strings.LastIndexByte(u.RawPath, ':'); at >= 0 {
		u.RawPath = u.RawPath[:at] + "/" + u.RawPath[at:]
	}
	changed := *r
	changed.URL = &u
	return &changed
}

type geminiContent struct {
	Parts json.RawMessage `json:"parts"`
}

type geminiBody struct {
	System   geminiContent   `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Config   struct {
		MaxOutputTokens *int `json:"maxOutputTokens"`
		CandidateCount  *int `json:"candidateCount"`
		Thinking        struct {
			IncludeThoughts bool `json:"includeThoughts"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

func (a gemini) Parse(r *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w geminiBody
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	model, problem := modelNamed(c, r.PathValue("model"))
	if problem != nil {
		return nil, problem
	}
	if n := w.Config.CandidateCount; n != nil && *n != 1 {
		return nil, BadRequest(fmt.Sprintf("candidateCount is %d: only 1 is simulated", *n))
	}
	prompt := newTokens(&c.Model)
	if problem := prompt.gemini(&w, c.ChatTemplateTokens); problem != nil {
		return nil, problem
	}
	q := newRequest(a, model, &prompt)
	q.Stream, q.events = a.stream, serverSentEventsAsked(r)
	q.hideReasoning = !w.Config.Thinking.IncludeThoughts
	return q, q.limit(c, "maxOutputTokens", w.Config.MaxOutputTokens)
}

// gemini takes the words of the system instruction and of all contents.
func (t *tokens) gemini(w *geminiBody, template int) *Error {
	if len(w.Contents) == 0 {
		return BadRequest("contents is missing or empty")
	}
	messages := make([]message, 0, 1+len(w.Contents))
	for i, content := range append([]geminiContent{w.System}, w.Contents...) {
		if i > 0 && kindOf(content.Parts) != '[' {
			return BadRequest(fmt.Sprintf("contents[%d].parts is missing, or not an array of parts", i-1))
		}
		messages = append(messages, message{content.Parts})
	}
	return t.conversation(messages, template)
}

// serverSentEventsAsked reports whether a stream is one of server-sent events.
func serverSentEventsAsked(r *http.Request) bool { return r.URL.Query().Get("alt") == "sse" }

// Count takes contents, or a whole request for content.
func (geminiCount) Count(body []byte, c *config.Config) ([]byte, *Error) {
	var w struct {
		geminiBody
		Request *geminiBody `json:"generateContentRequest"`
	}
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	if w.Request == nil {
		w.Request = &w.geminiBody
	}
	var prompt tokens
	if problem := prompt.gemini(w.Request, c.ChatTemplateTokens); problem != nil {
		return nil, problem
	}
	b := append([]byte(`{"totalTokens":`), strconv.Itoa(prompt.count)...)
	return append(appendModality(b, "promptTokensDetails", prompt.count), '}'), nil
}

// appendModality appends a field that says that all of the tokens are text.
func appendModality(b []byte, name string, tokens int) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":[{"modality":"TEXT"`...)
	b = number(b, "tokenCount", tokens)
	return append(b, `}]`...)
}

// Problem puts the error into an array where the stream would have been one.
func (a gemini) Problem(e *Error, r *http.Request, _ http.Header) (int, []byte) {
	code, body := geminiError(e)
	if a.stream && !serverSentEventsAsked(r) {
		body = append(append([]byte{'['}, body...), ']')
	}
	return code, body
}

// geminiError returns the status and the error object, which streams use too.
func geminiError(e *Error) (int, []byte) {
	kinds := map[int]string{
		http.StatusUnauthorized:        "UNAUTHENTICATED",
		http.StatusNotFound:            "NOT_FOUND",
		http.StatusTooManyRequests:     "RESOURCE_EXHAUSTED",
		http.StatusInternalServerError: "INTERNAL",
	}
	code := e.status
	kind, ok := kinds[code]
	if !ok {
		code, kind = http.StatusBadRequest, "INVALID_ARGUMENT"
	}
	type inner struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
	}
	return code, JSON(struct {
		Error inner `json:"error"`
	}{inner{code, e.Message, kind}})
}

func (gemini) Encoder(q *Request, c *config.Config, id string, _ int64) Encoder {
	e := &geminiEncoder{FrameWriter: newFrameWriter(q, c),
		tail: fmt.Appendf(nil, `,"modelVersion":%s,"responseId":"%s"`, JSON(q.model), AppendToken(nil, id))}
	if q.events {
		e.eol = "\r\n" // Google's servers end lines with it
	} else {
		e.framing, e.field = jsonArray, firstElement
	}
	return e
}

// geminiEncoder writes one answer of Gemini's API. Each frame has the usage so far. A part of reasoning is a thought.
type geminiEncoder struct {
	FrameWriter
	tail []byte // the fields after the usage
}

func (e *geminiEncoder) Tokens(b []byte, from, until int, finish string) []byte {
	return e.chunk(e.open(b), from, until, e.inFrame(finish))
}

// chunk appends an object with tokens from to until-1, and the usage up to them.
func (e *geminiEncoder) chunk(b []byte, from, until int, finish string) []byte {
	b = append(b, `{"candidates":[{"content":{"parts":[`...)
	split := e.textFrom(until)
	thought := from < split
	if thought {
		b = append(b, `{"text":`...)
		b = e.text(b, from, split)
		b = append(b, `,"thought":true}`...)
		if split < until {
			b = append(b, ',')
		}
	}
	if from = max(from, split); from < until || !thought {
		b = append(b, `{"text":`...)
		b = e.text(b, from, until)
		b = append(b, '}')
	}
	b = append(b, `],"role":"model"}`...)
	if finish != "" {
		b = append(b, `,"finishReason":"`...)
		b = append(b, geminiFinish(finish)...)
		b = append(b, '"')
	}
	b = append(b, `,"index":0}]`...)
	b = e.appendUsage(b, until)
	b = append(b, e.tail...)
	return e.close(b)
}

func geminiFinish(finish string) string {
	if finish == FinishLength {
		return "MAX_TOKENS"
	}
	return "STOP"
}

// appendUsage appends the usage so far. Counts of 0 are left out. Thoughts are not among the candidates' tokens.
func (e *geminiEncoder) appendUsage(b []byte, output int) []byte {
	if e.noUsage {
		return b
	}
	thoughts := e.reportedReasoning(output)
	b = append(b, `,"usageMetadata":{"promptTokenCount":`...)
	b = strconv.AppendInt(b, int64(e.prompt), 10)
	if n := output - thoughts; n > 0 {
		b = number(b, "candidatesTokenCount", n)
	}
	b = number(b, "totalTokenCount", e.prompt+output)
	if e.Cached > 0 {
		b = number(b, "cachedContentTokenCount", e.Cached)
	}
	b = appendModality(b, "promptTokensDetails", e.prompt)
	if thoughts > 0 {
		b = number(b, "thoughtsTokenCount", thoughts)
	}
	return append(b, '}')
}

// Closing appends the finish reason, if it is sent separately, and the end of an array.
func (e *geminiEncoder) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		if e.finishFrame {
			b = e.chunk(e.open(b), output, output, finish)
		}
	case 1:
		b = e.Mark(b)
	}
	return b, part < 2
}

// Mark appends the end of an array. Server-sent events have no mark.
func (e *geminiEncoder) Mark(b []byte) []byte {
	if e.noEndMark || !e.stream || e.framing != jsonArray {
		return b
	}
	b = e.sealLast(b)
	if e.field == firstElement {
		b = append(b, firstElement...)
	}
	return append(b, ']')
}

func (e *geminiEncoder) Whole(b []byte, output int, finish string) []byte {
	return e.chunk(b, 0, output, finish)
}

func (e *geminiEncoder) Failure(b []byte, problem *Error) []byte {
	_, body := geminiError(problem)
	return e.raw(b, string(body))
}

func (e *geminiEncoder) Broken(b []byte) []byte {
	return e.raw(b, `{"candidates":[{"content":{"parts":[{"te`)
}
