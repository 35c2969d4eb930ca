package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// anthropic is Anthropic's messages API.
type anthropic struct{}

var anthropicRoutes = map[string]API{"POST /v1/messages": anthropic{}}

type anthropicBody struct {
	Model     string          `json:"model"`
	System    json.RawMessage `json:"system"`
	Messages  []message       `json:"messages"`
	MaxTokens *int            `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	// Engines behind Anthropic's API take these fields to make outputs of exact length. Anthropic does not have them.
	MinTokens int  `json:"min_tokens"`
	IgnoreEOS bool `json:"ignore_eos"`
	asked
}

func (a anthropic) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w anthropicBody
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	model, problem := modelNamed(c, w.Model)
	if problem != nil {
		return nil, problem
	}
	if w.MaxTokens == nil {
		return nil, BadRequest("max_tokens is missing: this API requires it")
	}
	prompt := newTokens(&c.Model)
	if err := prompt.content(w.System); err != nil {
		return nil, BadRequest("system " + err.Error())
	}
	if problem := prompt.conversation(w.Messages, c.ChatTemplateTokens); problem != nil {
		return nil, problem
	}
	q := newRequest(a, model, &prompt)
	q.Stream, q.minTokens, q.IgnoreEOS = w.Stream, w.MinTokens, w.IgnoreEOS
	if problem := w.script(q, c); problem != nil {
		return nil, problem
	}
	return q, q.limit(c, "max_tokens", w.MaxTokens)
}

func (anthropic) Problem(e *Error, _ *http.Request, _ http.Header) (int, []byte) {
	return e.status, anthropicError(e)
}

// anthropicError returns the API's error object, which streams use too.
func anthropicError(e *Error) []byte {
	kinds := map[int]string{
		http.StatusBadRequest:            "invalid_request_error",
		http.StatusUnauthorized:          "authentication_error",
		http.StatusNotFound:              "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests:       "rate_limit_error",
	}
	kind, ok := kinds[e.status]
	if !ok {
		kind = "api_error"
	}
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return JSON(struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{kind, e.Message}})
}

func (anthropic) Encoder(q *Request, c *config.Config, id string, _ int64) Encoder {
	return &anthropicEncoder{blockWriter: blockWriter{FrameWriter: newFrameWriter(q, c)},
		atOnce: c.Frames.Role == config.RoleAtOnce,
		head: fmt.Appendf(nil, `"id":"msg_%s","type":"message","role":"assistant","model":%s`,
			AppendToken(nil, id), JSON(q.model))}
}

// anthropicEncoder writes one answer of the messages API. Reasoning is a thinking block before the text block.
type anthropicEncoder struct {
	blockWriter
	atOnce bool   // the first block starts with the message, as at Anthropic; else with its first text, as in vLLM
	head   []byte // the message's fields up to its content
}

// Opening appends the start of the message.
func (e *anthropicEncoder) Opening(b []byte) []byte {
	b = e.event(b, "message_start")
	b = append(b, `{"type":"message_start","message":{`...)
	b = append(b, e.head...)
	b = append(b, `,"content":[],"stop_reason":null,"stop_sequence":null`...)
	b = e.appendUsage(b, 1)
	b = append(b, '}')
	b = e.close(b)
	if !e.atOnce {
		return b
	}
	b = e.start(b)
	b = e.event(b, "ping")
	b = append(b, `{"type":"ping"`...)
	return e.close(b)
}

// start opens the block if it is not open.
func (e *anthropicEncoder) start(b []byte) []byte {
	if e.opened {
		return b
	}
	e.opened = true
	b = e.event(b, "content_block_start")
	b = append(b, `{"type":"content_block_start"`...)
	b = number(b, "index", e.block)
	switch {
	case e.inReasoning():
		b = append(b, `,"content_block":{"type":"thinking","thinking":"","signature":""}`...)
	case e.call != "":
		b = append(b, `,"content_block":{"type":"tool_use","id":"toolu_0","input":{},"name":`...)
		b = append(append(b, JSON(e.call)...), '}')
	default:
		b = append(b, `,"content_block":{"type":"text","text":""}`...)
	}
	return e.close(b)
}

// stop closes the block, if one is open, and moves on to the next.
func (e *anthropicEncoder) stop(b []byte) []byte {
	if !e.opened {
		return b
	}
	b = e.event(b, "content_block_stop")
	b = append(b, `{"type":"content_block_stop"`...)
	b = number(b, "index", e.block)
	e.opened = false
	e.block++
	return e.close(b)
}

func (e *anthropicEncoder) Tokens(b []byte, from, until int, _ string) []byte {
	split := e.textFrom(until)
	b = e.delta(b, `,"delta":{"type":"thinking_delta","thinking":`, from, split)
	from = max(from, split)
	if e.inReasoning() && e.script.hasText(from, until) {
		b = e.stop(b)
		e.answering = true
	}
	if e.call != "" {
		return e.delta(b, `,"delta":{"type":"input_json_delta","partial_json":`, from, until)
	}
	return e.delta(b, `,"delta":{"type":"text_delta","text":`, from, until)
}

// delta appends the text of tokens from to until-1, or nothing if they have none.
func (e *anthropicEncoder) delta(b []byte, kind string, from, until int) []byte {
	if !e.script.hasText(from, until) {
		return b
	}
	b = e.start(b)
	b = e.event(b, "content_block_delta")
	b = append(b, `{"type":"content_block_delta"`...)
	b = number(b, "index", e.block)
	b = append(b, kind...)
	b = e.text(b, from, until)
	b = append(b, '}')
	return e.close(b)
}

// Closing appends the end of the block, the stop reason with the usage, and message_stop, which is the mark.
func (e *anthropicEncoder) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		b = e.stop(b)
	case 1:
		b = e.event(b, "message_delta")
		b = append(b, `{"type":"message_delta","delta":{`...)
		b = e.appendStop(b, finish)
		b = append(b, '}')
		b = e.appendUsage(b, output)
		b = e.close(b)
	case 2:
		if !e.noEndMark {
			b = e.event(b, "message_stop")
			b = append(b, `{"type":"message_stop"`...)
			b = e.close(b)
		}
	}
	return b, part < 3
}

// appendStop appends the stop reason in the API's words.
func (e *anthropicEncoder) appendStop(b []byte, finish string) []byte {
	switch {
	case finish == FinishLength:
		return append(b, `"stop_reason":"max_tokens","stop_sequence":null`...)
	case e.call != "":
		return append(b, `"stop_reason":"tool_use","stop_sequence":null`...)
	}
	return append(b, `"stop_reason":"end_turn","stop_sequence":null`...)
}

// appendUsage appends the usage. input_tokens excludes the tokens from the prefix cache.
func (e *anthropicEncoder) appendUsage(b []byte, output int) []byte {
	if e.noUsage {
		return b
	}
	b = append(b, `,"usage":{"cache_creation_input_tokens":0`...)
	b = number(b, "cache_read_input_tokens", e.Cached)
	b = number(b, "input_tokens", e.prompt-e.Cached)
	b = number(b, "output_tokens", output)
	return append(b, '}')
}

func (e *anthropicEncoder) Whole(b []byte, output int, finish string) []byte {
	b = append(b, '{')
	b = append(b, e.head...)
	b = append(b, `,"content":[`...)
	split := e.textFrom(output)
	if split > 0 {
		b = append(b, `{"type":"thinking","signature":"","thinking":`...)
		b = e.text(b, 0, split)
		b = append(b, `},`...)
	}
	if e.call != "" {
		b = e.appendCall(b, split, output)
	} else {
		b = append(b, `{"type":"text","text":`...)
		b = e.text(b, split, output)
	}
	b = append(b, `}],`...)
	b = e.appendStop(b, finish)
	b = e.appendUsage(b, output)
	return e.close(b)
}

// appendCall appends a whole tool call, up to its last brace. Its input is an object: empty if it was cut.
func (e *anthropicEncoder) appendCall(b []byte, from, until int) []byte {
	b = append(b, `{"type":"tool_use","id":"toolu_0","name":`...)
	b = append(append(b, JSON(e.call)...), `,"input":`...)
	var input string
	_ = json.Unmarshal(e.text(nil, from, until), &input) // it is a string
	if !json.Valid([]byte(input)) {
		input = "{}"
	}
	return append(b, input...)
}

func (e *anthropicEncoder) Failure(b []byte, problem *Error) []byte {
	b = e.event(b, "error")
	b = append(b, anthropicError(problem)...)
	return e.end(b)
}

func (e *anthropicEncoder) Broken(b []byte) []byte {
	b = e.event(b, "content_block_delta")
	b = append(b, `{"type":"content_block_delta","index":0,"delta":{"type":"text_d`...)
	return e.end(b)
}
