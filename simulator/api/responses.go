package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spate-load/spate/simulator/config"
)

// responses is OpenAI's responses API.
type responses struct{}

var responsesRoutes = map[string]API{"POST /v1/responses": responses{}}

type responsesBody struct {
	Model           string          `json:"model"`
	Input           json.RawMessage `json:"input"`
	Instructions    json.RawMessage `json:"instructions"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	Stream          bool            `json:"stream"`
	asked
	// Engines behind OpenAI's API take these fields to make outputs of exact length. OpenAI does not have them.
	MinTokens int  `json:"min_tokens"`
	IgnoreEOS bool `json:"ignore_eos"`
}

func (a responses) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w responsesBody
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	model, problem := modelNamed(c, w.Model)
	if problem != nil {
		return nil, problem
	}
	prompt := newTokens(&c.Model)
	if err := prompt.content(w.Instructions); err != nil {
		return nil, BadRequest("instructions " + err.Error())
	}
	if problem := prompt.input(w.Input, c.ChatTemplateTokens); problem != nil {
		return nil, problem
	}
	q := newRequest(a, model, &prompt)
	q.Stream, q.minTokens, q.IgnoreEOS = w.Stream, w.MinTokens, w.IgnoreEOS
	if problem := w.script(q, c); problem != nil {
		return nil, problem
	}
	return q, q.limit(c, "max_output_tokens", w.MaxOutputTokens)
}

// input takes a string or an array of messages.
func (t *tokens) input(raw json.RawMessage, template int) *Error {
	if kindOf(raw) == '"' {
		return t.conversation([]message{{raw}}, template)
	}
	var items []message
	if kindOf(raw) != '[' || json.Unmarshal(raw, &items) != nil {
		return BadRequest("input is missing, or neither a string nor an array of messages")
	}
	return t.conversation(items, template)
}

func (responses) Problem(e *Error, _ *http.Request, _ http.Header) (int, []byte) {
	return e.status, e.json()
}

func (responses) Encoder(q *Request, c *config.Config, id string, created int64) Encoder {
	e := &responsesEncoder{blockWriter: blockWriter{FrameWriter: newFrameWriter(q, c)}, id: AppendToken(nil, id)}
	e.head = fmt.Appendf(nil, `{"id":"resp_%s","object":"response","created_at":%d,"error":null,"model":%s`, e.id, created,
		JSON(q.model))
	return e
}

// responsesEncoder writes one answer of the responses API. Its blocks are output items: the reasoning, and the message
// or the function call. With finishFrame, an output that reaches its limit ends with response.incomplete, as at OpenAI;
// else with response.completed, as in vLLM.
type responsesEncoder struct {
	blockWriter
	seq  int // number of the next event
	id   []byte
	head []byte // the response object from { to the status
}

// start starts an event, up to the first field of its own.
func (e *responsesEncoder) start(b []byte, name string) []byte {
	b = e.event(b, name)
	b = append(b, `{"type":"`...)
	b = append(b, name...)
	b = append(b, '"')
	b = number(b, "sequence_number", e.seq)
	e.seq++
	return b
}

// calling reports whether the output item is a function call.
func (e *responsesEncoder) calling() bool { return e.call != "" && !e.inReasoning() }

// part starts an event of the open output item. The arguments of a call are no part of a content.
func (e *responsesEncoder) part(b []byte, name string) []byte {
	b = e.start(b, name)
	b = append(b, `,"item_id":"`...)
	b = e.appendItemID(b)
	b = append(b, '"')
	b = number(b, "output_index", e.block)
	if e.calling() {
		return b
	}
	return number(b, "content_index", 0)
}

func (e *responsesEncoder) appendItemID(b []byte) []byte {
	switch {
	case e.inReasoning():
		b = append(b, `rs_`...)
	case e.calling():
		b = append(b, `fc_`...)
	default:
		b = append(b, `msg_`...)
	}
	return append(b, e.id...)
}

// Opening appends what comes before the first token.
func (e *responsesEncoder) Opening(b []byte) []byte {
	for _, name := range []string{"response.created", "response.in_progress"} {
		b = e.start(b, name)
		b = append(b, `,"response":`...)
		b = append(b, e.head...)
		b = append(b, `,"status":"in_progress","incomplete_details":null,"output":[],"usage":null}`...)
		b = e.close(b)
	}
	return b
}

// added opens the output item if it is not open.
func (e *responsesEncoder) added(b []byte) []byte {
	if e.opened {
		return b
	}
	e.opened = true
	b = e.start(b, "response.output_item.added")
	b = number(b, "output_index", e.block)
	b = append(b, `,"item":`...)
	b = e.appendItem(b, "in_progress", 0, 0)
	b = e.close(b)
	if e.calling() {
		return b
	}
	b = e.part(b, "response.content_part.added")
	b = append(b, `,"part":`...)
	b = e.appendPart(b, 0, 0)
	return e.close(b)
}

// done closes the output item, part by part, if one is open, and moves on to the next.
func (e *responsesEncoder) done(b []byte, from, until int) []byte {
	if !e.opened {
		return b
	}
	if e.calling() {
		b = e.part(b, "response.function_call_arguments.done")
		b = append(append(b, `,"name":`...), JSON(e.call)...)
		b = append(b, `,"arguments":`...)
		b = e.text(b, from, until)
		b = e.close(b)
	} else {
		b = e.contentDone(b, from, until)
	}
	b = e.start(b, "response.output_item.done")
	b = number(b, "output_index", e.block)
	b = append(b, `,"item":`...)
	b = e.appendItem(b, "completed", from, until)
	e.opened = false
	e.block++
	return e.close(b)
}

// contentDone closes the content of the output item.
func (e *responsesEncoder) contentDone(b []byte, from, until int) []byte {
	name := "response.output_text.done"
	if e.inReasoning() {
		name = "response.reasoning_text.done"
	}
	b = e.part(b, name)
	b = append(b, `,"text":`...)
	b = e.text(b, from, until)
	b = e.close(b)
	b = e.part(b, "response.content_part.done")
	b = append(b, `,"part":`...)
	b = e.appendPart(b, from, until)
	return e.close(b)
}

// appendItem appends the open output item with tokens from to until-1, or without content if there are none.
func (e *responsesEncoder) appendItem(b []byte, status string, from, until int) []byte {
	b = append(b, `{"id":"`...)
	b = e.appendItemID(b)
	if e.calling() {
		b = append(b, `","type":"function_call","call_id":"call_0","name":`...)
		b = append(append(b, JSON(e.call)...), `,"status":"`...)
		b = append(append(b, status...), `","arguments":`...)
		return append(e.text(b, from, until), '}')
	}
	if e.inReasoning() {
		b = append(b, `","type":"reasoning","summary":[]`...)
	} else {
		b = append(b, `","type":"message","role":"assistant"`...)
	}
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","content":[`...)
	if until > from {
		b = e.appendPart(b, from, until)
	}
	return append(b, `]}`...)
}

func (e *responsesEncoder) appendPart(b []byte, from, until int) []byte {
	if e.inReasoning() {
		b = append(b, `{"type":"reasoning_text","text":`...)
		b = e.text(b, from, until)
		return append(b, '}')
	}
	b = append(b, `{"type":"output_text","annotations":[],"logprobs":[],"text":`...)
	b = e.text(b, from, until)
	return append(b, '}')
}

func (e *responsesEncoder) Tokens(b []byte, from, until int, _ string) []byte {
	split := e.textFrom(until)
	b = e.delta(b, "response.reasoning_text.delta", from, split)
	from = max(from, split)
	if e.inReasoning() && e.script.hasText(from, until) {
		b = e.done(b, 0, e.reasoning)
		e.answering = true
	}
	if e.call != "" {
		return e.delta(b, "response.function_call_arguments.delta", from, until)
	}
	return e.delta(b, "response.output_text.delta", from, until)
}

// delta appends the text of tokens from to until-1, or nothing if they have none.
func (e *responsesEncoder) delta(b []byte, name string, from, until int) []byte {
	if !e.script.hasText(from, until) {
		return b
	}
	b = e.added(b)
	b = e.part(b, name)
	b = append(b, `,"delta":`...)
	b = e.text(b, from, until)
	return e.close(b)
}

// Closing appends the end of the output item and of the response. The last event is the mark.
func (e *responsesEncoder) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		from := e.textFrom(output)
		if e.inReasoning() {
			from = 0
		}
		b = e.done(b, from, output)
	case 1:
		if e.noEndMark {
			break
		}
		name := "response.completed"
		if finish == FinishLength && e.finishFrame {
			name = "response.incomplete"
		}
		b = e.start(b, name)
		b = append(b, `,"response":`...)
		b = e.appendResponse(b, output, finish)
		b = append(b, '}')
		b = e.close(b)
	}
	return b, part < 2
}

// appendResponse appends the final response object, without its closing brace.
func (e *responsesEncoder) appendResponse(b []byte, output int, finish string) []byte {
	b = append(b, e.head...)
	if finish == FinishLength {
		b = append(b, `,"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, `,"status":"completed","incomplete_details":null`...)
	}
	b = append(b, `,"output":[`...)
	split := e.textFrom(output)
	e.answering = false
	thought := e.script.hasText(0, split)
	if thought {
		b = e.appendItem(b, "completed", 0, split)
	}
	e.answering = true
	if e.script.hasText(split, output) {
		if thought {
			b = append(b, ',')
		}
		b = e.appendItem(b, "completed", split, output)
	}
	b = append(b, ']')
	if e.noUsage {
		return append(b, `,"usage":null`...)
	}
	b = append(b, `,"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, int64(e.prompt), 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(e.Cached), 10)
	b = append(b, '}')
	b = number(b, "output_tokens", output)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(e.reportedReasoning(output)), 10)
	b = append(b, '}')
	b = number(b, "total_tokens", e.prompt+output)
	return append(b, '}')
}

func (e *responsesEncoder) Whole(b []byte, output int, finish string) []byte {
	return e.close(e.appendResponse(b, output, finish))
}

// Failure appends an error event or, in place of a body, OpenAI's error object.
func (e *responsesEncoder) Failure(b []byte, problem *Error) []byte {
	if !e.stream {
		return append(b, problem.json()...)
	}
	b = e.start(b, "error")
	b = append(b, `,"code":`...)
	b = append(b, JSON(problem.Code)...)
	b = append(b, `,"message":`...)
	b = append(b, JSON(problem.Message)...)
	b = append(b, `,"param":null`...)
	return e.close(b)
}

func (e *responsesEncoder) Broken(b []byte) []byte {
	b = e.event(b, "response.output_text.delta")
	b = append(b, `{"type":"response.output_text.delta","sequence_number":5,"del`...)
	return e.end(b)
}
