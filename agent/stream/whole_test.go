package stream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestWholeRequests checks what requests for answers in one piece ask for, in each API, and that the answer is read as
// the API's servers send it.
func TestWholeRequests(t *testing.T) {
	paths := map[string]string{
		"tgi": "/generate", "triton": "/v2/models/m/generate", "bedrock": "/model/m/converse",
		"gemini": "/v1beta/models/m:generateContent",
	}
	for _, a := range registry.All {
		if a.NoOutput {
			continue
		}
		f := forms[a.Name]
		asked := false
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, other := paths[a.Name]
			if !other {
				path = a.Path
			}
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
			stream, given := body["stream"]
			_, options := body["stream_options"]
			asked = r.URL.Path == path && r.URL.RawQuery == "" && r.Header.Get("Accept") == "application/json" &&
				(stream == false || other && !given) && !options
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, f.whole)
		}))
		config := f.config
		config.API, config.Endpoints, config.Model, config.Whole, config.RunningUsage = a.Name, []string{s.URL}, "m", true, true
		c := newTestClient(t, config)
		var o Observation
		c.Do(t.Context(), Request{KeepAnswer: true, Body: c.AppendBody(nil, 8, func(dst []byte) []byte {
			return append(dst, `[]`...)
		})}, &o)
		s.Close()
		if !asked || o.Err != nil || !o.WholeAnswer || !o.WholeAsked || o.Streamed() || string(o.Answer) != "one two" ||
			o.Usage != f.usage || o.UncountedOutput == f.usage ||
			f.usage == (o.OutputTokens == 0) || o.End != o.LastToken {
			t.Errorf("%s: asked %v, %+v", a.Name, asked, o)
		}
	}
}

// TestWholeAnswersAsServersSendThem checks bodies of all framings and types, and servers that stream nevertheless.
func TestWholeAnswersAsServersSendThem(t *testing.T) {
	whole := forms["chat"].whole
	stream := forms["chat"].encode(forms["chat"].stream()...)
	for name, c := range map[string]struct {
		answer string // the response after the status line
		class  spatev1.ErrorClass
		whole  bool
	}{
		"length":        {answer: "Content-Type: application/json\r\n" + lengthHead(whole), whole: true},
		"chunked":       {answer: "Content-Type: application/json\r\n" + chunkHead(whole), whole: true},
		"until the end": {answer: "Connection: close\r\nContent-Type: application/json\r\n\r\n" + whole, whole: true},
		"type missing":  {answer: lengthHead(whole), whole: true},
		"type text":     {answer: "Content-Type: text/plain\r\n" + lengthHead(whole), whole: true},
		"stream":        {answer: "Content-Type: text/event-stream\r\n" + chunkHead(stream)},
		"stream of json": {answer: "Content-Type: application/json\r\n" + chunkHead(stream), whole: true,
			class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
		"cut": {answer: "Connection: close\r\nContent-Length: 999999\r\n\r\n" + whole, whole: true,
			class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM},
		"cut chunk": {answer: "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n" + whole, whole: true,
			class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM},
		"empty":     {answer: lengthHead(""), whole: true, class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
		"page":      {answer: lengthHead("<html>hello"), whole: true, class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
		"no tokens": {answer: lengthHead(`{"choices":[]}`), whole: true, class: spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT},
		"error":     {answer: lengthHead(`{"error":{"message":"no"}}`), whole: true, class: spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR},
		"too long": {answer: lengthHead(`{"choices":[{"message":{"content":"` + strings.Repeat("x", 2<<20) + `"}}]}`), whole: true,
			class: spatev1.ErrorClass_ERROR_CLASS_RUNAWAY},
	} {
		t.Run(name, func(t *testing.T) {
			s := testserver.NewRaw(t, func(conn net.Conn, r *bufio.Reader) {
				testserver.TakeRequest(r)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+c.answer)
			})
			o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}, Whole: true}))
			class := spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED
			if o.Err != nil {
				class = o.Err.Class
			}
			if class != c.class || o.WholeAnswer != c.whole || !o.WholeAsked || o.End == 0 {
				t.Errorf("%v: %+v", o.Err, o)
			}
			if o.Err == nil && (o.OutputTokens != 2 || !o.Usage) {
				t.Errorf("%d tokens, usage %v", o.OutputTokens, o.Usage)
			}
		})
	}
}

// lengthHead returns the rest of a response with a body of known length.
func lengthHead(body string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// chunkHead returns the rest of a response with a body in one chunk.
func chunkHead(body string) string {
	return "Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + lastChunk
}
