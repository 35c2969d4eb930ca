package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/results"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// evil is what a plan, an agent or a server may say.
const evil = "<script>alert(1)</script>\"'\r\n\nevent: part\ndata: x\u202e"

// started returns the events of a run that is in its first stage.
func started(agents ...*spatev1.AgentInfo) []*spatev1.RunEvent {
	return []*spatev1.RunEvent{
		{Event: &spatev1.RunEvent_RunStarted{RunStarted: &spatev1.RunStarted{Stages: 2, Agents: agents}}},
		{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
			Target: evil, Workload: evil, Load: evil, ExpectedRequests: 100}}},
		{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{
			Agent: &spatev1.AgentInfo{Name: evil, Region: evil}, Reason: evil, Consequence: evil}}},
		notice(evil),
	}
}

// second returns a window.
func second(number uint32) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_StageWindow{StageWindow: &spatev1.StageWindow{
		Number: number, Verdict: "SUSPECT", Errors: map[string]uint64{evil: 1},
		Doubts: []*spatev1.Doubt{{Check: evil, Words: evil, Remedy: evil}},
		Whole: &spatev1.WindowPart{Seconds: 1, Completed: 5,
			OutputTokensPerSecond: new(1000 + float64(number)),
			Distributions:         []*spatev1.WindowDistribution{{Metric: "ttft_ms", Count: 5, P50: 10, P90: 20, P99: 30, Max: 40}}},
		Regions: []*spatev1.WindowPart{{Name: evil}}, Agents: []*spatev1.WindowPart{{Name: evil, Region: evil}},
	}}}
}

// harmless fails if something that others said is not escaped.
func harmless(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{"<script>alert", "\"'", "\u202e", "\r"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in\n%s", part, text)
		}
	}
}

// Whatever plans, agents and servers say, pages and their events show it as text.
func TestPagesEscape(t *testing.T) {
	s := start(t)
	s.fake.runs = append(s.fake.runs, &spatev1.RunSummary{
		RunId: evil, Plan: evil, Submitter: evil, Verdict: evil, Reason: evil, State: spatev1.RunState_RUN_STATE_ENDED,
	})
	s.fake.agents = append(s.fake.agents, &spatev1.AgentStatus{
		Agent: &spatev1.AgentInfo{Name: evil, Region: evil, Host: evil, Version: evil}})
	for _, e := range append(started(&spatev1.AgentInfo{Name: evil, Region: evil}), second(0), second(1)) {
		s.fake.add("live", e)
	}
	for path, want := range map[string]string{
		"/": "&lt;script&gt;", "/runs/live": "&lt;script&gt;", "/runs/live?stage=1": "&lt;script&gt;",
		"/runs/" + url.PathEscape(evil): "", "/compare?baseline=" + url.QueryEscape(evil) + "&run=old": "",
	} {
		a, text := s.do("GET", path, "")
		harmless(t, text)
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, without %s:\n%s", path, a.Status, want, text)
		}
	}
	parts := s.read("/runs/live/parts", 8)
	if text := strings.Join(parts, "\n"); !strings.Contains(text, "&lt;script&gt;") {
		t.Errorf("parts: %s", text)
	}
	harmless(t, strings.Join(parts, "\n"))
	for _, p := range parts {
		if strings.HasPrefix(p, "event: part\ndata: x\n") {
			t.Errorf("an event made by what others said: %s", p)
		}
	}
}

// read returns the first lines of the parts that a page receives: their IDs and contents.
func (s *site) read(path string, count int) (parts []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	a, err := s.Client().Do(s.request("GET", path, "").WithContext(ctx))
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(parts) <= count {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			parts = append(parts, line)
		case len(parts) > 0:
			parts[len(parts)-1] += "\n" + line
		}
	}
	return parts[:min(count, len(parts))]
}

// A page shows the run as it is when it is asked for, and its events what changes until the run has ended.
func TestRunPageFollows(t *testing.T) {
	s := start(t)
	for _, e := range append(started(), second(0), second(1)) {
		s.fake.add("live", e)
	}
	_, text := s.do("GET", "/runs/live", "")
	for _, want := range []string{"Stage 1 of 2", "SUSPECT so far", `data-events="/runs/live/parts"`, "30.0", "<svg"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	done := make(chan []string)
	go func() { done <- s.read("/runs/live/parts", 100) }()
	s.wait("a viewer", func() bool { return len(s.server.streams) == 1 })
	s.fake.add("live", ended())
	s.fake.mu.Lock()
	s.fake.runs[1] = &spatev1.RunSummary{RunId: "live", State: spatev1.RunState_RUN_STATE_ENDED,
		Outcome: spatev1.Outcome_OUTCOME_DONE, Complete: true}
	s.fake.mu.Unlock()
	parts := <-done
	if last := parts[len(parts)-1]; !strings.HasPrefix(last, "event: over\n") {
		t.Errorf("the last event is %q", last)
	}
	if all := strings.Join(parts, ""); !strings.Contains(all, "Open the report") {
		t.Errorf("the end does not link to the report:\n%s", all)
	}
	_, text = s.do("GET", "/runs/live", "")
	if strings.Contains(text, "data-events") || strings.Contains(text, "<button") {
		t.Errorf("the page of an ended run is live:\n%s", text)
	}
}

// All viewers of a page share one follower of the run, which ends some time after the last of them.
func TestViewersShareAPage(t *testing.T) {
	s := start(t)
	for _, e := range started() {
		s.fake.add("live", e)
	}
	s.silent("/runs/live/parts", 100)
	s.wait("100 viewers", func() bool { return len(s.server.streams) == 100 })
	if got := s.code("GET", "/runs/live"); got != http.StatusOK {
		t.Errorf("%d", got)
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	if s.fake.follows != 1 {
		t.Errorf("the run has %d followers, want 1", s.fake.follows)
	}
}

// Where too many pages are watched, or too many by one viewer, a page and its stream are refused, and the browser asks
// again. A stage that the plan does not have is not a page.
func TestTooManyPages(t *testing.T) {
	s := start(t)
	s.server.topics.most = 8 // two of one viewer
	for _, path := range []string{"/runs/live", "/runs/live?stage=1"} {
		if a, text := s.do("GET", path, ""); a.StatusCode != http.StatusOK || !strings.Contains(text, "data-events") {
			t.Fatalf("%s: %d %s", path, a.StatusCode, text)
		}
	}
	if a, text := s.do("GET", "/runs/live?stage=2", ""); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Refresh") == "" {
		t.Errorf("one more: %d %s", a.StatusCode, text)
	}
	if got := s.code("GET", "/runs/live/parts?stage=2"); got != http.StatusTooManyRequests {
		t.Errorf("its stream: %d", got)
	}
	if got := s.code("GET", "/runs/live"); got != http.StatusOK {
		t.Errorf("a page that is watched: %d", got)
	}
	for path, want := range map[string]int{"stage=3": http.StatusNotFound, "stage=1000001": http.StatusNotFound,
		"stage=x": http.StatusBadRequest} {
		if got := s.code("GET", "/runs/live/parts?"+path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := s.code("GET", "/api/v1/runs"); got != http.StatusOK {
		t.Errorf("REST: %d", got)
	}
}

// Who may stop a run sees the buttons, which stop it; others see none, and are refused.
func TestStopFromAPage(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		rights    Rights
		headers   []string
		sees, may bool
	}{
		{Rights{Loopback: true}, nil, true, true},
		{Rights{Loopback: true}, []string{"Origin", "http://evil.test"}, true, false},
		{Rights{Loopback: true, Token: "t"}, nil, true, false}, // the browser asks for it
		{Rights{Token: "t"}, []string{"Authorization", "Basic OnQ="}, true, true},
		{Rights{}, nil, false, false},
	} {
		s := start(t, func(cfg *Config) { cfg.Rights = c.rights })
		s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		_, text := s.do("GET", "/runs/live", "")
		if sees := strings.Contains(text, "<button"); sees != c.sees {
			t.Errorf("%+v: sees buttons: %v", c.rights, sees)
		}
		a, text := s.do("POST", "/runs/live/stop", "immediately=true", append(c.headers, "Content-Type", form)...)
		if may := a.StatusCode == http.StatusSeeOther && a.Header.Get("Location") == "/runs/live"; may != c.may {
			t.Errorf("%+v %q: %s %s", c.rights, c.headers, a.Status, text)
		}
		if stopped := s.fake.called() == "stop live true"; stopped != c.may {
			t.Errorf("%+v %q: the coordinator was asked: %q", c.rights, c.headers, s.fake.called())
		}
	}
}

// The history has a chart and a table for each stage: what is worse is marked, runs that are there are links, new
// versions are named, and nothing that others said is HTML. The form chooses a target. A local run has no history.
func TestHistoryPage(t *testing.T) {
	s := start(t)
	_, all := s.do("GET", "/history", "")
	_, one := s.do("GET", "/history?plan=nightly&target=y&metric=e2e_ms.p50", "")
	for _, text := range []string{all, one} {
		harmless(t, text)
		for _, want := range []string{`href="/runs/old"`, `<td class="worse">`, "worse +30.00 %<", ">Spate v2, image=", ">gone<"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s:\n%s", want, text)
			}
		}
		if strings.Contains(text, `href="/runs/gone"`) {
			t.Error("a removed run is a link")
		}
	}
	if n, m := strings.Count(all, "<svg"), strings.Count(one, "<svg"); n != 2 || m != 1 {
		t.Errorf("%d charts of two targets, %d of one", n, m)
	}
	for _, want := range []string{`<option value="nightly" selected>`, `<option value="y" selected>`,
		`<option value="e2e_ms.p50" selected>`, ": WORSE, of "} {
		if !strings.Contains(one, want) {
			t.Errorf("no %s", want)
		}
	}
	for path, want := range map[string]string{"/history?limit=x": "want a whole number", "/history?metric=none": "want one of"} {
		if a, text := s.do("GET", path, ""); a.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %s %s", path, a.Status, text)
		}
	}
	if _, text := start(t, func(c *Config) { c.Local = true }).do("GET", "/", ""); strings.Contains(text, `href="/history"`) {
		t.Error("a local run has a link to a history")
	}
}

// A page whose drawing panics does not keep others from being drawn.
func TestPanicEndsDrawingTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Runs: &fake{}})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			s.inDrawingTurn(t.Context(), func() { panic("a page") })
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if !s.inDrawingTurn(ctx, func() {}) {
			t.Error("the next page is not drawn")
		}
		synctest.Wait()
	})
}

// A page that cannot be shown says why, as a page.
func TestFailurePages(t *testing.T) {
	s := start(t)
	for path, want := range map[string]int{
		"/runs/none": 404, "/compare": 400, "/compare?baseline=none&run=none": 404, "/runs/live?stage=-1": 400, "/nothing": 404,
	} {
		a, text := s.do("GET", path, "")
		if a.StatusCode != want {
			t.Errorf("%s: %s", path, a.Status)
		}
		if path != "/nothing" && !strings.Contains(text, "Back to all runs") {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// What is wrong, what the run waits for and the verdict stand right below the title.
func TestFirstScreenSaysWhatIsWrong(t *testing.T) {
	eu := &spatev1.AgentInfo{Name: "a", Region: "eu"}
	stage := func(index uint32) *spatev1.RunEvent {
		return &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
			StageIndex: index, Expected: durationpb.New(20 * time.Second)}}}
	}
	progress := &spatev1.RunEvent{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
		StageIndex: 1, Elapsed: durationpb.New(55 * time.Second), InFlight: 4}}}
	end := &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{Verdict: "INVALID"}}}
	change := func(joined bool) *spatev1.RunEvent {
		return &spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{
			Agent: eu, Joined: joined, Reason: "no heartbeat"}}}
	}
	begin := started(eu)[0]
	running := &spatev1.RunSummary{State: spatev1.RunState_RUN_STATE_RUNNING}
	for _, c := range []struct {
		summary        *spatev1.RunSummary
		events         []*spatev1.RunEvent
		verdict, class string
		lines          []string
	}{
		{&spatev1.RunSummary{State: spatev1.RunState_RUN_STATE_WAITING, WaitsBecause: "agents are busy"}, nil,
			"WAITING", "suspect", []string{"The run waits: agents are busy."}},
		{running, []*spatev1.RunEvent{notice("waiting for agents: 2 of 3 are ready")}, "WAITING", "suspect",
			[]string{"The run is being prepared: no stage has started yet.", "waiting for agents: 2 of 3 are ready"}},
		{running, []*spatev1.RunEvent{begin, stage(0)}, "NOT JUDGED so far", "", nil},
		{running, []*spatev1.RunEvent{begin, stage(0), change(false), change(true)}, "NOT JUDGED so far", "", nil},
		{running, []*spatev1.RunEvent{begin, stage(0), end, stage(1), change(false), notice("b takes over"), progress}, "NOT JUDGED so far", "invalid",
			[]string{"agent a (eu) was lost (no heartbeat)", "b takes over",
				"The stage should have ended 35s ago: it waits for 4 requests in flight", "INVALID before: stage 1"}},
		{&spatev1.RunSummary{State: spatev1.RunState_RUN_STATE_ENDED, Verdict: "SUSPECT", Reason: "agent a lost"},
			[]*spatev1.RunEvent{begin, stage(0)}, "PARTIAL", "invalid", []string{"agent a lost"}},
	} {
		r := Run{Summary: c.summary, State: watch.New()}
		for i, e := range c.events {
			r.State.Take(uint64(i+1), e)
		}
		want := verdictView{Verdict: c.verdict, Class: c.class, Lines: c.lines}
		if diff := cmp.Diff(want, r.verdict(r.stage())); diff != "" {
			t.Error(diff)
		}
	}
}

// A fault while a page is drawn ends that page, not the program.
func TestFaultOfAPage(t *testing.T) {
	s := start(t)
	topic := &topic{more: make(chan struct{})}
	if s.server.draw(t.Context(), topic, nil, func() ([]Part, error) { panic("fault") }, false) {
		t.Error("a page was drawn")
	}
	if topic.err == nil {
		t.Error("the page does not say that it has ended")
	}
}

// Behind the points of a sweep in progress stands the curve of the last run of its plan, in grey: of a coordinator by
// its history, of a local run by the results beside its own.
func TestCurveOfTheLastRun(t *testing.T) {
	dir := t.TempDir()
	stage := results.StageResult{Target: "t", Workload: "w", Load: results.Load{Words: "concurrency 4"},
		OutputTokenThroughput: new(60.0)}
	for _, name := range []string{"old", "live"} {
		r := results.Result{Run: results.RunResult{ID: name, Plan: new("nightly"), BeginTime: new("2026-11-28T00:00:00Z")},
			Stages: []results.StageResult{stage}}
		content, err := json.Marshal(r)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name, results.File), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := New(Config{Local: true, Dir: func(id string) string { return filepath.Join(dir, id) }})
	r := Run{Summary: &spatev1.RunSummary{RunId: "live", Plan: "nightly", State: spatev1.RunState_RUN_STATE_RUNNING},
		State: watch.New()}
	r.Before = s.before(t.Context(), r.Summary)
	if len(r.Before) != 1 || r.Before[0].GetPoints()[0].GetRun() != "old" {
		t.Fatalf("before: %v", r.Before)
	}
	start := func(index uint32) *spatev1.RunEvent {
		return &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
			StageIndex: index, Target: "t", Workload: "w", Load: "concurrency 2"}}}
	}
	for _, e := range []*spatev1.RunEvent{
		start(0),
		{Event: &spatev1.RunEvent_StageProgress{
			StageProgress: &spatev1.StageProgress{OutputTokensPerSecond: new(50.0)}}},
		{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{Complete: true}}},
		start(1),
	} {
		r.State.Take(0, e)
	}
	parts, err := r.Parts()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, p := range parts {
		text += string(p.HTML)
	}
	for _, want := range []string{"grey: the last run", "<title>concurrency 4: 60.0 tok/s</title>", `<path class="f axis"`,
		"<title>concurrency 2: 50.0 tok/s</title>", `<path class="f s0"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
