package stream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/agent/stream/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTestClient returns a client of the chat API, which is closed when the test ends.
func newTestClient(t testing.TB, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask sends one request and returns its observation.
func ask(t testing.TB, c *Client) *Observation {
	t.Helper()
	var o Observation
	c.Do(t.Context(), Request{ID: "r1", Body: body(c)}, &o)
	return &o
}

// body returns some request body.
func body(c *Client) []byte {
	return c.AppendBody(nil, 8, func(dst []byte) []byte { return append(dst, `"hello"`...) })
}

// checkError returns the *Error of a check. Nil: the check succeeded.
func checkError(t testing.TB, c *Client) *Error {
	t.Helper()
	err := c.Check(t.Context(), 0)
	e, ok := errors.AsType[*Error](err)
	if ok != (err != nil) {
		t.Fatalf("the check's error is no *Error: %v", err)
	}
	return e
}

const (
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	roleFrame   = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` +
		"\n\n"
	finishFrame = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageFrame  = `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` + "\n\n"
	doneFrame   = "data: [DONE]\n\n"
)

// tokenFrame returns a frame with a word.
func tokenFrame(word string) string {
	return fmt.Sprintf(`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}]}`, word) + "\n\n"
}

// chunk returns one chunk of a chunked body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const lastChunk = "0\r\n\r\n"

// answer sends the same bytes for every request on a connection.
func answer(parts ...string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for testserver.TakeRequest(r) {
			for _, p := range parts {
				if _, err := io.WriteString(c, p); err != nil {
					return
				}
			}
		}
	}
}

// respondOnce sends the bytes for the first request of a connection, and closes it.
func respondOnce(response string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		if testserver.TakeRequest(r) {
			_, _ = io.WriteString(c, response)
		}
	}
}

// reply answers with two tokens.
func reply(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, frame := range []string{roleFrame, tokenFrame("a"), tokenFrame("b"), finishFrame, doneFrame} {
		io.WriteString(w, frame)
		w.(http.Flusher).Flush()
	}
}
