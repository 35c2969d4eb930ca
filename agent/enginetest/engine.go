// Package enginetest has a small streaming server for tests of the agent, and stages and assignments for it.
package enginetest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Engine is a small streaming server: each answer has two tokens, with a delay before the first. A chat is answered
// with "<ID>", where ID is the request's ID.
type Engine struct {
	*httptest.Server
	// Delay is the time before the first token.
	Delay  time.Duration
	status int // 0: 200
	// MaxModelTokens is the max_model_len that the server reports. 0: none.
	MaxModelTokens int
	// Fails has the statuses of requests that fail, by ID.
	Fails map[string]int
	// KeepBodies keeps the bodies for Bodies.
	KeepBodies bool
	// CountsEnded makes /metrics report how many requests have been answered.
	CountsEnded bool

	mu     sync.Mutex
	ids    []string // of the requests, in order of arrival
	bodies []string // of the same requests
	asked  int      // requests that are not load
	ended  int      // requests that have been answered
}

// New starts a server that answers each request with an HTTP status. 0: 200. It stops at the end of the test.
func New(t testing.TB, delay time.Duration, status int) *Engine {
	e := &Engine{Delay: delay, status: status}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// ServeHTTP answers a request.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if e.KeepBodies {
		body, _ = io.ReadAll(r.Body)
	} else {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	if r.Method == http.MethodGet {
		e.tell(w, r)
		return
	}
	id := r.Header.Get("X-Request-Id")
	if status := e.arrived(id, body); status != 0 {
		http.Error(w, `{"error":{"message":"no"}}`, status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-time.After(e.Delay):
	case <-r.Context().Done():
		return
	}
	first, second := plainFrames[0], plainFrames[1]
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		first, second = chatFrames[0], fmt.Sprintf(chatFrames[1], id)
	}
	_, _ = io.WriteString(w, first)
	_ = http.NewResponseController(w).Flush()
	_, _ = io.WriteString(w, second)
	e.mu.Lock()
	e.ended++
	e.mu.Unlock()
	_, _ = io.WriteString(
		w,
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
	)
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

// arrived records a request and returns the status with which it fails. 0: it does not.
func (e *Engine) arrived(id string, body []byte) (status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = append(e.ids, id)
	e.bodies = append(e.bodies, string(body))
	return cmp.Or(e.Fails[id], e.status)
}

// tell answers a request about the server.
func (e *Engine) tell(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked++
	ended := e.ended
	e.mu.Unlock()
	if e.CountsEnded && r.URL.Path == "/metrics" {
		fmt.Fprintf(w, "# TYPE vllm:e2e_request_latency_seconds histogram\nvllm:e2e_request_latency_seconds_sum %d\n"+
			"vllm:e2e_request_latency_seconds_count %d\n", ended, ended)
		return
	}
	if e.MaxModelTokens == 0 || !strings.HasSuffix(r.URL.Path, "/models") {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, `{"object":"list","data":[{"id":"m","object":"model","max_model_len":%d}]}`, e.MaxModelTokens)
}

// Requests returns the IDs of the requests so far.
func (e *Engine) Requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.ids...)
}

// Bodies returns the bodies of the requests so far, in the order of requests.
func (e *Engine) Bodies() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.bodies...)
}

// Questions returns how often the server was asked about itself.
func (e *Engine) Questions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// StageOf returns a stage of 4:2 tokens against servers.
func StageOf(load *spatev1.LoadPoint, engines ...*Engine) *spatev1.Stage {
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
			Isl: 4, Osl: 2,
		}}},
		Load:         load,
		Seed:         7,
		DrainTimeout: durationpb.New(30 * time.Second),
	}
}

// AssignOf returns the assignment of a stage to a single agent, or to one of several.
func AssignOf(stage *spatev1.Stage, rank uint32, weights ...uint32) *spatev1.Assign {
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

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// ReadingServers makes the assignment's agent read the metrics of all its servers.
func ReadingServers(a *spatev1.Assign) *spatev1.Assign {
	for i := range a.GetStage().GetTarget().GetEndpoints() {
		a.ServerSources = append(a.ServerSources, uint32(i))
	}
	return a
}

// CountedRequests returns the number of requests that a server with CountsEnded counted.
func CountedRequests(t testing.TB, accounts []*spatev1.ServerAccount) uint64 {
	t.Helper()
	if len(accounts) != 1 || len(accounts[0].GetHistograms()) != 1 {
		t.Fatalf("%v", accounts)
	}
	return accounts[0].GetHistograms()[0].GetCount()
}

// AtRevision returns another revision of an assignment.
func AtRevision(ref *spatev1.AssignmentRef, revision uint32) *spatev1.AssignmentRef {
	r := proto.CloneOf(ref)
	r.Revision = revision
	return r
}

// IndexOf returns the index of a request from its ID: the last 14 digits, but for a dash.
func IndexOf(tb testing.TB, id string) uint64 {
	tb.Helper()
	digits := strings.ReplaceAll(id, "-", "")
	index, err := strconv.ParseUint(digits[max(0, len(digits)-14):], 16, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return index
}
