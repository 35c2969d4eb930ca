package api

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spate-load/spate/simulator/api/sigv4"
	"github.com/spate-load/spate/simulator/config"
)

// bedrock is the Converse API of Amazon Bedrock. Its streams are messages of an event stream.
type bedrock struct{ stream bool }

var bedrockRoutes = map[string]API{
	"POST /model/{model}/converse":        bedrock{},
	"POST /model/{model}/converse-stream": bedrock{stream: true},
}

type bedrockBody struct {
	System    json.RawMessage `json:"system"`
	Messages  []message       `json:"messages"`
	Inference struct {
		MaxTokens *int `json:"maxTokens"`
	} `json:"inferenceConfig"`
}

func (a bedrock) Parse(r *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w bedrockBody
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	model, problem := modelNamed(c, r.PathValue("model"))
	if problem != nil {
		return nil, problem
	}
	prompt := newTokens(&c.Model)
	if err := prompt.content(w.System); err != nil {
		return nil, BadRequest("system " + err.Error())
	}
	for i := range w.Messages {
		if kindOf(w.Messages[i].Content) != '[' {
			return nil, BadRequest("messages[" + strconv.Itoa(i) + "].content is missing, or not an array of content blocks")
		}
	}
	if problem := prompt.conversation(w.Messages, c.ChatTemplateTokens); problem != nil {
		return nil, problem
	}
	q := newRequest(a, model, &prompt)
	q.Stream = a.stream
	return q, q.limit(c, "inferenceConfig.maxTokens", w.Inference.MaxTokens)
}

// Authorize checks the signature if there is a secret. A bearer token must be the key.
func (bedrock) Authorize(r *http.Request, body []byte, c *config.Config) *Error {
	signed := strings.HasPrefix(r.Header.Get("Authorization"), sigv4.Algorithm+" ")
	switch {
	case signed && c.AWSSecret != "":
		if err := sigv4.Check(r, body, c.AWSSecret, time.Now()); err != nil {
			return &Error{status: http.StatusForbidden, Message: err.Error(), Code: "InvalidSignatureException"}
		}
		return nil
	case c.APIKey == "" && c.AWSSecret == "", c.APIKey != "" && !signed && HasKey(r, c):
		return nil
	case r.Header.Get("Authorization") == "":
		return &Error{status: http.StatusForbidden, Message: "Missing Authentication Token",
			Code: "MissingAuthenticationTokenException"}
	default:
		return &Error{status: http.StatusForbidden, Message: "The security token included in the request is invalid.",
			Code: "UnrecognizedClientException"}
	}
}

// Problem names the exception in a header, as AWS does. An unknown model is a validation error there.
func (bedrock) Problem(e *Error, _ *http.Request, headers http.Header) (int, []byte) {
	exception, status := e.Code, e.status
	if status != http.StatusForbidden {
		exception, status = bedrockException(e.status)
		exception += ":http://internal.amazon.com/coral/com.amazon.bedrock/"
	}
	headers.Set("X-Amzn-Errortype", exception)
	return status, bedrockError(e)
}

// bedrockException returns the name and the status of the exception for a status.
func bedrockException(status int) (string, int) {
	switch {
	case status == http.StatusTooManyRequests:
		return "ThrottlingException", status
	case status >= http.StatusInternalServerError:
		return "InternalServerException", http.StatusInternalServerError
	default:
		return "ValidationException", http.StatusBadRequest
	}
}

func bedrockError(e *Error) []byte {
	return JSON(struct {
		Message string `json:"message"`
	}{e.Message})
}

func (bedrock) Encoder(q *Request, c *config.Config, _ string, _ int64) Encoder {
	e := &bedrockEncoder{blockWriter: blockWriter{FrameWriter: newFrameWriter(q, c)}}
	e.framing = eventStream
	return e
}

// bedrockEncoder writes one answer of the Converse API. Reasoning is a content block before that of the text. A block
// of text or reasoning has no event for its start.
type bedrockEncoder struct {
	blockWriter
	events int // number of events so far
}

// reasoningSignature follows the text of a reasoning block.
const reasoningSignature = "EqQBCkYIBxgCKkBzaW11bGF0ZWQ="

// event starts an event and its object.
func (e *bedrockEncoder) event(b []byte, name string) []byte {
	return append(e.FrameWriter.event(b, name), '{')
}

// close ends the object and the event. As at AWS, a field p of varying length hides the length of the text.
func (e *bedrockEncoder) close(b []byte) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	e.events++
	b = append(b, `,"p":"`...)
	b = append(b, letters[:1+e.events*7%len(letters)]...)
	b = append(b, '"')
	return e.FrameWriter.close(b)
}

func (e *bedrockEncoder) Opening(b []byte) []byte {
	b = e.event(b, "messageStart")
	b = append(b, `"role":"assistant"`...)
	return e.close(b)
}

// Tokens sends an empty delta for tokens without text. The end-of-sequence token has no delta.
func (e *bedrockEncoder) Tokens(b []byte, from, until int, _ string) []byte {
	if e.script.EOS {
		until = min(until, e.script.Tokens-1)
	}
	from = max(from, e.script.Hidden)
	split := e.textFrom(until)
	if from < split {
		b = e.delta(b, `"delta":{"reasoningContent":{"text":`, from, split, `}}`)
		from = split
	}
	if from >= until {
		return b
	}
	if e.inReasoning() {
		b = e.stop(b)
		e.answering = true
	}
	return e.delta(b, `"delta":{"text":`, from, until, `}`)
}

func (e *bedrockEncoder) delta(b []byte, start string, from, until int, end string) []byte {
	e.opened = true
	b = e.indexed(b, "contentBlockDelta")
	b = append(b, ',')
	b = append(b, start...)
	b = e.text(b, from, until)
	b = append(b, end...)
	return e.close(b)
}

// indexed starts an event of the open block.
func (e *bedrockEncoder) indexed(b []byte, name string) []byte {
	b = e.event(b, name)
	b = append(b, `"contentBlockIndex":`...)
	return strconv.AppendInt(b, int64(e.block), 10)
}

// stop closes the block, if one is open, and moves on to the next. A reasoning block ends with its signature.
func (e *bedrockEncoder) stop(b []byte) []byte {
	if !e.opened {
		return b
	}
	if e.inReasoning() {
		b = e.indexed(b, "contentBlockDelta")
		b = append(b, `,"delta":{"reasoningContent":{"signature":"`+reasoningSignature+`"}}`...)
		b = e.close(b)
	}
	b = e.indexed(b, "contentBlockStop")
	e.opened = false
	e.block++
	return e.close(b)
}

// Closing appends the end of the block, messageStop, which is the mark, and the usage.
func (e *bedrockEncoder) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		b = e.stop(b)
	case 1:
		if !e.noEndMark {
			b = e.event(b, "messageStop")
			b = append(b, bedrockStop(finish)...)
			b = e.close(b)
		}
	case 2:
		b = e.event(b, "metadata")
		b = e.appendMetrics(b)
		b = e.appendUsage(b, output)
		b = e.close(b)
	}
	return b, part < 3
}

// bedrockStop returns the stop reason in the API's words.
func bedrockStop(finish string) string {
	if finish == FinishLength {
		return `"stopReason":"max_tokens"`
	}
	return `"stopReason":"end_turn"`
}

// appendMetrics appends the latency, by the model's clock. All tokens must have been produced.
func (e *bedrockEncoder) appendMetrics(b []byte) []byte {
	b = append(b, `"metrics":{"latencyMs":`...)
	b = strconv.AppendInt(b, e.Seq.Latest.Sub(e.Seq.Arrived).Milliseconds(), 10)
	return append(b, '}')
}

// appendUsage appends the usage. inputTokens excludes the tokens from the prefix cache.
func (e *bedrockEncoder) appendUsage(b []byte, output int) []byte {
	if e.noUsage {
		return b
	}
	b = append(b, `,"usage":{"cacheReadInputTokens":`...)
	b = strconv.AppendInt(b, int64(e.Cached), 10)
	b = number(b, "cacheWriteInputTokens", 0)
	b = number(b, "inputTokens", e.prompt-e.Cached)
	b = number(b, "outputTokens", output)
	b = append(b, `,"serverToolUsage":{}`...)
	b = number(b, "totalTokens", e.prompt+output)
	return append(b, '}')
}

func (e *bedrockEncoder) Whole(b []byte, output int, finish string) []byte {
	b = append(b, '{')
	b = e.appendMetrics(b)
	b = append(b, `,"output":{"message":{"content":[`...)
	split := e.textFrom(output)
	if split > 0 {
		b = append(b, `{"reasoningContent":{"reasoningText":{"signature":"`+reasoningSignature+`","text":`...)
		b = e.text(b, 0, split)
		b = append(b, `}}},`...)
	}
	b = append(b, `{"text":`...)
	b = e.text(b, split, output)
	b = append(b, `}],"role":"assistant"}},`...)
	b = append(b, bedrockStop(finish)...)
	b = e.appendUsage(b, output)
	return e.FrameWriter.close(b)
}

// Failure appends an exception, which ends a stream, or a body.
func (e *bedrockEncoder) Failure(b []byte, problem *Error) []byte {
	if e.stream {
		name, _ := bedrockException(problem.status)
		b = e.message(e.sealLast(b), "exception", strings.ToLower(name[:1])+name[1:])
	}
	b = append(b, bedrockError(problem)...)
	return e.end(b)
}

func (e *bedrockEncoder) Broken(b []byte) []byte {
	b = e.FrameWriter.event(b, "contentBlockDelta")
	b = append(b, `{"contentBlockIndex":0,"delta":{"te`...)
	return e.end(b)
}

// The event stream encoding (https://smithy.io/2.0/aws/amazon-eventstream.html): a message is a prelude of its length,
// the length of its headers and the CRC-32 of both, then the headers, the payload, and the CRC-32 of all before it.
const (
	preludeLength = 12
	crcLength     = 4
	stringHeader  = 7 // the type of a header's value
)

// message starts a message of a type: event or exception.
func (p *FrameWriter) message(b []byte, kind, name string) []byte {
	p.begun = len(b)
	var prelude [preludeLength]byte
	b = append(b, prelude[:]...)
	b = appendHeader(b, ":", kind, "-type", name)
	b = appendHeader(b, ":content-type", "", "", "application/json")
	b = appendHeader(b, ":message-type", "", "", kind)
	p.headers = len(b) - p.begun - preludeLength
	return b
}

// appendHeader appends a header whose name has three parts.
func appendHeader(b []byte, start, middle, end, value string) []byte {
	b = append(b, byte(len(start)+len(middle)+len(end)))
	b = append(b, start...)
	b = append(b, middle...)
	b = append(b, end...)
	b = append(b, stringHeader)
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// endMessage fills in the prelude of the last message, which ends the buffer, and appends its CRC.
func (p *FrameWriter) endMessage(b []byte) []byte {
	m := b[p.begun:]
	binary.BigEndian.PutUint32(m, uint32(len(m)+crcLength))
	binary.BigEndian.PutUint32(m[4:], uint32(p.headers))
	binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(m))
}
