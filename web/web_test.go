package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/live"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a coordinator with runs of events that a test makes.
type fake struct {
	mu      sync.Mutex
	runs    []*spatev1.RunSummary
	logs    map[string]*live.EventLog
	agents  []*spatev1.AgentStatus
	calls   []string
	plan    *spatev1.SubmitRunRequest
	who     string // in the certificate of the last caller that changed something
	caller  access.Caller
	follows int
}

func (f *fake) note(ctx context.Context, call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	who, _ := certs.PeerOf(ctx)
	f.who, f.caller = who.Name, access.CallerOf(ctx)
}

func (f *fake) called() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " ")
}

func (f *fake) SubmitRun(ctx context.Context, q *spatev1.SubmitRunRequest) (*spatev1.SubmitRunResponse, error) {
	f.note(ctx, "submit")
	if len(q.GetPlanYaml()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "plan.yaml: it is empty")
	}
	f.plan = q
	return &spatev1.SubmitRunResponse{RunId: "new", Waiting: 1}, nil
}

func (f *fake) StopRun(ctx context.Context, q *spatev1.StopRunRequest) (*spatev1.StopRunResponse, error) {
	f.note(ctx, fmt.Sprintf("stop %s %v", q.GetRunId(), q.GetImmediately()))
	return &spatev1.StopRunResponse{}, nil
}

func (f *fake) RemoveRun(ctx context.Context, q *spatev1.RemoveRunRequest) (*spatev1.RemoveRunResponse, error) {
	f.note(ctx, "remove "+q.GetRunId())
	return &spatev1.RemoveRunResponse{}, nil
}

func (f *fake) CordonAgents(
	ctx context.Context, q *spatev1.CordonAgentsRequest,
) (*spatev1.CordonAgentsResponse, error) {
	f.note(ctx, fmt.Sprintf("%s %s", strings.Join(q.GetAgents(), ","), q.GetCordon()))
	return &spatev1.CordonAgentsResponse{}, nil
}

func (f *fake) ReadHistory(
	_ context.Context, q *spatev1.ReadHistoryRequest,
) (*spatev1.ReadHistoryResponse, error) {
	if q.GetMetric() == "none" {
		return nil, status.Error(codes.InvalidArgument, "number \"none\": want one of many")
	}
	line := func(target string) *spatev1.HistoryLine {
		return &spatev1.HistoryLine{Plan: "nightly", Target: target, Load: evil, Metric: q.GetMetric(), Unit: "ms",
			Points: []*spatev1.HistoryPoint{
				{Run: "gone", Time: timestamppb.New(time.Unix(0, 0)), Value: 100, Verdict: "VALID", Version: "v1", Removed: true},
				{Run: "old", Time: timestamppb.New(time.Unix(86400, 0)), Value: 130, Verdict: "VALID", Version: "v2",
					Against: "gone", Change: new(0.3), Outcome: "worse", Labels: map[string]string{"image": evil}},
			}}
	}
	return &spatev1.ReadHistoryResponse{Plans: []string{"nightly", evil},
		Lines: []*spatev1.HistoryLine{line("x"), line("y")}}, nil
}

func (f *fake) ListRuns(_ context.Context, q *spatev1.ListRunsRequest) (*spatev1.ListRunsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &spatev1.ListRunsResponse{}
	for _, r := range f.runs {
		if q.GetRunId() == "" || q.GetRunId() == r.GetRunId() {
			out.Runs = append(out.Runs, r)
		}
	}
	if q.GetRunId() != "" && len(out.GetRuns()) == 0 {
		return nil, status.Errorf(codes.NotFound, "there is no run %s here", q.GetRunId())
	}
	return out, nil
}

func (f *fake) ListAgents(context.Context, *spatev1.ListAgentsRequest) (*spatev1.ListAgentsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &spatev1.ListAgentsResponse{Agents: slices.Clone(f.agents)}, nil
}

func (f *fake) FollowRun(q *spatev1.FollowRunRequest, out spatev1.RunService_FollowRunServer) error {
	f.mu.Lock()
	log := f.logs[q.GetRunId()]
	f.follows++
	f.mu.Unlock()
	if log == nil {
		return status.Errorf(codes.NotFound, "there is no run %s here", q.GetRunId())
	}
	for number := q.GetAfter(); ; {
		list, ended, more := log.After(number)
		for _, e := range list {
			number = e.GetNumber()
			if e.GetEvent().GetStageWindow() != nil && !q.GetWindows() {
				continue
			}
			if err := out.Send(e); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-more:
		case <-out.Context().Done():
			return status.FromContextError(out.Context().Err()).Err() // as the coordinator
		}
	}
}

// add adds an event to a run.
func (f *fake) add(run string, e *spatev1.RunEvent) {
	f.mu.Lock()
	log := f.logs[run]
	f.mu.Unlock()
	if numbered, ok := log.Number(e); ok {
		log.Append(numbered)
	}
}

// newFake returns a coordinator with a run that waits, one in progress and one that has ended.
func newFake() *fake {
	return &fake{
		runs: []*spatev1.RunSummary{
			{RunId: "later", Plan: "nightly", State: spatev1.RunState_RUN_STATE_WAITING, Stages: 3},
			{RunId: "live", Plan: "sweep", State: spatev1.RunState_RUN_STATE_RUNNING, Stages: 2},
			{RunId: "old", Plan: "sweep", State: spatev1.RunState_RUN_STATE_ENDED, Outcome: spatev1.Outcome_OUTCOME_DONE},
		},
		logs: map[string]*live.EventLog{
			"live": live.NewEventLog(nil, 0), "later": live.NewEventLog(nil, 0), "old": live.NewEventLog(nil, 0),
		},
		agents: []*spatev1.AgentStatus{{
			Agent:  &spatev1.AgentInfo{Name: "a", Region: "eu", Host: "<b>host</b>", Weight: 1},
			Health: spatev1.AgentHealth_AGENT_HEALTH_BUSY, Heartbeat: &spatev1.Heartbeat{InFlight: 7, Number: 9},
			Cordon: spatev1.Cordon_CORDON_DRAINING,
		}},
	}
}

func notice(text string) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{
		Severity: spatev1.Severity_SEVERITY_WARNING, Text: text}}}
}

func ended() *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{
		Outcome: spatev1.Outcome_OUTCOME_DONE, Complete: true, Verdict: "VALID"}}}
}

// site is a web server over a fake.
type site struct {
	*httptest.Server
	t      testing.TB
	fake   *fake
	server *Server
	dir    string // of the ended run
}

// start serves until the test ends. On loopback everybody may write, unless change says otherwise.
func start(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	s := &site{t: t, fake: newFake(), dir: t.TempDir()}
	c := Config{Runs: s.fake, Dir: func(string) string { return s.dir }, Rights: Rights{Loopback: true},
		Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	s.server = New(c)
	s.Server = httptest.NewUnstartedServer(nil)
	s.Config = s.server.http
	s.Start()
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
		s.Client().CloseIdleConnections()
		s.Close()
	})
	return s
}

// request makes a request.
func (s *site) request(method, path, body string, headers ...string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	return r
}

// reply is an answer without its body.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// do returns an answer with its body.
func (s *site) do(method, path, body string, headers ...string) (reply, string) {
	s.t.Helper()
	a, err := s.Client().Do(s.request(method, path, body, headers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{a.StatusCode, a.Status, a.Header}, string(text)
}

// code returns the status of an answer.
func (s *site) code(method, path string, headers ...string) int {
	s.t.Helper()
	a, _ := s.do(method, path, "", headers...)
	return a.StatusCode
}

// The coordinator learns from where something is changed, and which user came with the token.
func TestCallersAreKnown(t *testing.T) {
	for _, c := range []struct {
		token, header string
		want          access.Caller
	}{
		{"", "Basic YW5uYTp0", access.Caller{Proof: access.NoProof}}, // not checked
		{"t", "Bearer t", access.Caller{Proof: access.Token}},
		{"t", "Basic YW5uYTp0", access.Caller{Proof: access.Token, By: "anna"}}, // anna:t
		{"t", "Bearer 0123456789abcdef", access.Caller{Proof: access.NamedToken, By: "ci"}},
	} {
		s := start(t, func(cfg *Config) {
			if cfg.Rights.Token = c.token; c.token != "" {
				cfg.Rights.Access = holders(t)
			}
		})
		s.code("POST", "/api/v1/runs/live/stop", "Authorization", c.header)
		host := s.fake.caller.Host()
		s.fake.caller.Address = ""
		if s.fake.caller != c.want || host != "127.0.0.1" {
			t.Errorf("%q: %+v at %s, want %+v", c.header, s.fake.caller, host, c.want)
		}
	}
}

// holders is a policy in which one token has a holder.
func holders(t *testing.T) *access.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.yaml")
	text := "tokens: {ci: {role: runner, secret: 0123456789abcdef}}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := access.Open(path, func(s string) (string, error) { return s, nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Only who may change something can: on loopback everybody without a token, otherwise who knows it.
func TestWritesNeedARight(t *testing.T) {
	writes := [][2]string{{"POST", "/api/v1/runs"}, {"DELETE", "/api/v1/runs/old"}, {"POST", "/api/v1/runs/live/stop"},
		{"POST", "/api/v1/agents/a/drain"}, {"POST", "/api/v1/agents/a/uncordon"}}
	for _, c := range []struct {
		rights  Rights
		headers []string
		may     bool
	}{
		{Rights{Loopback: true}, nil, true},
		{Rights{Loopback: true, Token: "t"}, nil, false},
		{Rights{Loopback: true, Token: "t"}, []string{"Authorization", "Bearer t"}, true},
		{Rights{Loopback: true, Token: "t"}, []string{"Authorization", "Bearer tt"}, false},
		{Rights{Token: "t"}, []string{"Authorization", "bearer t"}, true},
		{Rights{Token: "t"}, []string{"Authorization", "Basic OnQ="}, true}, // :t
		{Rights{Token: "t"}, []string{"Authorization", "Basic dDo="}, false},
		{Rights{Token: "t"}, []string{"Authorization", "Bearer "}, false},
		{Rights{}, nil, false},
		{Rights{}, []string{"Authorization", "Bearer "}, false},
		{Rights{Loopback: true, Access: holders(t)}, nil, false},
		{Rights{Access: holders(t)}, []string{"Authorization", "Bearer 0123456789abcdef"}, true},
		{Rights{Access: holders(t)}, []string{"Authorization", "Bearer "}, false},
	} {
		s := start(t, func(cfg *Config) { cfg.Rights = c.rights })
		for _, w := range writes {
			a, body := s.do(w[0], w[1], "", c.headers...)
			if refused := a.StatusCode == http.StatusUnauthorized; refused == c.may {
				t.Errorf("%+v %q %s %s: %s %s", c.rights, c.headers, w[0], w[1], a.Status, body)
			}
			if asks := a.Header.Get("WWW-Authenticate") != ""; asks != (!c.may && c.rights.hasTokens()) {
				t.Errorf("%+v: asks for a password: %v", c.rights, asks)
			}
		}
		if reached := s.fake.called() != ""; reached != c.may {
			t.Errorf("%+v %q: the coordinator was asked: %s", c.rights, c.headers, s.fake.called())
		}
		if got := s.code("GET", "/api/v1/runs", c.headers...); got != http.StatusOK {
			t.Errorf("%+v: reading: %d", c.rights, got)
		}
	}
}

// The page of another site can neither change nor read anything, nor frame a page.
func TestOtherSites(t *testing.T) {
	s := start(t, func(c *Config) { c.Rights.Hosts = []string{"spate.example"} })
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{nil, http.StatusOK},
		{[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		{[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{[]string{"Origin", "http://evil.test"}, http.StatusForbidden},
		{[]string{"Origin", "null"}, http.StatusForbidden},
		{[]string{"Origin", s.URL}, http.StatusOK},
		{[]string{"Host", "evil.test", "Origin", "http://evil.test"}, http.StatusMisdirectedRequest},
		{[]string{"Host", "spate.example"}, http.StatusOK},
	} {
		if got := s.code("POST", "/api/v1/runs/live/stop", c.headers...); got != c.want {
			t.Errorf("%q: %d, want %d", c.headers, got, c.want)
		}
	}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:" + port: 200, "LOCALHOST.": 200, "127.0.0.1": 200, "127.9.9.9:1": 200,
		"[::1]": 200, "[::1]:80": 200, "spate.example:443": 200, "SPATE.example": 200,
		"evil.test": 421, "localhost.evil.test": 421, "10.0.0.1": 421, "0.0.0.0": 421, "127.0.0.1.evil.test": 421,
		"evil-spate.example": 421,
	} {
		if got := s.code("GET", "/api/v1/runs", "Host", host); got != want {
			t.Errorf("host %q: %d, want %d", host, got, want)
		}
	}
	a, _ := s.do("GET", "/api/v1/runs", "")
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
	} {
		if !strings.Contains(a.Header.Get(name), want) {
			t.Errorf("%s: %q", name, a.Header.Get(name))
		}
	}
	if a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("other sites may read")
	}
}

// A client's certificate gives the right, and the coordinator learns whose it is; an agent's gives none.
func TestCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	issue := func(role certs.Role, name string, hosts ...string) certs.Files {
		f, err := certs.Issue(dir, role, name, hosts, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := certs.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	own := issue(certs.Coordinator, "c", "127.0.0.1")
	secure, err := own.Server(true)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, fake: newFake()}
	s.server = New(Config{Runs: s.fake, Rights: Rights{Loopback: true, Revoked: own.Revocations()},
		Logger: slog.New(slog.DiscardHandler)})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l, secure) }()
	stop := func(with *certs.Files) (int, error) {
		pool := x509.NewCertPool()
		pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(pem)
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}
		if with != nil {
			pair, err := tls.LoadX509KeyPair(with.Cert, with.Key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://"+l.Addr().String()+"/api/v1/runs/live/stop", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&http.Client{Transport: transport}).Do(q)
		if err != nil {
			return 0, err
		}
		return a.StatusCode, a.Body.Close()
	}
	client, agent := issue(certs.Client, "anna"), issue(certs.Agent, "gpu")
	if code, err := stop(&client); code != http.StatusOK || err != nil || s.fake.who != "anna" {
		t.Errorf("client: %d %v, known as %q", code, err, s.fake.who)
	}
	for name, with := range map[string]*certs.Files{"agent": &agent, "none": nil} {
		if code, err := stop(with); code != http.StatusUnauthorized || err != nil {
			t.Errorf("%s: %d %v", name, code, err)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := certs.Init(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	stranger, err := certs.Issue(other, certs.Client, "eve", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if code, err := stop(&stranger); err == nil {
		t.Errorf("a certificate of another authority: %d", code)
	}
	authority, err := certs.OpenAuthority(dir)
	if err == nil {
		_, err = authority.Revoke("anna", time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	code := http.StatusOK
	s.wait("a revoked client is refused", func() bool {
		if code, err = stop(&client); err != nil {
			t.Fatal(err)
		}
		return code != http.StatusOK
	})
	if code != http.StatusUnauthorized {
		t.Errorf("a revoked client: %d", code)
	}
	if err := s.server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Events come with their numbers, and a reader that connects again gets those that it has not seen.
func TestEvents(t *testing.T) {
	s := start(t)
	s.fake.add("live", notice("one"))
	s.fake.add("live", &spatev1.RunEvent{Event: &spatev1.RunEvent_StageWindow{StageWindow: &spatev1.StageWindow{}}})
	a, err := s.Client().Do(s.request("GET", "/api/v1/runs/live/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if got := a.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("type %q", got)
	}
	lines := bufio.NewScanner(a.Body)
	next := func() (got []string) {
		for lines.Scan() && lines.Text() != "" {
			got = append(got, lines.Text())
		}
		return got
	}
	if got := next(); len(got) != 3 || got[0] != "id: 1" || got[1] != "event: notice" || !strings.Contains(got[2], `"one"`) {
		t.Errorf("%q", got)
	}
	s.fake.add("live", notice("two\r\nevent: forged\n\nid: 99"))
	if got := next(); len(got) != 3 || got[0] != "id: 3" || !strings.Contains(got[2], `forged`) {
		t.Errorf("%q", got)
	}
	s.fake.add("live", ended())
	if got := next(); got[1] != "event: run_ended" {
		t.Errorf("%q", got)
	}
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
	if _, text := s.do("GET", "/api/v1/runs/live/events?windows=true", "", "Last-Event-ID", "1"); strings.Count(text, "\nevent: ") != 3 ||
		strings.Contains(text, `"one"`) {
		t.Errorf("after event 1: %s", text)
	}
	for path, want := range map[string]int{
		"/api/v1/runs/live/events?after=4": http.StatusNoContent, "/api/v1/runs/none/events": http.StatusNotFound,
		"/api/v1/runs/live/events?after=-1": http.StatusBadRequest, "/api/v1/runs/live/events?windows=yes": http.StatusBadRequest,
	} {
		if got := s.code("GET", path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := s.code("GET", "/api/v1/runs/live/events", "Last-Event-ID", "x"); got != http.StatusBadRequest {
		t.Errorf("Last-Event-ID x: %d", got)
	}
}

// TestMistypedParameter: a request with a parameter that is not known submits and stops nothing, nor does one with its
// parameters in a body.
func TestMistypedParameter(t *testing.T) {
	s := start(t)
	for path, want := range map[string]string{
		"/api/v1/runs?min_agent=8":                    "want min_agents, agents_timeout, priority, records",
		"/api/v1/runs?min_agents=8&x=%zz":             "invalid URL escape",
		"/api/v1/runs/live/stop?immediate=true":       "want immediately",
		"/api/v1/runs/live/stop?immediately=true&a=b": "want immediately",
	} {
		a, text := s.do("POST", path, "name: x")
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %s %s, want %q", path, a.Status, text, want)
		}
	}
	for path, want := range map[string]string{
		"/api/v1/runs?limits=3": "want limit", "/api/v1/agents?name=a": "want none",
		"/api/v1/history?form=json": "want plan, metric, limit",
	} {
		a, text := s.do("GET", path, "")
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %s %s, want %q", path, a.Status, text, want)
		}
	}
	a, text := s.do("POST", "/api/v1/runs/live/stop", `{"immediately": true}`)
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(text, "takes no body") {
		t.Errorf("a body: %s %s", a.Status, text)
	}
	if done := s.fake.called(); done != "" {
		t.Errorf("done: %s", done)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add("live", "1", "localhost", "windows=true")
	f.Add("live", "", "localhost", "")
	f.Add("../../etc/passwd", "-1", "evil.test", "after=18446744073709551616")
	f.Add("%2e%2e", "\x00", "[::1", "limit=%zz")
	dir := f.TempDir()
	s := New(Config{Runs: newFake(), Dir: func(string) string { return dir }, Rights: Rights{Loopback: true},
		Logger: slog.New(slog.DiscardHandler)})
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, id, last, host, query string) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, path := range []string{"", "/events", "/files", "/files/" + id} {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			r.URL.Path, r.URL.RawQuery, r.Host = "/api/v1/runs/"+id+path, query, host
			r.Header.Set("Last-Event-ID", last)
			if path == "/events" {
				cancel() // a stream ends with its reader
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code >= http.StatusInternalServerError && w.Code != http.StatusServiceUnavailable {
				t.Errorf("%q: %d %s", r.URL, w.Code, w.Body)
			}
		}
		cancel()
	})
}
