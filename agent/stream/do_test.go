package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestStreamOnAKeptConnection(t *testing.T) {
	s := testserver.NewRaw(t, answer(chunkedHead, chunk(roleFrame), chunk(tokenFrame("one")), chunk(tokenFrame("two")),
		chunk(finishFrame), chunk(usageFrame), chunk(doneFrame), lastChunk))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for i := range 3 {
		o := ask(t, c)
		if o.Err != nil || o.Cancelled {
			t.Fatalf("failed: %v", o.Err)
		}
		if o.TokenFrames != 2 || len(o.Gaps(nil)) != 1 || !o.Usage || o.OutputTokens != 7 || o.InputTokens != 11 ||
			o.FinishReason != "stop" || o.HTTPStatus != 200 || o.WholeAnswer {
			t.Fatalf("%+v", o)
		}
		if o.Connected != (i == 0) || (o.Connect > 0) != (i == 0) {
			t.Errorf("request %d: connected %v in %v", i, o.Connected, o.Connect)
		}
		times := []clock.Instant{1, o.Start, o.FirstByte, o.FirstToken, o.LastToken, o.End, clock.Now()}
		if !slices.IsSorted(times) || o.Sent < o.Start {
			t.Errorf("times out of order: %v, sent %v", times, o.Sent)
		}
	}
}

// The same frames are found however TCP splits the response.
func TestResponseCutAnywhere(t *testing.T) {
	response := chunkedHead + chunk(roleFrame) + chunk(tokenFrame("a")) +
		chunk(": comment\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\r\n\r\n") +
		chunk(finishFrame+usageFrame) + chunk(doneFrame) + lastChunk
	var cut atomic.Int64
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		for testserver.TakeRequest(r) {
			n := cut.Load()
			io.WriteString(c, response[:n])
			runtime.Gosched() // so that the client usually reads in two parts
			io.WriteString(c, response[n:])
		}
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var o Observation
	for n := range len(response) {
		cut.Store(int64(n))
		c.Do(t.Context(), Request{Body: body(c)}, &o)
		if o.Err != nil || o.TokenFrames != 2 || len(o.Gaps(nil)) != 1 || o.OutputTokens != 7 ||
			o.FinishReason != "stop" {
			t.Fatalf("cut at %d: %+v", n, o)
		}
		if o.Connected != (n == 0) {
			t.Fatalf("cut at %d: the connection was not kept", n)
		}
	}
}

func TestOutcomesOfResponses(t *testing.T) {
	const closing = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	jsonHead := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
	}
	const (
		none   = spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED
		cut    = spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM
		bad    = spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME
		fault  = spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR
		empty  = spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT
		status = spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS
	)
	tokens := chunk(tokenFrame("a")) + chunk(tokenFrame("b"))
	for _, tt := range []struct {
		name, response string
		class          spatev1.ErrorClass
		message        string
		frames         uint64
	}{
		{"no done but a finish reason", chunkedHead + tokens + chunk(finishFrame) + lastChunk, none, "", 2},
		{"no done, close-delimited", closing + tokenFrame("a") + finishFrame, none, "", 1},
		{"done without an empty line", chunkedHead + tokens + chunk("data: [DONE]") + lastChunk, none, "", 2},
		{"done and no more", chunkedHead + tokens + chunk(doneFrame), none, "", 2},
		{"garbage after done", chunkedHead + tokens + chunk(doneFrame+"<html>") + lastChunk, none, "", 2},
		{"no done, no finish reason", chunkedHead + tokens + lastChunk, cut, "without a finish reason; token frames received: 2", 2},
		{"close-delimited, cut", closing + tokenFrame("a"), cut, "token frames received: 1", 1},
		{"cut in a frame", chunkedHead + chunk(tokenFrame("a")) + chunk(tokenFrame("b"))[:50], cut, "", 1},
		{"cut behind the finish reason", chunkedHead + tokens + chunk(finishFrame), cut, "", 2},
		{"cut head", "HTTP/1.1 200 OK\r\nContent-", cut, "no response received", 0},
		{"no head", "", cut, "no response received", 0},
		{"no HTTP", "220 mail ESMTP\r\n", bad, "not valid HTTP", 0},
		{"no chunk", chunkedHead + tokens + "zz\r\n", bad, "", 2},
		{"no JSON", chunkedHead + tokens + chunk("data: {\"choices\":[\n\n"), bad, "invalid frame: ", 2},
		{"no object", chunkedHead + chunk("data: 7\n\n"), bad, "invalid frame: ", 0},
		{"no events", closing + "<html><body>hello</body></html>\n", bad, "invalid line in the event stream", 0},
		{"huge frame", closing + "data: " + strings.Repeat("x", frameLimit+1), bad, "longer than", 0},
		{"compressed", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", bad, "gzip", 0},
		{"error in the stream", chunkedHead + tokens + chunk("data: {\"error\":{\"message\":\"out of memory\"}}\n\n") +
			chunk(doneFrame) + lastChunk, fault, "out of memory", 2},
		{"event named error", chunkedHead + chunk("event: error\ndata: {\"message\":\"overload\"}\n\n") + lastChunk,
			fault, "overload", 0},
		{"nothing but done", chunkedHead + chunk(roleFrame) + chunk(finishFrame) + chunk(doneFrame) + lastChunk, empty,
			"finish reason: stop", 0},
		{"busy", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 9\r\n\r\nslow down", status,
			"429 Too Many Requests: slow down", 0},
		{"elsewhere", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
			status, "307", 0},
		{"accepted", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", status, "202", 0},
		{"one JSON body", jsonHead(`{"choices":[{"message":{"content":"all"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":3}}`), none, "", 1},
		{"error as a JSON body", jsonHead(`{"error":{"message":"no such model"}}`), fault, "no such model", 0},
		{"garbage as a JSON body", jsonHead(`{"choices":`), bad, "", 0},
		{"cut JSON body", jsonHead(`{"choices":[]}`)[:80], cut, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				if testserver.TakeRequest(r) {
					io.WriteString(c, tt.response)
				}
			})
			c := newTestClient(t, Config{Endpoints: []string{s.URL}, RequestTimeout: 20 * time.Second})
			o := ask(t, c)
			class, message := none, ""
			if o.Err != nil {
				class, message = o.Err.Class, o.Err.Message
			}
			if class != tt.class || !strings.Contains(message, tt.message) || o.TokenFrames != tt.frames ||
				o.Cancelled {
				t.Errorf("%v %q, %d frames", class, message, o.TokenFrames)
			}
			if o.End == 0 || o.Sent == 0 || len(message) > messageLimit {
				t.Errorf("%+v", o)
			}
			if class == status && o.Err.HTTPStatus != o.HTTPStatus {
				t.Errorf("status %d and %d", o.Err.HTTPStatus, o.HTTPStatus)
			}
		})
	}
}

func TestOneJSONBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		io.WriteString(w, `{"choices":[{"message":{"content":"all"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":3}}`)
	}))
	defer s.Close()
	o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
	if o.Err != nil || !o.WholeAnswer || o.OutputTokens != 3 || o.InputTokens != 2 || len(o.Gaps(nil)) != 0 {
		t.Fatalf("%+v", o)
	}
	if o.FirstToken == 0 || o.FirstToken != o.LastToken || o.End != o.LastToken {
		t.Errorf("first token %d, last %d, end %d", o.FirstToken, o.LastToken, o.End)
	}
}

func TestRunningUsage(t *testing.T) {
	frame := func(n int) string {
		return chunk(fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d}}\n\n", n))
	}
	s := testserver.NewRaw(t, answer(chunkedHead, frame(1), frame(4), chunk(tokenFrame("b")), frame(5), frame(7), lastChunk))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var tokens []int
	var o Observation
	c.Do(t.Context(), Request{Body: body(c), OnToken: func(at clock.Instant, n int) {
		tokens = append(tokens, n)
		if at != o.LastToken {
			t.Errorf("reported %d, recorded %d", at, o.LastToken)
		}
	}}, &o)
	if !slices.Equal(tokens, []int{1, 3, TokensUnknown, TokensUnknown, TokensUnknown}) || o.OutputTokens != 7 ||
		!o.Usage || o.InputTokens != 9 {
		t.Errorf("%v, %+v", tokens, o)
	}
}

func TestTokensAreFramesWithoutUsage(t *testing.T) {
	s := testserver.NewRaw(t, answer(chunkedHead, chunk(tokenFrame("a")+tokenFrame("b")+tokenFrame("c")),
		chunk(doneFrame), lastChunk))
	o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
	if o.Usage || o.OutputTokens != 3 || o.InputTokens != 0 || o.CoalescedReads != 1 {
		t.Errorf("%+v", o)
	}
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := newTestClient(t, Config{Endpoints: []string{"http://" + l.Addr().String()}})
	o := ask(t, c)
	for _, e := range []*Error{o.Err, checkError(t, c)} {
		if e == nil || e.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT || !strings.Contains(e.Message, "refused") {
			t.Errorf("%v", e)
		}
	}
	if o.Sent != 0 || o.Connected || o.HTTPStatus != 0 {
		t.Errorf("%+v", o)
	}
}

// A server that accepts a connection and never answers the TLS handshake runs into the connect timeout.
func TestConnectTimeout(t *testing.T) {
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	c := newTestClient(t, Config{Endpoints: []string{strings.Replace(s.URL, "http:", "https:", 1)},
		ConnectTimeout: 30 * time.Millisecond})
	for _, e := range []*Error{ask(t, c).Err, checkError(t, c)} {
		if e == nil || e.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT ||
			!strings.Contains(e.Message, "connect timeout after 30ms") {
			t.Errorf("%v", e)
		}
	}
}

func TestRequestTimeout(t *testing.T) {
	for name, tt := range map[string]struct{ before, message string }{
		"before the head":     {"", "no response received"},
		"before a token":      {chunkedHead + chunk(roleFrame), "no token received"},
		"among tokens":        {chunkedHead + chunk(tokenFrame("a")), "token frames received: 1"},
		"inside a large head": {"HTTP/1.1 200 OK\r\nX: y\r\n", "no response received"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				testserver.TakeRequest(r)
				io.WriteString(c, tt.before)
				io.Copy(io.Discard, r)
			})
			// On a busy machine the answer's beginning may come after the timeout: then a longer one is tried.
			for timeout := 60 * time.Millisecond; ; timeout *= 4 {
				o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}, RequestTimeout: timeout}))
				if o.Err == nil || o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_TIMEOUT ||
					o.End.Sub(o.Start) < timeout || o.Sent == 0 {
					t.Fatalf("%v, %+v", o.Err, o)
				}
				if strings.Contains(o.Err.Message, fmt.Sprintf("request timeout after %v; %s", timeout, tt.message)) {
					return
				}
				if timeout > 10*time.Second {
					t.Fatal(o.Err)
				}
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	for name, before := range map[string]string{"before the head": "", "among tokens": chunkedHead +
		chunk(tokenFrame("a"))} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				testserver.TakeRequest(r)
				io.WriteString(c, before)
				cancel()
				io.Copy(io.Discard, r)
			})
			c := newTestClient(t, Config{Endpoints: []string{s.URL}})
			var o Observation
			c.Do(ctx, Request{Body: body(c)}, &o)
			if !o.Cancelled || o.Err != nil || o.End == 0 {
				t.Errorf("%+v", o)
			}
		})
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := newTestClient(t, Config{Endpoints: []string{"http://127.0.0.1:1"}})
		var o Observation
		c.Do(ctx, Request{Body: body(c)}, &o)
		if !o.Cancelled || o.Err != nil || o.Sent != 0 {
			t.Errorf("%+v", o)
		}
	})
}

// If a server keeps a response open after [DONE], the connection is lost, but the request completes.
func TestResponseThatDoesNotEndAfterDone(t *testing.T) {
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		testserver.TakeRequest(r)
		io.WriteString(c, chunkedHead+chunk(tokenFrame("a"))+chunk(doneFrame))
		io.Copy(io.Discard, r)
	})
	o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
	if o.Err != nil || o.Cancelled || o.End != o.LastToken && o.End.Sub(o.LastToken) > drainWait {
		t.Errorf("%+v", o)
	}
}

func TestRefusalKeepsTheConnection(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	s := testserver.NewRaw(t, answer(fmt.Sprintf("HTTP/1.1 500 Internal Server Error\r\nContent-Length: %d\r\n\r\n%s",
		len(long), long)))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for i := range 3 {
		if o := ask(t, c); o.Connected != (i == 0) || o.Err == nil || len(o.Err.Message) != messageLimit {
			t.Fatalf("request %d: %+v", i, o)
		}
	}
}

// If a server answers before it has read the request, the client must still not read the caller's memory after Do.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		r.Peek(1)
		io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, r)
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	body := make([]byte, 8<<20)
	var o Observation
	c.Do(t.Context(), Request{Body: body}, &o)
	clear(body) // the race detector would report a reader
	if o.Err == nil || o.HTTPStatus != 503 && o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM {
		t.Errorf("%+v", o)
	}
}

func TestMessagesHoldNoSecrets(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "no such key: %s %s", r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
	}))
	defer s.Close()
	o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}, APIKey: "sk-very-secret",
		Headers: map[string]string{"X-Api-Key": "also-secret"}}))
	if o.Err == nil || strings.Contains(o.Err.Message, "secret") ||
		!strings.Contains(o.Err.Message, "no such key: Bearer *** ***") {
		t.Errorf("%v", o.Err)
	}
}

func TestTLS(t *testing.T) {
	a := testserver.NewAuthority(t)
	s := testserver.NewPeer(t, "127.0.0.1:0", true, true, a.Serves("127.0.0.1", later()),
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, tokenFrame("a"))
			w.(http.Flusher).Flush()
			io.WriteString(w, tokenFrame("b")+doneFrame)
			if r.ProtoMajor != 1 {
				t.Errorf("spoke %s", r.Proto)
			}
		})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}, Connection: wire.Settings{CA: a.PEM}})
	for i := range 3 {
		o := ask(t, c)
		if o.Err != nil || o.TokenFrames != 2 || o.Connected != (i == 0) || o.FirstByte < o.Start {
			t.Fatalf("request %d: %+v", i, o)
		}
		if times := []clock.Instant{o.Start, o.FirstByte, o.FirstToken, o.LastToken, o.End}; !slices.IsSorted(times) {
			t.Errorf("times out of order: %v", times)
		}
	}
	if e := c.Check(t.Context(), 0); e != nil {
		t.Errorf("check: %v", e)
	}
	stranger := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for _, e := range []*Error{ask(t, stranger).Err, checkError(t, stranger)} {
		if e == nil || e.Class != spatev1.ErrorClass_ERROR_CLASS_TLS || !strings.Contains(e.Message, "certificate") {
			t.Errorf("%v", e)
		}
	}
}

func TestTLSWithAPlainServer(t *testing.T) {
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) { io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n") })
	e := checkError(t, newTestClient(t, Config{Endpoints: []string{strings.Replace(s.URL, "http:", "https:", 1)}}))
	if e == nil || e.Class != spatev1.ErrorClass_ERROR_CLASS_TLS {
		t.Errorf("%v", e)
	}
}

// TestCheckEndsWithItsContext checks that a check whose context ends returns the context's error, which says nothing
// about the endpoint.
func TestCheckEndsWithItsContext(t *testing.T) {
	for name, tt := range map[string]struct {
		scheme string
		http2  bool
	}{
		"TLS":    {"https:", false},
		"HTTP/2": {"http:", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				_, _ = r.ReadByte() // the client now waits for an answer
				cancel()
				io.Copy(io.Discard, r)
			})
			c := newTestClient(t, Config{Endpoints: []string{strings.Replace(s.URL, "http:", tt.scheme, 1)},
				Connection: wire.Settings{HTTP2: tt.http2}})
			if err := c.Check(ctx, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled while it waits: %v", err)
			}
			if err := c.Check(ctx, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled before the start: %v", err)
			}
			over, end := context.WithDeadline(t.Context(), time.Now())
			defer end()
			if err := c.Check(over, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after the deadline: %v", err)
			}
		})
	}
}

func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	s := &httptest.Server{Listener: l,
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, tokenFrame("a")+doneFrame)
		})}}
	s.Start()
	defer s.Close()
	c := newTestClient(t, Config{Endpoints: []string{"http://" + l.Addr().String() + "/v1/"}})
	if e := c.Check(t.Context(), 0); e != nil {
		t.Error(e)
	}
	if o := ask(t, c); o.Err != nil || o.TokenFrames != 1 {
		t.Errorf("%+v", o)
	}
}

func TestClosedClient(t *testing.T) {
	c := newTestClient(t, Config{Endpoints: []string{"http://127.0.0.1:1"}})
	c.Close()
	for _, e := range []*Error{ask(t, c).Err, checkError(t, c)} {
		if e == nil || !strings.Contains(e.Message, "closed") {
			t.Errorf("%v", e)
		}
	}
}

// A usage without the prompt's tokens does not mean that there were none.
func TestUsageWithoutThePrompt(t *testing.T) {
	for name, usage := range map[string]string{"absent": `{"completion_tokens":7}`,
		"null": `{"prompt_tokens":null,"completion_tokens":7}`, "odd": `{"prompt_tokens":"x","completion_tokens":7}`} {
		s := testserver.NewRaw(t, answer(chunkedHead+chunk(tokenFrame("a"))+chunk(finishFrame)+
			chunk(`data: {"choices":[],"usage":`+usage+"}\n\n")+chunk(doneFrame)+lastChunk))
		if o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}})); o.Err != nil || o.Usage ||
			o.InputTokens != 0 || o.OutputTokens != 1 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
