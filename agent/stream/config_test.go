package stream

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spate-load/spate/api/openai"
	"github.com/spate-load/spate/workload"
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

func TestBodies(t *testing.T) {
	text := func(dst []byte) []byte { return append(dst, `"one two"`...) }
	for name, tt := range map[string]struct {
		config Config
		want   string
	}{
		"chat": {Config{Model: "m"},
			`{"max_tokens":8,"messages":"one two","model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"completions": {Config{Model: "a<b", API: "completions"},
			`{"max_tokens":8,"model":"a<b","prompt":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"extra fields": {Config{Body: map[string]any{"ignore_eos": true, "temperature": 0.0, "a": []any{1.0, "x", nil},
			"stream_options": map[string]any{"z": 1, "b": "&"}}},
			`{"a":[1,"x",null],"ignore_eos":true,"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"b":"&","include_usage":true,"z":1},"temperature":0}`},
		"other length": {Config{Body: map[string]any{"max_completion_tokens": 5, "model": "other"}},
			`{"max_completion_tokens":5,"messages":"one two","model":"other","stream":true,"stream_options":{"include_usage":true}}`},
		"fixed length": {Config{API: "completions", Body: map[string]any{"max_tokens": 3}},
			`{"max_tokens":3,"model":"","prompt":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output": {Config{API: "completions", Prompts: "text", ExactOutput: true},
			`{"ignore_eos":true,"max_tokens":8,"min_tokens":8,"model":"","prompt":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, other minimum": {Config{ExactOutput: true, Body: map[string]any{"min_tokens": 1.0}},
			`{"ignore_eos":true,"max_tokens":8,"messages":"one two","min_tokens":1,"model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, fixed length": {Config{ExactOutput: true, Body: map[string]any{"max_completion_tokens": 3.0}},
			`{"ignore_eos":true,"max_completion_tokens":3,"messages":"one two","model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, but the body lets outputs end": {Config{ExactOutput: true,
			Body: map[string]any{"ignore_eos": false}},
			`{"ignore_eos":false,"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, body says so too": {Config{ExactOutput: true, Body: map[string]any{"ignore_eos": true}},
			`{"ignore_eos":true,"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"running usage": {Config{RunningUsage: true},
			`{"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`},
		"running usage of completions, but the body says none": {
			Config{API: "completions", RunningUsage: true,
				Body: map[string]any{"stream_options": map[string]any{"continuous_usage_stats": false}}},
			`{"max_tokens":8,"model":"","prompt":"one two","stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":true}}`},
		"running usage where there is none": {Config{API: "tgi", RunningUsage: true},
			`{"inputs":"one two","parameters":{"details":true,"max_new_tokens":8}}`},
		"no stream": {Config{Body: map[string]any{"stream": false}},
			`{"max_tokens":8,"messages":"one two","model":"","stream":false}`},
	} {
		tt.config.Endpoints = []string{"http://h"}
		c := newTestClient(t, tt.config)
		got := c.AppendBody([]byte("x"), 8, text)
		if string(got) != "x"+tt.want || !json.Valid(got[1:]) {
			t.Errorf("%s:\n got %s\nwant x%s", name, got, tt.want)
		}
	}
}

func TestForms(t *testing.T) {
	for _, tt := range []struct {
		api, prompts string
		want         workload.Form
	}{
		{"", "", workload.Messages}, {"chat", "token_ids", workload.Messages}, {"chat", "text", workload.Messages},
		{"completions", "", workload.TokenIDs}, {"completions", "token_ids", workload.TokenIDs},
		{"completions", "text", workload.Text},
	} {
		c := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: tt.api, Prompts: tt.prompts})
		if got := c.Form(); got != tt.want {
			t.Errorf("%s, %s: form %d, want %d", tt.api, tt.prompts, got, tt.want)
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

func TestMessagesAreClean(t *testing.T) {
	s := secretsOf(Config{APIKey: "sk-1234", Headers: map[string]string{"Authorization": "Basic abcdef",
		"X-Auth": "sk-1234-long", "Host": "example", "X-Key": "1"}})
	for message, want := range map[string]string{
		"bad sk-1234-long and sk-1234.": "bad *** and ***.",
		"Basic abcdef, abcdef":          "***, ***",
		"example 1\r\n\t\xff":           "example 1 \ufffd",
		strings.Repeat("é", 400):        strings.Repeat("é", 256),
		"x" + strings.Repeat("é", 400):  "x" + strings.Repeat("é", 255),
	} {
		if got := s.clean(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
