package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// vocabulary is the words of the output. None is empty, and none needs escaping in JSON.
var vocabulary = [...]string{
	" water", " rises", " over", " the", " banks", " and", " spreads", " across",
	" low", " fields", " while", " rain", " goes", " on", " all", " night",
}

// word returns the text of the i-th token, counted from 0.
func word(i int) string { return vocabulary[i%len(vocabulary)] }

// endToken is the id of the end-of-sequence token.
const endToken = 2

// FrameWriter writes the frames of one answer into a buffer: those of its API, filled in, with the lines of the event
// stream and the send time. Once the buffer has grown, a token costs no allocation.
type FrameWriter struct {
	*Request
	shape          *config.Config
	thinking       int    // reasoning tokens at the start of the output, streamed or not
	reasoning      int    // those of them that are streamed, apart from the text where the API can
	reasoningField string // OpenAI's field for reasoning: its name and a colon
	Cached         int    // tokens
	created        int64
	id             []byte
	served         []byte // name of the model, JSON
	head           []byte
	Sent           clock.Instant // send time of the last sealed object: when it was ready to be written
	unsealed       int           // offset of the missing send time of the last object; 0: not missing, or not wanted

	// What templates show.
	from, split, until int    // tokens of the frame: reasoning up to split, then text
	finish             string // reason; empty: none yet
	problem            *Error
	events             int  // number of events so far
	named              bool // the tool call has had its name

	// The blocks of an answer that is made of them, with the reasoning in a block before that of the text.
	block     int // number of the open block, or of the next one
	opened    bool
	answering bool // the block is that of the text
}

// NewWriter returns the writer of the answer to a request. id and created are those that the answer shows.
func NewWriter(q *Request, c *config.Config, id string, created int64) *FrameWriter {
	p := &FrameWriter{
		Request:        q,
		shape:          c,
		thinking:       c.Frames.ReasoningTokens,
		reasoningField: `"` + cmp.Or(c.Frames.ReasoningField, "reasoning_content") + `":`,
		created:        created,
		id:             AppendToken(nil, id),
		served:         JSON(q.model),
	}
	if q.frames.splits && c.Frames.ReasoningField != config.ReasoningHidden {
		p.reasoning = p.thinking
	}
	p.head = p.put(nil, q.frames.head)
	return p
}

// at sets what the next frame is about: tokens from to until-1, and the finish reason.
func (p *FrameWriter) at(from, until int, finish string) {
	p.from, p.split, p.until, p.finish = from, max(from, p.textFrom(until)), until, finish
}

// Opening appends the frames before the first token, or nothing if the API has no such frames.
func (p *FrameWriter) Opening(b []byte) []byte { return p.put(b, p.frames.opening) }

// Tokens appends the frames of tokens from to until-1, counted from 0, or nothing if the API has no frame for tokens
// without text. finish is the finish reason, empty before the end. An API without a field for it leaves it out.
func (p *FrameWriter) Tokens(b []byte, from, until int, finish string) []byte {
	if p.frames.stop != nil {
		return p.blocks(b, from, until)
	}
	if p.shape.Frames.FinishFrame {
		finish = ""
	}
	p.at(from, until, finish)
	return p.put(b, p.frames.token)
}

// Closing appends what follows the last token. It is called with part 0, 1, ... until it returns false. Each part is
// one write.
func (p *FrameWriter) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	if part >= len(p.frames.closing) {
		return b, false
	}
	p.at(output, output, finish)
	return p.put(b, p.frames.closing[part]), true
}

// Whole appends an answer that is not streamed.
func (p *FrameWriter) Whole(b []byte, output int, finish string) []byte {
	p.at(0, output, finish)
	return p.put(b, p.frames.whole)
}

// Failure appends an error in place of a frame, or of the body.
func (p *FrameWriter) Failure(b []byte, problem *Error) []byte {
	if p.problem = problem; p.frames.translate != nil {
		p.problem = p.frames.translate(problem)
	}
	return p.put(b, p.frames.failure)
}

// Broken appends a frame, or a body, of truncated JSON.
func (p *FrameWriter) Broken(b []byte) []byte { return p.put(b, p.frames.broken) }

// Mark appends the end mark of a stream, which failed streams have too, or nothing if the API has none.
func (p *FrameWriter) Mark(b []byte) []byte {
	if !p.Stream {
		return b
	}
	return p.put(b, p.frames.mark)
}

// event starts a frame of a named event.
func (p *FrameWriter) event(b []byte, name string) []byte {
	if !p.Stream {
		return b
	}
	if p.unsealed != 0 { // the last object is sent in the same write as the next one
		b = p.Seal(b)
	}
	if name != "" {
		b = append(b, "event: "...)
		b = append(b, name...)
		b = append(b, '\n')
	}
	return append(b, "data: "...)
}

// close ends the object and the frame. In a stream, the send time stays open until seal. In a body it is set here.
func (p *FrameWriter) close(b []byte) []byte {
	if p.shape.Truth.Stamp {
		b = append(b, wire.SentField...)
		p.unsealed = len(b)
	}
	b = append(b, '}')
	if !p.Stream {
		return p.Seal(b)
	}
	return p.end(b)
}

// Seal reads the send time and inserts it into the last object. It is called just before the system call, so that
// nothing else lies between the time and the wire.
func (p *FrameWriter) Seal(b []byte) []byte {
	p.Sent = clock.Now()
	if p.unsealed == 0 {
		return b
	}
	var room [8]byte
	rest := append(room[:0], b[p.unsealed:]...) // the rest of the object and of the frame
	b = strconv.AppendInt(b[:p.unsealed], int64(p.Sent), 10)
	p.unsealed = 0
	return append(b, rest...)
}

// end ends the frame. A body that is not a stream needs no end.
func (p *FrameWriter) end(b []byte) []byte {
	if !p.Stream {
		return b
	}
	return append(b, "\n\n"...)
}

// blocks appends the frames of tokens from to until-1, and starts and stops blocks between them.
func (p *FrameWriter) blocks(b []byte, from, until int) []byte {
	split := max(from, p.textFrom(until))
	b = p.delta(b, from, split)
	if p.inReasoning() && p.Script.hasText(split, until) {
		b = p.stopBlock(b)
		p.answering = true
	}
	return p.delta(b, split, until)
}

// delta appends tokens from to until-1, all of one block, or nothing if they have no frame.
func (p *FrameWriter) delta(b []byte, from, until int) []byte {
	if !p.Script.hasText(from, until) {
		return b
	}
	b = p.startBlock(b)
	p.split, p.until = from, until
	return p.put(b, p.frames.token)
}

// startBlock opens the block if it is not open.
func (p *FrameWriter) startBlock(b []byte) []byte {
	if p.opened {
		return b
	}
	p.opened = true
	return p.put(b, p.frames.start)
}

// stopBlock closes the block, if one is open, and moves on to the next. Its text is that of all of its tokens.
func (p *FrameWriter) stopBlock(b []byte) []byte {
	if !p.opened {
		return b
	}
	p.split = p.textFrom(p.until)
	if p.inReasoning() {
		p.split, p.until = 0, p.split
	}
	b = p.put(b, p.frames.stop)
	p.opened = false
	p.block++
	return b
}

// items appends the blocks that have text.
func (p *FrameWriter) items(b []byte) []byte {
	split, output := p.textFrom(p.until), p.until
	p.answering = false
	thought := p.Script.hasText(0, split)
	if thought {
		p.split, p.until = 0, split
		b = p.put(b, p.frames.item)
	}
	p.answering = true
	p.split, p.until = split, output
	if p.Script.hasText(split, output) {
		if thought {
			b = append(b, ',')
		}
		b = p.put(b, p.frames.item)
	}
	return b
}

// inReasoning reports whether the block is that of the reasoning.
func (p *FrameWriter) inReasoning() bool { return p.reasoning > 0 && !p.answering }

// calling reports whether the block is a call.
func (p *FrameWriter) calling() bool { return p.call != "" && !p.inReasoning() }

// textFrom returns the first of the output's tokens that is not reasoning.
func (p *FrameWriter) textFrom(output int) int { return min(output, p.reasoning) }

// reportedReasoning returns how many of the first tokens usage reports as reasoning.
func (p *FrameWriter) reportedReasoning(output int) int {
	if p.shape.Frames.NoReasoningUsage {
		return 0
	}
	return min(output, p.thinking)
}

// number appends a field of a JSON object, with a comma in front.
func number(b []byte, name string, n int) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, int64(n), 10)
}

// word returns the text of token i. White space fills an answer that is over before its length.
func (p *FrameWriter) word(i int) string {
	switch said := i - p.thinking; {
	case p.Script.Wrong && i > 0:
		return word(i + 1)
	case p.said == nil || said < 0:
		return word(i)
	case said < len(p.said):
		return p.said[said]
	}
	return " "
}

// text appends a JSON string of the words of tokens from to until-1.
func (p *FrameWriter) text(b []byte, from, until int) []byte {
	b = append(b, '"')
	for i := from; i < until; i++ {
		if !p.Script.Textless(i) {
			b = append(b, p.word(i)...)
		}
	}
	return append(b, '"')
}

// token returns the id of the i-th token.
func (p *FrameWriter) token(i int) int64 {
	if p.Script.EOS && i == p.Script.Tokens-1 {
		return endToken
	}
	return int64(1000 + i%len(vocabulary))
}

// ids appends a JSON array of the ids of the streamed tokens from to until-1.
func (p *FrameWriter) ids(b []byte, from, until int) []byte {
	b = append(b, '[')
	from = max(from, p.Script.Hidden)
	for i := from; i < until; i++ {
		if i > from {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, p.token(i), 10)
	}
	return append(b, ']')
}

// AppendToken appends s, with _ in place of each character that needs escaping in a JSON string or an HTTP header.
func AppendToken(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			c = '_'
		}
		b = append(b, c)
	}
	return b
}

// JSON encodes values that cannot fail to encode: strings, and structs of strings and numbers.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("simulator: cannot encode a value: " + err.Error())
	}
	return b
}

// Error is an error in the form of OpenAI's API.
type Error struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// invalid returns the error of a request that cannot be served as it is.
func invalid(status int, code, message string) *Error {
	return &Error{status: status, Message: message, Type: "invalid_request_error", Code: code}
}

// BadRequest returns the error of a request that is not valid.
func BadRequest(message string) *Error {
	return invalid(http.StatusBadRequest, "invalid_value", message)
}

// BodyTooLarge returns the error of a body of more than limit bytes.
func BodyTooLarge(limit int64) *Error {
	return invalid(http.StatusRequestEntityTooLarge, "body_too_large",
		fmt.Sprintf("the body is longer than %d bytes", limit))
}

func unknownModel(name string) *Error {
	return invalid(http.StatusNotFound, "model_not_found", fmt.Sprintf("The model %q does not exist.", name))
}

func unknownParameter(name string) *Error {
	e := invalid(http.StatusBadRequest, "unknown_parameter", "Unrecognized request argument supplied: "+name)
	e.Param = &name
	return e
}

// UnknownPath returns the error of a path that is not served.
func UnknownPath(method, path string) *Error {
	return invalid(http.StatusNotFound, "unknown_url", fmt.Sprintf("Unknown request: %s %s", method, path))
}

// Unauthorized returns the error of a request without the key.
func Unauthorized() *Error {
	return invalid(http.StatusUnauthorized, "invalid_api_key",
		"Incorrect or missing API key: send it as a bearer token.")
}

// TooManyRequests returns the error of the fault 429.
func TooManyRequests() *Error {
	return &Error{status: http.StatusTooManyRequests, Message: "Rate limit reached (simulated).", Type: "requests",
		Code: "rate_limit_exceeded"}
}

// ServerError returns the error of the fault 500, and of an error in a stream.
func ServerError() *Error {
	return &Error{status: http.StatusInternalServerError, Message: "The server had an error (simulated).",
		Type: "server_error", Code: "internal_error"}
}

// json returns the error object.
func (e *Error) json() []byte { return JSON(map[string]*Error{"error": e}) }

// WriteTo sends the error as the whole response, in OpenAI's form.
func (e *Error) WriteTo(w http.ResponseWriter) { WriteProblem(w, e.status, e.json()) }

// WriteProblem sends an error as the whole response. It ignores write errors: the client may have left.
func WriteProblem(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
