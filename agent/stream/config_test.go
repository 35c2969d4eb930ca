package stream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spate-load/spate/api/openai"
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
	} {
		u, err := endpointOf(base, &openai.Chat, "m")
		if err != nil || u.String() != want {
			t.Errorf("%s: %v, %v, want %s", base, u, err, want)
		}
	}
	if u, err := endpointOf("http://h/v1", &openai.Completions, "m"); err != nil ||
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
