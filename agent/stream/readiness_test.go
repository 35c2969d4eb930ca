package stream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A server is ready by what it answers: to its models and a short request if the plan does not wait, to the request
// alone if it does, and to the plan's path if there is one.
func TestReady(t *testing.T) {
	const models, chat, health = "GET /v1/models", "POST /v1/chat/completions", "GET /health"
	for name, tt := range map[string]struct {
		ready  *spatev1.Ready
		status map[string]int // by method and path; 404 for others
		want   string         // part of the error; "": it is ready
		asked  []string
	}{
		"lists another model":                  {nil, map[string]int{models: 200, chat: 404}, "POST /v1/chat/completions: 404", []string{models, chat}},
		"lists another model, a simulator":     {nil, map[string]int{models: 200, chat: 500}, "", []string{models}},
		"lists another model, serves this one": {nil, map[string]int{models: 200, chat: 200}, "", []string{models, chat}},
		"lists models":                         {nil, map[string]int{models: 200, chat: 500}, "", []string{models}},
		"lists no models":                      {nil, map[string]int{chat: 200}, "", []string{models, chat}},
		"wants a key":                          {nil, map[string]int{models: 401, chat: 401}, "401", []string{models, chat}},
		"wants one to list models":             {nil, map[string]int{models: 401, chat: 200}, "", []string{models, chat}},
		"waits for no key":                     {&spatev1.Ready{}, map[string]int{chat: 401}, "", []string{chat}},
		"serves nothing":                       {nil, nil, "POST /v1/chat/completions: 404", []string{models, chat}},
		"loads":                                {nil, map[string]int{models: 503, chat: 503}, "503", []string{models, chat}},
		"lists models, still loads":            {&spatev1.Ready{}, map[string]int{models: 200, chat: 503}, "503", []string{chat}},
		"refuses the short request":            {&spatev1.Ready{}, map[string]int{chat: 400}, "", []string{chat}},
		"answers":                              {&spatev1.Ready{}, map[string]int{chat: 200}, "", []string{chat}},
		"is healthy":                           {&spatev1.Ready{Path: "/health"}, map[string]int{health: 200}, "", []string{health}},
		"has no health":                        {&spatev1.Ready{Path: "/health"}, nil, "404", []string{health}},
		"another status":                       {&spatev1.Ready{Path: "/health", Status: 204}, map[string]int{health: 204}, "", []string{health}},
		"not that status": {&spatev1.Ready{Path: "/health", Status: 204}, map[string]int{health: 200}, "200 OK, want 204",
			[]string{health}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, r.Method+" "+r.URL.Path)
				status := tt.status[r.Method+" "+r.URL.Path]
				if status == 0 {
					status = http.StatusNotFound
				}
				w.WriteHeader(status)
				if r.Method == http.MethodGet && strings.Contains(name, "another model") {
					owner := map[bool]string{true: OwnSimulator, false: "vllm"}[strings.Contains(name, "simulator")]
					_, _ = io.WriteString(w, `{"data": [{"id": "another", "owned_by": "`+owner+`"}]}`)
				}
			}))
			defer s.Close()
			c := newTestClient(t, Config{Endpoints: []string{s.URL}})
			err := c.Ready(t.Context(), 0, tt.ready)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %v, want %v", asked, tt.asked)
			}
		})
	}
}

// Nothing listens, or something accepts connections and closes them, as Docker's proxy does for a container that is
// still starting.
func TestNotReadyWithoutAnswer(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	closing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer closing.Close()
	for _, url := range []string{gone.URL, closing.URL} {
		c := newTestClient(t, Config{Endpoints: []string{url}})
		for _, r := range []*spatev1.Ready{nil, {}, {Path: "/health"}} {
			if err := c.Ready(t.Context(), 0, r); !Unanswered(err) {
				t.Errorf("%v: %v", r, err)
			}
		}
	}
}
