package testserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Parts of an answer of the chat API, as servers stream it.
const (
	ChunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	RoleFrame   = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` +
		"\n\n"
	FinishFrame = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	UsageFrame  = `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` + "\n\n"
	DoneFrame   = "data: [DONE]\n\n"
	LastChunk   = "0\r\n\r\n"
)

// TokenFrame returns a frame with a word.
func TokenFrame(word string) string {
	const form = `data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",` +
		`"choices":[{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}]}`
	return fmt.Sprintf(form, word) + "\n\n"
}

// Chunk returns one chunk of a chunked body.
func Chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// Answer sends the same bytes for every request on a connection.
func Answer(parts ...string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for TakeRequest(r) {
			for _, p := range parts {
				if _, err := io.WriteString(c, p); err != nil {
					return
				}
			}
		}
	}
}

// RespondOnce sends the bytes for the first request of a connection, and closes it.
func RespondOnce(response string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		if TakeRequest(r) {
			_, _ = io.WriteString(c, response)
		}
	}
}

// Reply answers with two tokens.
func Reply(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, frame := range []string{RoleFrame, TokenFrame("a"), TokenFrame("b"), FinishFrame, DoneFrame} {
		_, _ = io.WriteString(w, frame)
		w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's can
	}
}
