package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spate-load/spate/simulator/config"
)

// openAI is OpenAI's chat completions or completions, in vLLM's form.
type openAI struct{ chat bool }

// The two APIs.
var (
	chat        API = openAI{chat: true}
	completions API = openAI{}
)

var openAIRoutes = map[string]API{"POST /v1/chat/completions": chat, "POST /v1/completions": completions}

// openAIBody is the part of a request's body that is used. Everything else is accepted and ignored, as servers do with
// sampling parameters.
type openAIBody struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       json.RawMessage `json:"stream_options"`
	ReturnTokenIDs      bool            `json:"return_token_ids"`
	NVExt               struct {
		ExtraFields []string `json:"extra_fields"`
	} `json:"nvext"`
	asked
}

type message struct {
	Content json.RawMessage `json:"content"`
}

func (a openAI) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w openAIBody
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	model, problem := modelNamed(c, w.Model)
	if problem != nil {
		return nil, problem
	}
	if w.N != nil && *w.N != 1 {
		return nil, BadRequest(fmt.Sprintf("n is %d: only 1 is simulated", *w.N))
	}
	prompt := newTokens(&c.Model)
	if a.chat {
		problem = prompt.conversation(w.Messages, c.ChatTemplateTokens)
	} else {
		problem = prompt.prompt(w.Prompt)
	}
	if problem != nil {
		return nil, problem
	}
	q := newRequest(a, model, &prompt)
	q.minTokens, q.IgnoreEOS, q.Stream = w.MinTokens, w.IgnoreEOS, w.Stream
	q.nvext = nvextOf(&c.Dialect, w.NVExt.ExtraFields)
	if problem := q.streamOptions(&c.Dialect, w.StreamOptions); problem != nil {
		return nil, problem
	}
	if problem := w.script(q, c); problem != nil {
		return nil, problem
	}
	if q.tokenIDs, problem = apply(c.Dialect.TokenIDs, "return_token_ids", w.ReturnTokenIDs); problem != nil {
		return nil, problem
	}
	return q, q.limit(c, "max_tokens", w.MaxCompletionTokens, w.MaxTokens)
}

func (openAI) Problem(e *Error, _ *http.Request, _ http.Header) (int, []byte) {
	return e.status, e.json()
}

func (a openAI) Encoder(q *Request, c *config.Config, id string, created int64) Encoder {
	f := &c.Frames
	e := &openAIEncoder{
		FrameWriter: newFrameWriter(q, c),
		chat:        a.chat,
		usage:       q.includeUsage && !f.NoUsage,
		running:     f.RunningUsage || q.continuousUsage && !f.NoUsage,
		ids:         q.tokenIDs,
		field:       `"` + cmp.Or(f.ReasoningField, "reasoning_content") + `":`,
		nvext:       q.nvext,
	}
	prefix, object := e.kind()
	e.head = fmt.Appendf(nil, `{"id":"%s%s","object":"%s","created":%d,"model":%s`, prefix, AppendToken(nil, id), object,
		created, JSON(q.model))
	return e
}

// openAIEncoder writes one answer of chat or completions.
type openAIEncoder struct {
	FrameWriter
	chat    bool
	usage   bool   // a frame at the end carries the usage
	running bool   // each frame carries the usage so far
	ids     bool   // each frame carries the ids of its tokens
	nvext   nvext  // the fields of the extension that frames carry
	field   string // the field for reasoning: its name and a colon
	head    []byte // from { to the choices
	begun   bool   // the tool call
}

// kind returns the prefix of the answer's id and the name of its objects.
func (e *openAIEncoder) kind() (prefix, object string) {
	switch {
	case e.chat && e.stream:
		return "chatcmpl-", "chat.completion.chunk"
	case e.chat:
		return "chatcmpl-", "chat.completion"
	default:
		return "cmpl-", "text_completion"
	}
}

// begin appends the start of an object.
func (e *openAIEncoder) begin(b []byte) []byte { return append(e.open(b), e.head...) }

// Opening appends the frame that names the role.
func (e *openAIEncoder) Opening(b []byte) []byte {
	if !e.chat {
		return b
	}
	b = e.begin(b)
	b = append(b, `,"choices":[{"index":0,"delta":{"role":"assistant","content":""},`+
		`"logprobs":null,"finish_reason":null}]`...)
	if e.running {
		b = e.appendUsage(b, 0)
	}
	b = e.appendNVExt(b, e.nvext, false)
	return e.close(b)
}

func (e *openAIEncoder) Tokens(b []byte, from, until int, finish string) []byte {
	b = e.begin(b)
	b = append(b, `,"choices":[{"index":0,`...)
	if e.chat {
		b = append(b, `"delta":{`...)
		b = e.appendContent(b, from, until)
		b = append(b, '}')
	} else {
		b = append(b, `"text":`...)
		b = e.text(b, from, until)
	}
	finish = e.inFrame(finish)
	b = e.appendFinish(b, finish)
	if e.ids {
		b = append(b, `,"token_ids":`...)
		b = e.FrameWriter.ids(b, from, until)
	}
	b = append(b, `}]`...)
	if e.running {
		b = e.appendUsage(b, until)
	}
	b = e.appendNVExt(b, e.nvext, finish != "")
	return e.close(b)
}

// Closing appends the finish reason, if it is sent separately, the usage, if it is requested, and the mark.
func (e *openAIEncoder) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		if e.finishFrame {
			b = e.finish(b, finish)
		}
	case 1:
		if e.usage {
			b = e.begin(b)
			b = append(b, `,"choices":[]`...)
			b = e.appendUsage(b, output)
			b = e.close(b)
		}
	case 2:
		b = e.Mark(b)
	}
	return b, part < 3
}

// finish appends a frame with nothing but the finish reason.
func (e *openAIEncoder) finish(b []byte, reason string) []byte {
	b = e.begin(b)
	if e.chat {
		b = append(b, `,"choices":[{"index":0,"delta":{}`...)
	} else {
		b = append(b, `,"choices":[{"index":0,"text":""`...)
	}
	b = e.appendFinish(b, reason)
	b = append(b, `}]`...)
	b = e.appendNVExt(b, e.nvext, true)
	return e.close(b)
}

func (e *openAIEncoder) Mark(b []byte) []byte { return e.openAIMark(b) }

func (e *openAIEncoder) Whole(b []byte, output int, finish string) []byte {
	b = e.begin(b)
	b = append(b, `,"choices":[{"index":0,`...)
	if e.chat {
		b = append(b, `"message":{"role":"assistant",`...)
		b = e.appendContent(b, 0, output)
		b = append(b, '}')
	} else {
		b = append(b, `"text":`...)
		b = e.text(b, 0, output)
	}
	b = e.appendFinish(b, finish)
	b = append(b, `}]`...)
	b = e.appendUsage(b, output)
	b = e.appendNVExt(b, e.nvext, true)
	return e.close(b)
}

func (e *openAIEncoder) Failure(b []byte, problem *Error) []byte {
	return e.raw(b, string(problem.json()))
}

func (e *openAIEncoder) Broken(b []byte) []byte {
	return e.raw(b, `{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"cont`)
}

// appendContent appends the content fields of tokens from to until-1, with reasoning in its own field.
func (e *openAIEncoder) appendContent(b []byte, from, until int) []byte {
	if split := e.textFrom(until); from < split {
		b = append(b, e.field...)
		b = e.text(b, from, split)
		if from = split; from == until && e.stream {
			return b
		}
		b = append(b, ',')
	}
	if e.call != "" {
		return e.appendCall(b, from, until)
	}
	b = append(b, `"content":`...)
	return e.text(b, from, until)
}

// appendCall appends a piece of a tool call, with the tool's name if it is the first one.
func (e *openAIEncoder) appendCall(b []byte, from, until int) []byte {
	b = append(b, `"tool_calls":[{`...)
	if e.stream {
		b = append(b, `"index":0,`...)
	}
	if !e.begun {
		e.begun = true
		b = append(b, `"id":"call_0","type":"function","function":{"name":`...)
		b = append(b, JSON(e.call)...)
		b = append(b, `,"arguments":`...)
	} else {
		b = append(b, `"function":{"arguments":`...)
	}
	return append(e.text(b, from, until), `}}]`...)
}

func (e *openAIEncoder) appendUsage(b []byte, output int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(e.prompt), 10)
	b = number(b, "total_tokens", e.prompt+output)
	b = number(b, "completion_tokens", output)
	if e.reasoningUsage && e.chat {
		b = append(b, `,"completion_tokens_details":{"reasoning_tokens":`...)
		b = strconv.AppendInt(b, int64(e.reasoned(output)), 10)
		b = append(b, '}')
	}
	if e.caching {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(e.Cached), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

func (e *openAIEncoder) appendFinish(b []byte, reason string) []byte {
	if reason == FinishStop && e.call != "" {
		reason = "tool_calls"
	}
	if reason == "" {
		return append(b, `,"logprobs":null,"finish_reason":null`...)
	}
	b = append(b, `,"logprobs":null,"finish_reason":"`...)
	b = append(b, reason...)
	return append(b, '"')
}
