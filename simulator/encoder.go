package simulator

import (
	"encoding/json"
	"strconv"

	"github.com/spate-load/spate/clock"
)

// vocabulary is what the output is made of: none is empty, none needs escaping in JSON.
var vocabulary = [...]string{
	" water", " rises", " over", " the", " banks", " and", " spreads", " across",
	" low", " fields", " while", " rain", " goes", " on", " all", " night",
}

// word returns the text of the i-th token, counted from 0.
func word(i int) string { return vocabulary[i%len(vocabulary)] }

// encoder appends the frames of one response to a buffer. Nothing in it allocates once the buffer has grown.
type encoder struct {
	chat      bool
	stream    bool
	stamp     bool
	reasoning int    // tokens that come as reasoning
	prompt    int    // tokens
	caching   bool   // usage tells what the prefix cache had
	cached    int    // tokens
	head      []byte // from { to the choices
	eol       string
	sent      clock.Instant // of the object appended last: when it was ready to be written
}

func newEncoder(q *request, c *Config, id string, created int64) *encoder {
	f := &c.Frames
	e := &encoder{
		chat:    q.api == chat,
		stream:  q.stream,
		stamp:   c.Truth.Stamp,
		prompt:  q.promptTokens,
		caching: c.Model.CacheBlocks > 0,
		eol:     "\n",
	}
	if f.CRLF {
		e.eol = "\r\n"
	}
	if e.chat {
		e.reasoning = f.ReasoningTokens
	}
	prefix, object := e.kind()
	e.head = append(e.head, `{"id":"`...)
	e.head = append(e.head, prefix...)
	e.head = appendToken(e.head, id)
	e.head = append(e.head, `","object":"`...)
	e.head = append(e.head, object...)
	e.head = append(e.head, `","created":`...)
	e.head = strconv.AppendInt(e.head, created, 10)
	e.head = append(e.head, `,"model":`...)
	e.head = append(e.head, jsonString(q.model)...)
	return e
}

// kind returns the prefix of the response's id and the name of its objects.
func (e *encoder) kind() (prefix, object string) {
	switch {
	case e.chat && e.stream:
		return "chatcmpl-", "chat.completion.chunk"
	case e.chat:
		return "chatcmpl-", "chat.completion"
	default:
		return "cmpl-", "text_completion"
	}
}

// role appends the frame that names the role.
func (e *encoder) role(b []byte) []byte {
	b = e.open(b)
	b = append(b, `,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	return e.close(b)
}

// tokens appends the frame of tokens from to until, counted from 0. finish is the reason of the end, empty before it; usage says
// whether the frame carries the usage so far.
func (e *encoder) tokens(b []byte, from, until int, finish string, usage bool) []byte {
	b = e.open(b)
	b = append(b, `,"choices":[{"index":0,`...)
	if e.chat {
		b = append(b, `"delta":{`...)
		b = e.appendContent(b, from, until)
		b = append(b, '}')
	} else {
		b = append(b, `"text":"`...)
		b = appendWords(b, from, until)
		b = append(b, '"')
	}
	b = appendFinish(b, finish)
	b = append(b, ']')
	if usage {
		b = e.appendUsage(b, until)
	}
	return e.close(b)
}

// finish appends the frame that says why the output has ended and carries nothing else.
func (e *encoder) finish(b []byte, reason string) []byte {
	b = e.open(b)
	if e.chat {
		b = append(b, `,"choices":[{"index":0,"delta":{}`...)
	} else {
		b = append(b, `,"choices":[{"index":0,"text":""`...)
	}
	b = appendFinish(b, reason)
	b = append(b, ']')
	return e.close(b)
}

// usage appends the frame with the usage at the end.
func (e *encoder) usage(b []byte, output int) []byte {
	b = e.open(b)
	b = append(b, `,"choices":[]`...)
	b = e.appendUsage(b, output)
	return e.close(b)
}

// whole appends the response that is not streamed.
func (e *encoder) whole(b []byte, output int, finish string) []byte {
	b = e.open(b)
	b = append(b, `,"choices":[{"index":0,`...)
	if e.chat {
		b = append(b, `"message":{"role":"assistant",`...)
		b = e.appendContent(b, 0, output)
		b = append(b, '}')
	} else {
		b = append(b, `"text":"`...)
		b = appendWords(b, 0, output)
		b = append(b, '"')
	}
	b = appendFinish(b, finish)
	b = append(b, ']')
	b = e.appendUsage(b, output)
	return e.close(b)
}

// raw appends a frame with any data.
func (e *encoder) raw(b []byte, data []byte) []byte {
	if e.stream {
		b = append(b, "data: "...)
	}
	b = append(b, data...)
	return e.end(b)
}

// comment appends a comment, which carries no data.
func (e *encoder) comment(b []byte) []byte {
	b = append(b, ": keep-alive"...)
	return e.end(b)
}

func (e *encoder) open(b []byte) []byte {
	if e.stream {
		b = append(b, "data: "...)
	}
	return append(b, e.head...)
}

// close ends the object. The time is the last thing taken, so that little more than the write is between it and the wire.
func (e *encoder) close(b []byte) []byte {
	e.sent = clock.Now()
	if e.stamp {
		b = append(b, `,"sent_ns":`...)
		b = strconv.AppendInt(b, int64(e.sent), 10)
	}
	b = append(b, '}')
	return e.end(b)
}

// end ends the frame; a body that is no stream needs none.
func (e *encoder) end(b []byte) []byte {
	if !e.stream {
		return b
	}
	b = append(b, e.eol...)
	return append(b, e.eol...)
}

// appendContent appends the fields of tokens from to until, those within the reasoning apart.
func (e *encoder) appendContent(b []byte, from, until int) []byte {
	if split := min(until, e.reasoning); from < split {
		b = append(b, `"reasoning_content":"`...)
		b = appendWords(b, from, split)
		if from = split; from == until && e.stream {
			return append(b, '"')
		}
		b = append(b, `",`...)
	}
	b = append(b, `"content":"`...)
	b = appendWords(b, from, until)
	return append(b, '"')
}

func (e *encoder) appendUsage(b []byte, output int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(e.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(e.prompt+output), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(output), 10)
	if e.caching {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(e.cached), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendFinish(b []byte, reason string) []byte {
	if reason == "" {
		return append(b, `,"logprobs":null,"finish_reason":null}`...)
	}
	b = append(b, `,"logprobs":null,"finish_reason":"`...)
	b = append(b, reason...)
	return append(b, `"}`...)
}

func appendWords(b []byte, from, until int) []byte {
	for i := from; i < until; i++ {
		b = append(b, word(i)...)
	}
	return b
}

// appendToken appends what of s can stand in a JSON string and an HTTP header as it is, and _ for the rest.
func appendToken(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			c = '_'
		}
		b = append(b, c)
	}
	return b
}

func jsonString(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("simulator: a string cannot be encoded: " + err.Error())
	}
	return b
}
