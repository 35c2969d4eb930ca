package simulator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow returns a configuration with one slot, whose first request never ends.
func slow() config.Config {
	c := fast()
	c.Model.MaxRunning = 1
	c.Model.DecodeStep = time.Hour
	c.Truth.Keep = true
	return c
}

// begin sends a streamed request and returns when its first token has arrived.
func (p *peer) begin(ctx context.Context, endpoint int) *http.Response {
	p.t.Helper()
	resp, err := p.ask(ctx, endpoint, completionsPath, "", fourTokens)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		p.t.Fatal(err)
	}
	return resp
}

func TestCancelledRequestFreesSlot(t *testing.T) {
	p := start(t, slow())
	ctx, leave := context.WithCancel(t.Context())
	first := p.begin(ctx, 0)
	p.metric(0, `vllm:num_requests_running{engine="0",model_name="simulated"} 1`)
	ctx2, leave2 := context.WithCancel(t.Context())
	queued, err := p.ask(ctx2, 0, completionsPath, "", fourTokens)
	if err != nil {
		t.Fatal(err)
	}
	p.metric(0, `vllm:num_requests_waiting{engine="0",model_name="simulated"} 1`)
	leave2()
	_ = queued.Body.Close()
	p.metric(0, `vllm:num_requests_waiting{engine="0",model_name="simulated"} 0`)
	leave()
	_ = first.Body.Close()
	p.metric(0, `vllm:num_requests_running{engine="0",model_name="simulated"} 0`)
	_ = p.begin(t.Context(), 0).Body.Close()
	p.stop()
	for _, r := range p.Records() {
		if !r.Cancelled || r.FinishReason != "" {
			t.Errorf("recorded %+v", r)
		}
	}
}

func TestEndpointsAreIndependent(t *testing.T) {
	cfg := slow()
	cfg.Endpoints = 2
	p := start(t, cfg)
	if urls := p.URLs(); len(urls) != 2 || urls[0] == urls[1] {
		t.Fatalf("URLs %v", urls)
	}
	for endpoint := range 2 {
		resp := p.begin(t.Context(), endpoint) // in one engine the second would wait forever behind the first
		defer resp.Body.Close()
	}
	p.stop()
	seen := map[int]bool{}
	for _, r := range p.Records() {
		seen[r.Endpoint] = true
	}
	if !seen[0] || !seen[1] {
		t.Errorf("recorded %+v", p.Records())
	}
}

func TestLeastBusyReplica(t *testing.T) {
	cfg := slow()
	cfg.Replicas = 3
	p := start(t, cfg)
	var leave []func()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer p.begin(ctx, 0).Body.Close() // each gets its first token at once: none queues behind another
		leave = append(leave, cancel)
	}
	leave[1]()
	p.metric(0, `vllm:request_success_total{finished_reason="abort",model_name="simulated"} 1`)
	defer p.begin(t.Context(), 0).Body.Close()
	p.metric(0, `vllm:num_requests_running{engine="1",model_name="simulated"} 1`)
}

func TestCloseLetsRequestsFinish(t *testing.T) {
	cfg := fast()
	cfg.Model.DecodeStep = 10 * time.Millisecond
	p := start(t, cfg)
	resp := p.begin(t.Context(), 0)
	defer resp.Body.Close()
	closed := make(chan error)
	go func() { closed <- p.Close(context.Background()) }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(b), "[DONE]\n\n") {
		t.Errorf("cut off: %q, %v", b, err)
	}
	if err := <-closed; err != nil {
		t.Errorf("closed with %v", err)
	}
}

func TestCloseCutsOffRequests(t *testing.T) {
	p := start(t, slow())
	resp := p.begin(t.Context(), 0)
	defer resp.Body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := p.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("closed with %v", err)
		}
	}
	if r := p.Records(); len(r) != 1 || !r[0].Cancelled {
		t.Errorf("recorded %+v", r)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body was complete")
	}
}

// A client that does not read must not keep Close from returning.
func TestCloseWithAClientThatDoesNotRead(t *testing.T) {
	cfg := fast()
	cfg.Model.DecodeStep = 0
	p := start(t, cfg)
	resp, err := p.ask(t.Context(), 0, completionsPath, "",
		`{"model":"m","prompt":"a","max_tokens":400000,"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p.metric(0, `vllm:generation_tokens_total{engine="0",model_name="simulated"} 400000`)
	p.stop()
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:0": "", "localhost:0": "",
		":0": "not loopback", "0.0.0.0:0": "not loopback", "192.0.2.7:0": "not loopback",
		"nowhere": "give host:port", "127.0.0.1:99999": "give host:port",
	} {
		s, err := Start(fast(), addr)
		if err == nil {
			_ = s.Close(t.Context())
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", addr, err, want)
		}
	}
	cfg := fast()
	cfg.AllowRemote = true
	s, err := Start(cfg, ":0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.URLs()) != 2 {
		t.Errorf("URLs %v", s.URLs())
	}
	_ = s.Close(t.Context())
}

func TestFailedStartClosesEverything(t *testing.T) {
	s, err := Start(fast())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	taken := strings.TrimPrefix(s.URLs()[0], "http://")
	if _, err := Start(fast(), "127.0.0.1:0", taken); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("second server at %s: %v", taken, err)
	}
}

func TestHandlerAlone(t *testing.T) {
	ep := newEndpoint(fast(), 0, newTruthLog(config.Truth{}))
	w := httptest.NewRecorder()
	ep.ServeHTTP(w, httptest.NewRequest(http.MethodPost, completionsPath, strings.NewReader(fourTokens)))
	if w.Code != 200 || !strings.HasSuffix(w.Body.String(), "[DONE]\n\n") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	ep.Close()
	ep.Close()
	defer func() {
		if r := recover(); r != any(http.ErrAbortHandler) {
			t.Errorf("a closed endpoint still answers: %v", r)
		}
	}()
	ep.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/health", nil))
}

// An invalid configuration starts nothing.
func TestInvalidConfigIsRefused(t *testing.T) {
	c := fast()
	c.Pace.Ticks = true
	if _, err := Start(c); err == nil || !strings.Contains(err.Error(), "Pace.BetweenTokens is 0s") {
		t.Errorf("Start: %v", err)
	}
}

// A steady server sends no token before its time, with or without ticks.
func TestPaceServes(t *testing.T) {
	for _, ticks := range []bool{false, true} {
		cfg := config.Default()
		cfg.Pace = config.Pace{FirstToken: 5 * time.Millisecond, BetweenTokens: 2 * time.Millisecond, Ticks: ticks}
		cfg.Truth = config.Truth{Keep: true, Tokens: true}
		p := start(t, cfg)
		p.get(completionsPath, "", fourTokens)
		p.stop()
		r := p.Records()[0]
		if len(r.Tokens) != 4 {
			t.Fatalf("recorded %+v", r)
		}
		for i, at := range r.Tokens {
			if early := r.Received.Add(5*time.Millisecond + time.Duration(i)*2*time.Millisecond).Sub(at); early > 0 {
				t.Errorf("ticks %v: token %d came %v early", ticks, i, early)
			}
		}
	}
}

// A client that reads late gets everything, in order: the handler sends what did not fit into the socket at once.
func TestClientThatReadsLate(t *testing.T) {
	cfg := fast()
	cfg.Model.DecodeStep = 0
	cfg.Truth.Keep = true
	p := start(t, cfg)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const tokens = 100_000
	body := fmt.Sprintf(`{"model":"m","prompt":"a","max_tokens":%d,"stream":true}`, tokens)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", completionsPath, len(body), body)
	p.metric(0, fmt.Sprintf(`vllm:generation_tokens_total{engine="0",model_name="simulated"} %d`, tokens))
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(rest)))
	if err != nil {
		t.Fatal(err)
	}
	if want := handled(t, cfg, completionsPath, body); withoutTimes(string(got)) != want {
		t.Errorf("%d bytes, want %d, or they differ", len(got), len(want))
	}
	p.stop()
	if r := p.Records()[0]; r.OutputTokens != tokens || r.Cancelled || r.FinishReason != api.FinishLength {
		t.Errorf("recorded %+v", r)
	}
}

// A connection is reused for the next request after frames were written past net/http.
func TestConnectionsAreKept(t *testing.T) {
	p := start(t, fast())
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 3 {
		end := ""
		if i == 2 {
			end = "Connection: close\r\n"
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", completionsPath, end,
			len(fourTokens), fourTokens)
	}
	raw, err := io.ReadAll(conn)
	if n := bytes.Count(raw, []byte("[DONE]\n\n\r\n0\r\n\r\n")); err != nil || n != 3 {
		t.Errorf("%d whole answers of 3, %v", n, err)
	}
}
