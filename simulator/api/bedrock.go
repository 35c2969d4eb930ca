package api

import (
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"

	"github.com/spate-load/spate/simulator/config"
)

// bedrock is the Converse API of Amazon Bedrock. Its streams are messages of an event stream. Signatures are accepted
// unread; with an API key, requests must carry that as a bearer token.
type bedrock struct{ stream bool }

var bedrockRoutes = map[string]API{
	"POST /model/{model}/converse":        bedrock{},
	"POST /model/{model}/converse-stream": bedrock{stream: true},
}

func (a bedrock) Parse(q *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(&bedrockFrames, c, body)
	r.named(q.PathValue("model"))
	r.content("system")
	messages := get[[]message](r, "messages")
	for i := range messages {
		r.require(kindOf(messages[i].Content) == '[',
			"messages["+strconv.Itoa(i)+"].content is missing, or not an array of content blocks")
	}
	r.conversation(messages)
	r.Stream, r.framing = a.stream, eventStream
	return r.done("inferenceConfig.maxTokens")
}

// Problem names the exception in a header, as AWS does. An unknown model is a validation error there.
func (bedrock) Problem(e *Error, _ *http.Request, headers http.Header) (int, []byte) {
	exception, status := bedrockException(e.status)
	headers.Set("X-Amzn-Errortype", exception+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	return status, bedrockFrames.body(e)
}

// bedrockException returns the name and the status of the exception for a status.
func bedrockException(status int) (string, int) {
	switch {
	case status == http.StatusUnauthorized:
		return "UnrecognizedClientException", http.StatusForbidden
	case status == http.StatusTooManyRequests:
		return "ThrottlingException", status
	case status >= http.StatusInternalServerError:
		return "InternalServerException", http.StatusInternalServerError
	default:
		return "ValidationException", http.StatusBadRequest
	}
}

// Reasoning is a content block before that of the text. It ends with its signature. A block of text or reasoning has no
// event for its start. messageStop is the mark. inputTokens excludes the tokens from the prefix cache.
var bedrockFrames = frames{
	splits:  true,
	empty:   true,
	opening: parse(`$(messageStart){"role":"assistant"$padding$close`),
	token: parse(bedrockDelta + `{$?reasoning("reasoningContent":{"text":$text}$:"text":$text$)}
		$padding$close`),
	stop: parse(`$?reasoning(` + bedrockDelta + `{"reasoningContent":{"signature":` + reasoningSignature + `}}
		$padding$close$)$(contentBlockStop){"contentBlockIndex":$block$padding$close`),
	closing: []template{
		parse(`$stop`),
		parse(`$(messageStop){` + bedrockStop + `$padding$close`),
		parse(`$(metadata){"metrics":{"latencyMs":$latency}` + bedrockUsage + `$padding$close`),
	},
	whole: parse(`{"metrics":{"latencyMs":$latency},"output":{"message":{"content":[$?thinks({"reasoningContent":
		{"reasoningText":{"signature":` + reasoningSignature + `,"text":$thought}}},$){"text":$text}],
		"role":"assistant"}},` + bedrockStop + bedrockUsage + `$close`),
	failure: parse(`$exception{"message":$problem}$end`),
	broken:  parse(`$(contentBlockDelta){"contentBlockIndex":0,"delta":{"te$end`),
}

const (
	reasoningSignature = `"EqQBCkYIBxgCKkBzaW11bGF0ZWQ="`
	bedrockDelta       = `$(contentBlockDelta){"contentBlockIndex":$block,"delta":`
	bedrockStop        = `"stopReason":"$?length(max_tokens$:end_turn$)"`
	bedrockUsage       = `,"usage":{"cacheReadInputTokens":$cached,"cacheWriteInputTokens":0,
		"inputTokens":$uncached,"outputTokens":$output,"serverToolUsage":{},"totalTokens":$total}`
)

// padding ends an event. As at AWS, a field p of varying length hides the length of the text.
func (p *FrameWriter) padding(b []byte) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	p.events++
	b = append(b, `,"p":"`...)
	b = append(b, letters[:1+p.events*7%len(letters)]...)
	return append(b, '"')
}

// exception starts an exception, which ends a stream.
func (p *FrameWriter) exception(b []byte) []byte {
	if !p.Stream {
		return b
	}
	name, _ := bedrockException(p.problem.status)
	return p.message(p.sealLast(b), "exception", strings.ToLower(name[:1])+name[1:])
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
