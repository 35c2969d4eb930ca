package api

import (
	"encoding/json"
	"strconv"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// vocabulary is the words of the output. None is empty, and none needs escaping in JSON.
var vocabulary = [...]string{
	" water", " rises", " over", " the", " banks", " and", " spreads", " across",
	" low", " fields", " while", " rain", " goes", " on", " all", " night",
}

// word returns the text of the i-th token, counted from 0.
func word(i int) string { return vocabulary[i%len(vocabulary)] }

// wordToken returns the id of the i-th token.
func wordToken(i int) int64 { return int64(1000 + i%len(vocabulary)) }

// endToken is the id of the end-of-sequence token.
const endToken = 2

// framing is how the frames of a stream are told apart.
type framing uint8

const (
	serverSentEvents framing = iota
	eventStream              // the messages of Amazon's event streams
	jsonArray                // the elements of one array
)

// What precedes the elements of an array.
const (
	firstElement = "["
	nextElement  = ",\r\n"
)

// contentType returns the media type of a stream.
func (f framing) contentType() string {
	switch f {
	case eventStream:
		return "application/vnd.amazon.eventstream"
	case jsonArray:
		return "application/json; charset=UTF-8"
	default:
		return "text/event-stream; charset=utf-8"
	}
}

// FrameWriter writes what the frames of all APIs share: the lines of the event stream, the send time, and the text.
type FrameWriter struct {
	script         Script
	call           string   // name of the tool that the answer calls; empty: none
	said           []string // the answer, after the reasoning, or the arguments of the call; nil: words
	stream         bool
	framing        framing
	stamp          bool
	comments       bool
	noEndMark      bool
	noUsage        bool
	caching        bool             // usage reports tokens from the prefix cache
	thinking       int              // reasoning tokens at the start of the output, streamed or not
	reasoning      int              // those of them that are streamed, apart from the text where the API can
	reasoningUsage bool             // usage reports reasoning tokens
	finishFrame    bool             // the finish reason has a frame of its own
	prompt         int              // tokens
	Cached         int              // tokens
	Worker         int              // number of the engine
	Seq            *engine.Sequence // its times are read when all of its tokens have been produced
	field          string
	eol            string
	Sent           clock.Instant // send time of the last sealed object: when it was ready to be written
	unsealed       int           // offset of the missing send time of the last object; 0: not missing, or not wanted
	begun          int           // offset of the last message of an event stream
	headers        int           // length of its headers
}

func newFrameWriter(q *Request, c *config.Config) FrameWriter {
	p := FrameWriter{
		script:         q.Script,
		call:           q.call,
		said:           q.said,
		stream:         q.Stream,
		stamp:          c.Truth.Stamp,
		comments:       c.Frames.Comments,
		noEndMark:      c.Frames.NoEndMark,
		noUsage:        c.Frames.NoUsage,
		caching:        c.Model.CacheBlocks > 0,
		thinking:       c.Frames.ReasoningTokens,
		reasoningUsage: c.Frames.ReasoningTokens > 0 && !c.Frames.NoReasoningUsage,
		finishFrame:    c.Frames.FinishFrame,
		prompt:         q.PromptTokens,
		field:          "data: ",
		eol:            "\n",
	}
	if c.Frames.CRLF {
		p.eol = "\r\n"
	}
	if c.Frames.ReasoningField != config.ReasoningHidden && !q.hideReasoning {
		p.reasoning = p.thinking
	}
	return p
}

// ContentType returns the media type of a stream of this writer.
func (p *FrameWriter) ContentType() string { return p.framing.contentType() }

// Common implements Encoder for types that embed FrameWriter.
func (p *FrameWriter) Common() *FrameWriter { return p }

// Opening implements Encoder for APIs whose streams start with the first token.
func (p *FrameWriter) Opening(b []byte) []byte { return b }

// Closing implements Encoder for APIs whose streams end with the last token.
func (p *FrameWriter) Closing(b []byte, _, _ int, _ string) ([]byte, bool) { return b, false }

// Mark implements Encoder for APIs without a mark.
func (p *FrameWriter) Mark(b []byte) []byte { return b }

// openAIMark appends the mark of OpenAI's streams.
func (p *FrameWriter) openAIMark(b []byte) []byte {
	if p.noEndMark || !p.stream {
		return b
	}
	return p.raw(b, "[DONE]")
}

// inFrame returns the finish reason for the frame of the last token: none if it has a frame of its own.
func (p *FrameWriter) inFrame(finish string) string {
	if p.finishFrame {
		return ""
	}
	return finish
}

// open starts a frame of an unnamed event.
func (p *FrameWriter) open(b []byte) []byte { return p.event(b, "") }

// event starts a frame of a named event.
func (p *FrameWriter) event(b []byte, name string) []byte {
	if !p.stream {
		return b
	}
	b = p.sealLast(b)
	if p.framing == eventStream {
		return p.message(b, "event", name)
	}
	if p.comments {
		b = p.Comment(b)
	}
	if name != "" {
		b = append(b, "event: "...)
		b = append(b, name...)
		b = append(b, p.eol...)
	}
	b = append(b, p.field...)
	if p.framing == jsonArray {
		p.field = nextElement
	}
	return b
}

// close ends the object and the frame. In a stream, the send time stays open until seal. In a body it is set here.
func (p *FrameWriter) close(b []byte) []byte {
	if p.stamp {
		b = append(b, `,"sent_ns":`...)
		p.unsealed = len(b)
	}
	b = append(b, '}')
	if !p.stream {
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
	b = append(b, rest...)
	if p.stream && p.framing == eventStream {
		return p.endMessage(b)
	}
	return b
}

// sealLast seals an object that is sent in the same write as the next one.
func (p *FrameWriter) sealLast(b []byte) []byte {
	if p.unsealed == 0 {
		return b
	}
	return p.Seal(b)
}

// end ends the frame. A body that is not a stream needs no end. A message with a send time ends when it is sealed.
func (p *FrameWriter) end(b []byte) []byte {
	switch {
	case !p.stream || p.framing == jsonArray:
		return b
	case p.framing == eventStream && p.unsealed > 0:
		return b
	case p.framing == eventStream:
		return p.endMessage(b)
	}
	b = append(b, p.eol...)
	return append(b, p.eol...)
}

// raw appends a frame with any data.
func (p *FrameWriter) raw(b []byte, data string) []byte {
	b = p.open(b)
	b = append(b, data...)
	return p.end(b)
}

// Comment appends a comment, which carries no data, or nothing if the framing has no comments.
func (p *FrameWriter) Comment(b []byte) []byte {
	if p.framing != serverSentEvents {
		return b
	}
	b = append(b, ": keep-alive"...)
	return p.end(b)
}

// blockWriter is a FrameWriter for APIs whose answers are made of blocks, with the reasoning in a block before that of
// the text.
type blockWriter struct {
	FrameWriter
	block     int // number of the open block, or of the next one
	opened    bool
	answering bool // the block is that of the text
}

// inReasoning reports whether the block is that of the reasoning.
func (p *blockWriter) inReasoning() bool { return p.reasoning > 0 && !p.answering }

// textFrom returns the first of the output's tokens that is not reasoning.
func (p *FrameWriter) textFrom(output int) int { return min(output, p.reasoning) }

// reasoned returns how many of the first tokens are reasoning.
func (p *FrameWriter) reasoned(output int) int { return min(output, p.thinking) }

// reportedReasoning returns how many of the first tokens usage reports as reasoning.
func (p *FrameWriter) reportedReasoning(output int) int {
	if !p.reasoningUsage {
		return 0
	}
	return p.reasoned(output)
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
		if !p.script.Textless(i) {
			b = append(b, p.word(i)...)
		}
	}
	return append(b, '"')
}

// token returns the id of the i-th token.
func (p *FrameWriter) token(i int) int64 {
	if p.script.EOS && i == p.script.Tokens-1 {
		return endToken
	}
	return wordToken(i)
}

// ids appends a JSON array of the ids of the streamed tokens from to until-1.
func (p *FrameWriter) ids(b []byte, from, until int) []byte {
	b = append(b, '[')
	from = max(from, p.script.Hidden)
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
