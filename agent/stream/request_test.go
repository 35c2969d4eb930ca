package stream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

func TestEndpointURLs(t *testing.T) {
	for base, want := range map[string]string{
		"http://h":                        "http://h/v1/chat/completions",
		"http://h/":                       "http://h/v1/chat/completions",
		"http://h:8000/v1":                "http://h:8000/v1/chat/completions",
		"http://h/v1/":                    "http://h/v1/chat/completions",
		"https://h/prefix":                "https://h/prefix/v1/chat/completions",
		"https://h/prefix/v1/":            "https://h/prefix/v1/chat/completions",
		"http://h/v1/chat/completions":    "http://h/v1/chat/completions",
		"http://h/v1/chat/completions/":   "http://h/v1/chat/completions",
		"http://[::1]:8000/v1?version=2#": "http://[::1]:8000/v1/chat/completions?version=2",
		"https://h/v3":                    "https://h/v3/chat/completions",
		"https://h/v1beta/openai/":        "https://h/v1beta/openai/chat/completions",
		"https://h/api/paas/v4":           "https://h/api/paas/v4/chat/completions",
		"https://h/v1/proj/v1":            "https://h/v1/proj/v1/chat/completions",
		"https://h/openai/deployments/d/?api-version=2024": "https://h/openai/deployments/d/chat/completions?api-version=2024",
		"https://h/proxy/chat/completions":                 "https://h/proxy/chat/completions",
	} {
		u, err := endpointOf(base, &registry.Chat, "m")
		if err != nil || u.String() != want {
			t.Errorf("%s: %v, %v, want %s", base, u, err, want)
		}
	}
	if u, err := endpointOf("http://h/v1", &registry.Completions, "m"); err != nil ||
		u.String() != "http://h/v1/completions" {
		t.Errorf("completions: %v, %v", u, err)
	}
}

func TestInvalidConfigs(t *testing.T) {
	ok := "http://h"
	for want, c := range map[string]Config{
		"no endpoint":              {},
		"endpoint 1: ftp://h":      {Endpoints: []string{ok, "ftp://h"}},
		"has no host":              {Endpoints: []string{"http://:80"}},
		"not a valid URL":          {Endpoints: []string{"http://u:hunter2@h:port"}},
		"contains a password":      {Endpoints: []string{"http://u:hunter2@h"}},
		`api "grpc"`:               {Endpoints: []string{ok}, API: "grpc"},
		`prompts "ids"`:            {Endpoints: []string{ok}, API: "completions", Prompts: "ids"},
		"the API key contains":     {Endpoints: []string{ok}, APIKey: "hunter2\n"},
		`header "a b"`:             {Endpoints: []string{ok}, Headers: map[string]string{"a b": "hunter2"}},
		`header "X"`:               {Endpoints: []string{ok}, Headers: map[string]string{"X": "hunter2\r\n"}},
		`body field "messages"`:    {Endpoints: []string{ok}, Body: map[string]any{"messages": 1}},
		`body field "temperature"`: {Endpoints: []string{ok}, Body: map[string]any{"temperature": make(chan int)}},
	} {
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestRequestOnTheWire(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Header.Set("Body", string(b))
		got <- r
	}))
	defer s.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c := newTestClient(t, Config{Endpoints: []string{s.URL}, APIKey: "k1",
		Headers: map[string]string{"host": "elsewhere", "x-team": "a", "user-agent": "other", "Idempotency-Key": "1"}})
	ask(t, c)
	r := <-got
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.Host != "elsewhere" {
		t.Errorf("%s %s of %s", r.Method, r.URL, r.Host)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Accept": "text/event-stream", "Authorization": "Bearer k1",
		"User-Agent": "other", "X-Team": "a",
		"X-Request-Id": "r1", "Accept-Encoding": "", "Body": string(body(c)),
	} {
		if v := r.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if c.headers.Get("X-Request-Id") != "" {
		t.Error("one request's id is in all")
	}
}

// Each request is a trace of its own, unless the plan sets the header or leaves it out.
func TestTraceparent(t *testing.T) {
	const id, own = "73d8c464-0003-4002-8000-00000000002a", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, tt := range map[string]struct {
		headers map[string]string
		want    string
	}{
		"by itself":   {nil, "00-73d8c464000340028000000000000" + "02a-800000000000002a-01"},
		"of the plan": {map[string]string{"traceparent": own}, own},
		"none":        {map[string]string{"Traceparent": ""}, ""},
	} {
		for _, http2 := range []bool{false, true} {
			got := make(chan []string, 1)
			p := testserver.NewPeer(t, "127.0.0.1:0", !http2, http2, nil, func(w http.ResponseWriter, r *http.Request) {
				got <- r.Header.Values("Traceparent")
				_, _ = io.WriteString(w, testserver.TokenFrame("a"))
			})
			c := newTestClient(t, Config{Endpoints: []string{p.URL}, Headers: tt.headers,
				Connection: wire.Settings{HTTP2: http2}})
			var o Observation
			if c.Do(t.Context(), Request{ID: id, Body: body(c)}, &o); len(got) == 0 {
				t.Fatal(o.Err)
			}
			if all := strings.Join(<-got, ","); all != tt.want {
				t.Errorf("%s, HTTP/2 %v: %q, want %q", name, http2, all, tt.want)
			}
		}
	}
}

func TestDialectURLs(t *testing.T) {
	for apiName, path := range map[string]string{
		"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses",
		"anthropic": "/v1/messages",
		"sglang":    "/generate", "tgi": "/generate_stream", "triton": "/v2/models/en%2Fs%20emble/generate_stream",
	} {
		bases := []string{"", "/", "/v1", "/v1/", path}
		if !strings.HasPrefix(path, "/v1/") {
			bases = append(bases, "/v2")
		}
		for _, base := range bases {
			for _, prefix := range []string{"", "/a", "/a%2Fb"} {
				c := newTestClient(t, Config{Endpoints: []string{"http://h:1" + prefix + base}, API: apiName,
					Model: "en/s emble"})
				if got := c.endpoints[0].String(); got != "http://h:1"+prefix+path {
					t.Errorf("%s, %s%s: %s", apiName, prefix, base, got)
				}
				if got := c.at(0, "/v1/models").String(); got != "http://h:1"+prefix+"/v1/models" {
					t.Errorf("%s, %s%s: models at %s", apiName, prefix, base, got)
				}
				if got := c.at(0, "/tokenize").String(); got != "http://h:1"+prefix+"/tokenize" {
					t.Errorf("%s, %s%s: tokenize at %s", apiName, prefix, base, got)
				}
			}
		}
	}
}

// Bedrock's models have colons in their names. Gemini's path has a version, unless the endpoint's URL has one.
func TestCloudURLs(t *testing.T) {
	for _, tt := range []struct{ api, base, model, want, asked string }{
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "anthropic.claude-v1:0",
			"https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v1%3A0/converse-stream", "/x"},
		{"bedrock", "http://h/a/model/m/converse-stream", "m", "http://h/a/model/m/converse-stream", "/a/x"},
		{"gemini", "https://h", "gemini-2.5-pro",
			"https://h/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "/v1beta/x"},
		{"gemini", "https://h/v1beta/models/m:streamGenerateContent", "m",
			"https://h/v1beta/models/m:streamGenerateContent?alt=sse", "/v1beta/x"},
		{"gemini", "https://h/v1/projects/p/locations/l/publishers/google", "m",
			"https://h/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse",
			"/v1/projects/p/locations/l/publishers/google/x"},
	} {
		c := newTestClient(t, Config{Endpoints: []string{tt.base}, API: tt.api, Model: tt.model})
		if got := c.endpoints[0].String(); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.api, tt.base, got, tt.want)
		}
		if got := c.at(0, c.dialect.Version+"/x").RequestURI(); got != tt.asked {
			t.Errorf("%s, %s: a question goes to %s, want %s", tt.api, tt.base, got, tt.asked)
		}
	}
	vertex := Config{Endpoints: []string{"https://h/v1/projects/p/locations/l/publishers/google"}, API: "gemini",
		Model: "m", APIKey: "k"}
	if h := newTestClient(t, vertex).headers; h.Get("Authorization") != "Bearer k" || h.Get("X-Goog-Api-Key") != "" {
		t.Errorf("a key for Vertex AI is sent as %v", h)
	}
}

func TestDialectHeaders(t *testing.T) {
	for _, apiName := range registry.Names() {
		h := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: apiName, APIKey: "k"}).headers
		want := http.Header{"Authorization": {"Bearer k"}}
		switch apiName {
		case "anthropic":
			want = http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}
		case "gemini":
			want = http.Header{"X-Goog-Api-Key": {"k"}}
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Anthropic-Version"} {
			if h.Get(name) != want.Get(name) {
				t.Errorf("%s: %s is %q", apiName, name, h.Get(name))
			}
		}
	}
	h := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: "anthropic",
		Headers: map[string]string{"anthropic-version": "2099-01-01"}}).headers
	if h.Get("Anthropic-Version") != "2099-01-01" || h.Get("X-Api-Key") != "" {
		t.Errorf("%v", h)
	}
}

// lastConn remembers the connection of a client's last request.
type lastConn struct {
	wire.User
	conn *wire.Conn
}

// watchConns makes a client remember its connections.
func watchConns(c *Client) *lastConn {
	last := new(lastConn)
	c.send = func(ctx context.Context, q *wire.Outgoing, user wire.User) (*http.Response, error) {
		last.User = user
		return c.pool.RoundTrip(ctx, q, last)
	}
	return last
}

// GotConn implements wire.User.
func (l *lastConn) GotConn(c *wire.Conn, reused bool) *wire.RequestIO {
	l.conn = c
	return l.User.GotConn(c, reused)
}

// A kept connection that ends before a byte of the next request is written fails no request.
func TestKeptConnectionThatEndedWhileIdle(t *testing.T) {
	s := testserver.NewRaw(t, answer(chunkedHead, chunk(tokenFrame("a")), chunk(doneFrame), lastChunk))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	last := watchConns(c)
	var o Observation
	for i := range 300 {
		c.Do(t.Context(), Request{Body: body(c)}, &o)
		if o.Err != nil {
			t.Fatalf("request %d: %v", i, o.Err)
		}
		if i%3 == 0 {
			continue // so that some connections are kept
		}
		last.conn.Socket.Close()
	}
}

// A kept connection that ends before a byte of the answer costs one more try, on a new connection. An answer that has
// begun, and a new connection, have no second try.
func TestASecondTryNeedsAKeptConnectionAndNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		second string // what the server answers to the second request of a connection before it closes it
		failed bool
	}{
		"no answer":        {"", false},
		"part of the head": {"HTTP/1.1 2", true},
		"part of a stream": {chunkedHead + chunk(tokenFrame("a")), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				if testserver.TakeRequest(r) {
					io.WriteString(c, chunkedHead+chunk(tokenFrame("a"))+chunk(doneFrame)+lastChunk)
				}
				if testserver.TakeRequest(r) {
					io.WriteString(c, tt.second)
				}
			})
			c := newTestClient(t, Config{Endpoints: []string{s.URL}})
			var o Observation
			for i := range 4 {
				c.Do(t.Context(), Request{Body: body(c)}, &o)
				kept := i%2 == 1 || i > 0 && !tt.failed
				if (o.Err != nil) != (kept && tt.failed) || o.Reconnected != (kept && !tt.failed) ||
					o.Connected == (kept && tt.failed) {
					t.Errorf("request %d: %v, reconnected %t, connected %t", i, o.Err, o.Reconnected, o.Connected)
				}
			}
		})
	}
	s := testserver.NewRaw(t, func(_ net.Conn, r *bufio.Reader) { testserver.TakeRequest(r) })
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var o Observation
	c.Do(t.Context(), Request{Body: body(c)}, &o)
	if o.Err == nil || o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM || o.Reconnected {
		t.Errorf("on a new connection: %v, reconnected %t", o.Err, o.Reconnected)
	}
}

// A server closes connections between responses, before, during or after the next request. No request fails, and none
// reaches it twice.
func TestConnectionsThatEndBetweenRequests(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		q, err := http.ReadRequest(r)
		for n := 0; err == nil; n++ {
			io.Copy(io.Discard, q.Body)
			id := q.Header.Get("X-Request-Id")
			mu.Lock()
			seen[id]++
			mu.Unlock()
			io.WriteString(c, chunkedHead+chunk(tokenFrame("a"))+chunk(doneFrame)+lastChunk)
			if id[len(id)-1] < '4' && n > 0 {
				return
			}
			q, err = http.ReadRequest(r)
		}
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			var o Observation
			for i := range 250 {
				c.Do(t.Context(), Request{ID: strconv.Itoa(1000*g + i), Body: body(c)}, &o)
				if o.Err != nil || o.Reconnected && !o.Connected {
					t.Errorf("%v, reconnected %t, connected %t", o.Err, o.Reconnected, o.Connected)
				}
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 250 {
		t.Errorf("only %d requests were seen", len(seen))
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("request %s was seen %d times", id, n)
		}
	}
}

// Once a request has ended, its body belongs to the caller again, even if something still writes the first attempt.
func TestBodyOfAnAbandonedAttempt(t *testing.T) {
	c := newTestClient(t, Config{Endpoints: []string{"http://127.0.0.1:1"}})
	var bodies []io.Reader
	c.send = func(_ context.Context, q *wire.Outgoing, user wire.User) (*http.Response, error) {
		bodies = append(bodies, q.Body)
		user.GotConn(&wire.Conn{}, len(bodies) == 1) // first a kept connection, then a new one
		return nil, io.EOF
	}
	ask(t, c)
	if len(bodies) != 2 {
		t.Fatalf("%d attempts", len(bodies))
	}
	for i, b := range bodies {
		if n, _ := b.Read(make([]byte, 1)); n > 0 {
			t.Errorf("attempt %d still reads the caller's memory", i)
		}
	}
}

// A connection that was closed while idle fails no request.
func TestKeptConnectionThatEndedByHTTP2(t *testing.T) {
	p := testserver.NewPeer(t, "127.0.0.1:0", false, true, nil, reply)
	c := newTestClient(t, Config{Endpoints: []string{p.URL}, Connection: wire.Settings{HTTP2: true}})
	last := watchConns(c)
	for i := range 100 {
		if o := ask(t, c); o.Err != nil {
			t.Fatalf("request %d: %v", i, o.Err)
		}
		last.conn.Socket.Close()
	}
}

// The answers of engines and gateways, shortened: vLLM 0.32 with running usage, LiteLLM 1.106 before it, Dynamo 1.6's
// error, and others.
var trials = map[string]struct {
	api, header, answer string
	want                TrialResult
	fails               string
}{
	"vLLM": {"chat", "", `data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":12,"completion_tokens":0}}

data: {"choices":[{"delta":{"content":" fileno"}}],"usage":{"prompt_tokens":12,"completion_tokens":1}}

data: {"choices":[{"delta":{"content":" base"},"finish_reason":"length"}],"usage":{"prompt_tokens":12,"completion_tokens":2}}

data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2},"system_fingerprint":"vllm-0.32.0-392f7c81"}

data: [DONE]
`, TrialResult{Output: 2, Running: true, Software: []string{"vLLM 0.32.0"}}, ""},
	"LiteLLM": {"chat", "1.106.2", `data: {"choices":[{"delta":{"content":"ild"}}]}

data: {"choices":[{"delta":{},"finish_reason":"length"}],"system_fingerprint":"vllm-0.32.0-392f7c81"}

data: {"choices":[{"delta":{}}],"usage":{"completion_tokens":4,"prompt_tokens":23},"system_fingerprint":"vllm-0.32.0-392f7c81"}

data: [DONE]
`, TrialResult{Output: 4, Software: []string{"LiteLLM 1.106.2", "vLLM 0.32.0"}}, ""},
	"responses": {"responses", "",
		`data: {"type":"response.completed","response":{"usage":{"output_tokens":3},"error":null},"error":null}` + "\n",
		TrialResult{Output: 3}, ""},
	"anthropic": {"anthropic", "",
		"event: message_delta\r\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":11,\"output_tokens\":3}}\r\n",
		TrialResult{Output: 3}, ""},
	"an event of two lines": {"chat", "", "data: {\"choices\":[],\ndata: \"usage\":{\"completion_tokens\":5}}\n\n",
		TrialResult{Output: 5}, ""},
	"in one piece": {"completions", "", `{"choices":[{"text":"a"}],"usage":{"completion_tokens":16}}`,
		TrialResult{Output: 16}, ""},
	"an error": {"chat", "", `data: {"error":{"message":"CUDA out of memory"}}`, TrialResult{},
		"the answer is an error: CUDA out of memory"},
	"a web page": {"chat", "", "\n<!DOCTYPE html><title>Welcome</title>", TrialResult{},
		"it is a web page (HTML), so the URL is not that of an API"},
	"nothing": {"chat", "", "", TrialResult{}, "neither a stream of events nor JSON"},
}

func TestTry(t *testing.T) {
	for name, tt := range trials {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Litellm-Version"] = []string{tt.header}
			_, _ = io.WriteString(w, tt.answer)
		}))
		c := newTestClient(t, Config{Endpoints: []string{server.URL}, API: tt.api, Model: "m"})
		got, err := c.Try(t.Context(), 0, TrialRequest{Text: "hi", Tokens: 4})
		failed := tt.fails != "" && err != nil && strings.Contains(err.Error(), tt.fails)
		if got.Output != tt.want.Output || got.Running != tt.want.Running ||
			!slices.Equal(got.Software, tt.want.Software) || (err != nil) != failed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		server.Close()
	}
}

func TestTrialBodies(t *testing.T) {
	body := map[string]any{"temperature": 0.0, "max_completion_tokens": 9.0, "ignore_eos": true, "n": 1.0,
		"stream_options": map[string]any{"x": 1.0}}
	for name, tt := range map[string]struct {
		api     string
		request TrialRequest
		want    string
	}{
		"plain": {"chat", TrialRequest{},
			`{"max_tokens":4,"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		"exact, running": {"chat", TrialRequest{Exact: true, Running: true},
			`{"ignore_eos":true,"max_tokens":4,"messages":[{"content":"hi","role":"user"}],"min_tokens":4,"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"temperature":0}`},
		"bad ignore_eos": {"completions", TrialRequest{BadField: "ignore_eos"},
			`{"ignore_eos":"spate","max_tokens":4,"model":"m","prompt":"hi","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		"bad min_tokens": {"chat", TrialRequest{BadField: "min_tokens"},
			`{"max_tokens":4,"messages":[{"content":"hi","role":"user"}],"min_tokens":"spate","model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		"responses": {"responses", TrialRequest{Exact: true, Running: true},
			`{"ignore_eos":true,"input":[{"content":"hi","role":"user"}],"max_completion_tokens":9,"max_output_tokens":4,"model":"m","store":false,"stream":true,"temperature":0}`},
	} {
		c := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: tt.api, Model: "m", Body: body})
		tt.request.Text, tt.request.Tokens = "hi", 4
		got, err := c.TrialBody(tt.request)
		if err != nil || !sameJSON(t, string(got), tt.want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if body["ignore_eos"] != true || body["n"] != 1.0 {
		t.Error("the plan's body was changed")
	}
}

// TestTryTheSimulator: the simulator accepts what Try asks for, and refuses a value of a wrong type.
func TestTryTheSimulator(t *testing.T) {
	server, err := simulator.Start(config.Default(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(t.Context())
	endpoints := server.URLs()
	for _, api := range []string{"chat", "completions", "responses", "anthropic"} {
		c := newTestClient(t, Config{Endpoints: endpoints, API: api, Model: "m"})
		a := TrialRequest{Text: "hi", Tokens: 16, Exact: true, Running: true}
		got, err := c.Try(t.Context(), 0, a)
		if running := api == "chat" || api == "completions"; err != nil || got.Output != 16 || got.Running != running {
			t.Errorf("%s: %+v, %v", api, got, err)
		}
		a.BadField = "ignore_eos"
		if _, err := c.Try(t.Context(), 0, a); !Refused(err) || Unreachable(err) || statusOf(err) != 400 {
			t.Errorf("%s: a wrong type was taken: %v", api, err)
		}
	}
	if err := server.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, Config{Endpoints: endpoints})
	if _, err := c.Try(t.Context(), 0, TrialRequest{Text: "hi", Tokens: 1}); Refused(err) || !Unreachable(err) {
		t.Errorf("no listener: %v", err)
	}
}
