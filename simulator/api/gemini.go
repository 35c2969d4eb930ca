package api

import (
	"encoding/json"
	"fmt"
	"net/http"
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

func (a gemini) Parse(q *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(&geminiFrames, c, body)
	r.named(q.PathValue("model"))
	r.one("generationConfig.candidateCount")
	r.contents()
	r.Stream, r.framing, r.eol = a.stream, jsonArray, "\r\n" // Google's servers end lines with it
	if serverSentEventsAsked(q) {
		r.framing = serverSentEvents
	}
	r.hideReasoning = !get[bool](r, "generationConfig.thinkingConfig.includeThoughts")
	return r.done("generationConfig.maxOutputTokens")
}

// contents takes the words of the system instruction and of all contents.
func (r *reading) contents() {
	type content struct {
		Parts json.RawMessage `json:"parts"`
	}
	contents := get[[]content](r, "contents")
	r.require(len(contents) > 0, "contents is missing or empty")
	messages := []message{{get[content](r, "systemInstruction").Parts}}
	for i := range contents {
		if kindOf(contents[i].Parts) != '[' {
			r.require(false, fmt.Sprintf("contents[%d].parts is missing, or not an array of parts", i))
		}
		messages = append(messages, message{contents[i].Parts})
	}
	r.conversation(messages)
}

// serverSentEventsAsked reports whether a stream is one of server-sent events.
func serverSentEventsAsked(r *http.Request) bool { return r.URL.Query().Get("alt") == "sse" }

// Count takes contents, or a whole request for content.
func (geminiCount) Count(body []byte, c *config.Config) ([]byte, *Error) {
	r := read(&geminiFrames, c, body)
	if whole := r.member("generateContentRequest"); whole != nil {
		r.enter(whole)
	}
	r.contents()
	return (&FrameWriter{Request: &Request{PromptTokens: r.prompt.count}}).put(nil, geminiCounted), r.problem
}

// Problem puts the error into an array where the stream would have been one.
func (a gemini) Problem(e *Error, r *http.Request, _ http.Header) (int, []byte) {
	body := geminiFrames.body(e)
	if a.stream && !serverSentEventsAsked(r) {
		body = append(append([]byte{'['}, body...), ']')
	}
	return geminiError(e).status, body
}

// geminiError returns an error with the API's status and its name, which streams use too.
func geminiError(e *Error) *Error {
	kinds := map[int]string{
		http.StatusUnauthorized:        "UNAUTHENTICATED",
		http.StatusNotFound:            "NOT_FOUND",
		http.StatusTooManyRequests:     "RESOURCE_EXHAUSTED",
		http.StatusInternalServerError: "INTERNAL",
	}
	if kind, ok := kinds[e.status]; ok {
		return &Error{status: e.status, Message: e.Message, Type: kind}
	}
	return &Error{status: http.StatusBadRequest, Message: e.Message, Type: "INVALID_ARGUMENT"}
}

// Each frame has the usage so far. A part of reasoning is a thought.
var geminiFrames = frames{
	splits:    true,
	head:      parse(`"modelVersion":$model,"responseId":"$id"`),
	token:     parse(geminiChunk),
	closing:   []template{parse(`$?apart(` + geminiChunk + `$)`), parse(geminiMark)},
	whole:     parse(geminiChunk),
	translate: geminiError,
	failure:   parse(`$(){"error":{"code":$status,"message":$problem,"status":"$kind"}}$end`),
	broken:    parse(`$(){"candidates":[{"content":{"parts":[{"te$end`),
	mark:      parse(geminiMark),
}

var geminiCounted = parse(`{"totalTokens":$prompt` + geminiDetails + `}`)

const (
	geminiMark  = `$?array($endarray$)`
	geminiChunk = `$(){"candidates":[{"content":{"parts":[$?thinks({"text":$thought,"thought":true}$?says(,$)$)
		$?says({"text":$text}$)],"role":"model"}
		$?ended(,"finishReason":"$?length(MAX_TOKENS$:STOP$)"$),"index":0}]` + geminiUsage + `,$head$close`
	// Counts of 0 are left out. Thoughts are not among the candidates' tokens.
	geminiUsage = `,"usageMetadata":{"promptTokenCount":$prompt$?answered(,"candidatesTokenCount":$answering$),
		"totalTokenCount":$total$?cached(,"cachedContentTokenCount":$cached$)` + geminiDetails + `
		$?thought(,"thoughtsTokenCount":$reported$)}`
	geminiDetails = `,"promptTokensDetails":[{"modality":"TEXT","tokenCount":$prompt}]`
)

// endArray appends the end of an array.
func (p *FrameWriter) endArray(b []byte) []byte {
	b = p.sealLast(b)
	if p.field == firstElement {
		b = append(b, firstElement...)
	}
	return append(b, ']')
}
