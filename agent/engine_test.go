package agent

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// engine is a small streaming server: each answer has two tokens, with a delay before the first. A chat is answered
// with "<ID>", where ID is the request's ID.
type engine struct {
	*httptest.Server
	delay  time.Duration
	status int            // 0: 200
	most   int            // max_model_len that it reports; 0: none
	fails  map[string]int // statuses of single requests, by ID
	keep   bool           // keeps the bodies
	counts bool           // its /metrics report how many requests it has answered

	mu     sync.Mutex
	ids    []string // of the requests, in order of arrival
	bodies []string // of the same requests
	asked  int      // requests that are not load
	ended  int      // requests that have been answered
}

func newEngine(t testing.TB, delay time.Duration, status int) *engine {
	e := &engine{delay: delay, status: status}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if e.keep {
		body, _ = io.ReadAll(r.Body)
	} else {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	if r.Method == http.MethodGet {
		e.tell(w, r)
		return
	}
	id := r.Header.Get("X-Request-Id")
	e.mu.Lock()
	e.ids = append(e.ids, id)
	e.bodies = append(e.bodies, string(body))
	e.mu.Unlock()
	if status := cmp.Or(e.fails[id], e.status); status != 0 {
		http.Error(w, `{"error":{"message":"no"}}`, status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	select {
	case <-time.After(e.delay):
	case <-r.Context().Done():
		return
	}
	first, second := plainFrames[0], plainFrames[1]
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		first, second = chatFrames[0], fmt.Sprintf(chatFrames[1], id)
	}
	_, _ = io.WriteString(w, first)
	w.(http.Flusher).Flush()
	_, _ = io.WriteString(w, second)
	e.mu.Lock()
	e.ended++
	e.mu.Unlock()
	_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
}

var (
	plainFrames = [2]string{
		"data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"text\":\"b\",\"finish_reason\":\"length\"}]}\n\n",
	}
	chatFrames = [2]string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"<\"}}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s>\"},\"finish_reason\":\"length\"}]}\n\n",
	}
)

// tell answers a request about the server.
func (e *engine) tell(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked++
	ended := e.ended
	e.mu.Unlock()
	if e.counts && r.URL.Path == "/metrics" {
		fmt.Fprintf(w, "# TYPE vllm:e2e_request_latency_seconds histogram\nvllm:e2e_request_latency_seconds_sum %d\n"+
			"vllm:e2e_request_latency_seconds_count %d\n", ended, ended)
		return
	}
	if e.most == 0 || !strings.HasSuffix(r.URL.Path, "/models") {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, `{"object":"list","data":[{"id":"m","object":"model","max_model_len":%d}]}`, e.most)
}

// requests returns the IDs of the requests so far.
func (e *engine) requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.ids...)
}

// sent returns the bodies of the requests so far, in the order of requests.
func (e *engine) sent() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.bodies...)
}

// questions returns how often the server was asked about itself.
func (e *engine) questions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// stageOf returns a stage of 4:2 tokens against servers.
func stageOf(load *spatev1.LoadPoint, engines ...*engine) *spatev1.Stage {
	var urls []string
	for _, e := range engines {
		urls = append(urls, e.URL)
	}
	return &spatev1.Stage{
		Target: &spatev1.Target{
			Name: "T", Endpoints: urls, Api: "completions", Model: "m",
			ConnectTimeout: durationpb.New(time.Second), RequestTimeout: durationpb.New(time.Minute),
		},
		Workload: &spatev1.Workload{Name: "4:2", Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{
			Isl: 4, Osl: 2, FirstTokenId: 1000, LastTokenId: 9999,
		}}},
		Load:         load,
		Seed:         7,
		DrainTimeout: durationpb.New(30 * time.Second),
	}
}

// assignOf returns the assignment of a stage to a single agent, or to one of several.
func assignOf(stage *spatev1.Stage, rank uint32, weights ...uint32) *spatev1.Assign {
	if len(weights) == 0 {
		weights = []uint32{1}
	}
	return &spatev1.Assign{
		Ref:    &spatev1.AssignmentRef{RunId: "run", StageIndex: stage.GetIndex(), Revision: 1},
		Stage:  stage,
		Stripe: &spatev1.Stripe{Weights: weights, Rank: rank},
		// Rows let tests inspect single requests.
		Records: true,
	}
}

// resourcesOf returns the kit of an agent with these limits and without a directory for datasets.
func resourcesOf(l limits) resources {
	return resources{limits: l, datasets: &datasets{}, findings: &findings{}, logger: slog.New(slog.DiscardHandler)}
}
