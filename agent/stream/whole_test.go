package stream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
		if a.NoOutput || a.Check != nil {
			continue
		}
		f := forms[a.Name]
		asked := false
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, other := paths[a.Name]
			if !other {
				path = a.Version + a.Path
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
			t.Errorf("%s: asked %v (by stream in Defaults, or a WholePath that paths here has), %+v", a.Name, asked, o)
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

// numbered returns n words, numbered from an offset, as a part of a text.
func numbered(from, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = "w" + strings.Repeat("x", (from+i)%7)
	}
	return strings.Join(all, " ")
}

// TestPoolingRequests checks the body of requests to pooling models, and answers as vLLM 0.32, Jina, Cohere and TEI
// document them.
func TestPoolingRequests(t *testing.T) {
	query, first, second := numbered(0, 16), numbered(16, 128), numbered(144, 5)
	long := query + " " + first + " " + second
	documents := []any{first, second}
	for name, c := range map[string]struct {
		api, prompts, path, text, prompt string
		body                             map[string]any
		answer                           string
		tokens                           uint64 // 0: not reported
	}{
		"embeddings": {api: "embeddings", path: "/v1/embeddings", text: "a b",
			body:   map[string]any{"model": "m", "input": "a b", "encoding_format": "float"},
			answer: `{"id":"embd-1","object":"list","created":1,"model":"m","data":[{"index":0,"object":"embedding","embedding":[0.25,-1e-3]}],"usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0,"prompt_tokens_details":null}}`,
			tokens: 4},
		"embeddings of ids": {api: "embeddings", prompts: "token_ids", path: "/v1/embeddings", prompt: "[1,2]",
			body:   map[string]any{"model": "m", "input": []any{1.0, 2.0}, "encoding_format": "float"},
			answer: `{"object":"list","data":[{"index":0,"embedding":"AACAPw=="}],"usage":{"prompt_tokens":2,"total_tokens":2}}`,
			tokens: 2},
		"TEI": {api: "tei", path: "/embed", text: "a b", body: map[string]any{"inputs": "a b"},
			answer: ` [[0.25,-0.5],[1,2]]`},
		"Cohere": {api: "cohere_embed", path: "/v2/embed", text: `a "b`,
			body: map[string]any{"model": "m", "texts": []any{`a "b`}, "input_type": "search_document",
				"embedding_types": []any{"float"}},
			answer: `{"id":"1","embeddings":{"float":[[0.25]]},"texts":["a"],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":3}},"response_type":"embeddings_by_type"}`,
			tokens: 3},
		"embeddings of texts": {api: "embeddings", path: "/v1/embeddings", prompt: `["a b","c"]`,
			body:   map[string]any{"model": "m", "input": []any{"a b", "c"}, "encoding_format": "float"},
			answer: `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}],"usage":{"prompt_tokens":5,"total_tokens":5}}`,
			tokens: 5},
		"Cohere, texts": {api: "cohere_embed", path: "/v2/embed", prompt: `["a, b","c"]`,
			body: map[string]any{"model": "m", "texts": []any{"a, b", "c"}, "input_type": "search_document",
				"embedding_types": []any{"float"}},
			answer: `{"id":"1","embeddings":{"float":[[0.25],[0.5]]}}`},
		"rerank, texts": {api: "rerank", path: "/v1/rerank", prompt: `["` + query + ` rest, \"of it","` + query + `"]`,
			body:   map[string]any{"model": "m", "query": query, "documents": []any{`rest, "of it`, query}},
			answer: `{"results":[{"index":0,"relevance_score":0.9}]}`},
		"score, a short text": {api: "score", path: "/score", prompt: `["a b"]`,
			body:   map[string]any{"model": "m", "text_1": "a b", "text_2": []any{"a b"}},
			answer: `{"data":[{"index":0,"score":1.0}]}`},
		"rerank by vLLM": {api: "rerank", path: "/v1/rerank", text: long,
			body:   map[string]any{"model": "m", "query": query, "documents": documents},
			answer: `{"id":"rerank-1","model":"m","usage":{"prompt_tokens":160,"total_tokens":160},"results":[{"index":0,"document":{"text":"a","multi_modal":null},"relevance_score":0.9}]}`,
			tokens: 160},
		"rerank by Jina": {api: "rerank", path: "/v1/rerank", text: "a b",
			body:   map[string]any{"model": "m", "query": "a b", "documents": []any{"a b"}},
			answer: `{"model":"jina-reranker-v2-base-multilingual","object":"list","usage":{"total_tokens":17},"results":[{"index":0,"relevance_score":0.9}]}`,
			tokens: 17},
		"rerank by Cohere": {api: "cohere_rerank", path: "/v2/rerank", text: long,
			body:   map[string]any{"model": "m", "query": query, "documents": documents},
			answer: `{"id":"1","results":[{"index":0,"relevance_score":0.9}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`},
		"score": {api: "score", path: "/score", text: long,
			body:   map[string]any{"model": "m", "text_1": query, "text_2": documents},
			answer: `{"id":"embd-1","object":"list","created":1,"model":"m","data":[{"index":0,"object":"score","score":1.0}],"usage":{"prompt_tokens":165,"total_tokens":165,"completion_tokens":0}}`,
			tokens: 165},
	} {
		t.Run(name, func(t *testing.T) {
			type asked struct {
				path string
				body map[string]any
			}
			requests := make(chan asked, 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				q := asked{path: r.URL.Path}
				if err := json.NewDecoder(r.Body).Decode(&q.body); err != nil {
					t.Error(err)
				}
				requests <- q
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, c.answer)
			}))
			defer s.Close()
			client := newTestClient(t, Config{Endpoints: []string{s.URL}, API: c.api, Prompts: c.prompts, Model: "m",
				Whole: true})
			prompt := c.prompt
			if prompt == "" {
				quoted, _ := json.Marshal(c.text)
				prompt = string(quoted)
			}
			var o Observation
			client.Do(t.Context(), Request{Body: client.AppendBody(nil, 8, func(dst []byte) []byte {
				return append(dst, prompt...)
			})}, &o)
			sent := <-requests
			got, _ := json.Marshal(sent.body)
			want, _ := json.Marshal(c.body)
			if sent.path != c.path || string(got) != string(want) {
				t.Errorf("asked %s for\n%s, want\n%s", sent.path, got, want)
			}
			if o.Err != nil || !o.WholeAnswer || o.Streamed() || !o.UncountedOutput || o.OutputTokens != 0 ||
				o.Usage != (c.tokens > 0) || o.InputTokens != c.tokens || o.LastToken != o.End {
				t.Errorf("%+v", o)
			}
			isl, osl := uint32(9), uint32(8)
			if client.Lengths(&isl, &osl); osl != 0 || (isl == 0) != strings.HasSuffix(c.api, "rerank") && c.api != "score" {
				t.Errorf("asks for lengths of %d and %d", isl, osl)
			}
		})
	}
}

// TestPoolingFaults checks answers that have nothing in them, that are errors, or that are not of the API.
func TestPoolingFaults(t *testing.T) {
	const empty, failed, bad = spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT, spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR,
		spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME
	for answer, want := range map[string]map[string]spatev1.ErrorClass{
		`{"data":[],"usage":{"prompt_tokens":1}}`: {"embeddings": empty, "tei": empty},
		`{"error":{"message":"no","type":"x"}}`:   {"embeddings": failed, "tei": failed, "rerank": failed},
		`{"error":"too long","error_type":"x"}`:   {"tei": failed},
		`[]`:                                      {"tei": empty, "embeddings": bad},
		`[[]]`:                                    {"tei": empty},
		`[[0.1,`:                                  {"tei": bad},
		`"text"`:                                  {"tei": bad, "score": bad},
		`{"results":[]}`:                          {"rerank": empty, "cohere_rerank": empty},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, answer)
		}))
		for apiName, class := range want {
			client := newTestClient(t, Config{Endpoints: []string{s.URL}, API: apiName, Model: "m", Whole: true})
			var o Observation
			client.Do(t.Context(), Request{Body: []byte(`{}`)}, &o)
			if o.Err == nil || o.Err.Class != class {
				t.Errorf("%s, %s: %v, want %v", apiName, answer, o.Err, class)
			}
		}
		s.Close()
	}
}

// TestRecordedAnswers plays answers that were recorded from real servers, byte by byte as they came. The name of a file
// begins with the server.
func TestRecordedAnswers(t *testing.T) {
	for file, want := range map[string]struct {
		api                                string
		input, output, cached, tokenFrames uint64
		textBytes                          uint64 // as encoded in JSON
		finish                             string
	}{
		"litellm-anthropic-tool.sse":  {"anthropic", 1, 5, 0, 5, 31, "tool_use"},
		"litellm-anthropic-tool.json": {"anthropic", 1, 5, 0, 1, 25, "tool_use"},
		// transformers serve 5.24: no [DONE], usage beside a choice; responses that were cut are "completed".
		"transformers-chat.sse":      {"chat", 11, 6, 0, 6, 36, "length"},
		"transformers-responses.sse": {"responses", 11, 6, 0, 6, 35, "completed"},
	} {
		t.Run(file, func(t *testing.T) {
			answer, err := os.ReadFile(filepath.Join("testdata", "recorded", file))
			if err != nil {
				t.Fatal(err)
			}
			whole := filepath.Ext(file) == ".json"
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if w.Header().Set("Content-Type", "text/event-stream"); whole {
					w.Header().Set("Content-Type", "application/json")
				}
				_, _ = w.Write(answer)
			}))
			defer s.Close()
			o := ask(t, newTestClient(t, Config{
				API: want.api, Endpoints: []string{s.URL}, Model: "m", Whole: whole, Prompts: "text",
			}))
			if o.Err != nil || o.InputTokens != want.input || o.OutputTokens != want.output || !o.Usage ||
				o.CachedTokens != want.cached || o.TokenFrames != want.tokenFrames || o.TextBytes != want.textBytes ||
				o.FinishReason != want.finish || o.Undecided {
				o.Calls, o.Answer = nil, nil
				t.Errorf("%v: %+v", o.Err, o)
			}
		})
	}
}
