package ready

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestTargetIsAskedOnceARun(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	e.MaxModelTokens = 100
	k := resourcesOf(Limits{})
	asked := 0
	for i, c := range []struct {
		run    string
		change func(*spatev1.Stage)
		again  bool
	}{
		{"one", nil, true},
		{"one", func(s *spatev1.Stage) { s.Load.Concurrency, s.Seed = 2, 8 }, false},
		{"one", func(s *spatev1.Stage) { s.Target.Model = "other" }, true},
		{"one", nil, false},
		{"two", nil, true},
	} {
		a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0)
		a.Ref.RunId = c.run
		if c.change != nil {
			c.change(a.Stage)
		}
		s, err := Prepare(t.Context(), a, nil, k)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if (e.Questions() > asked) != c.again || s.Preparation == nil {
			t.Errorf("stage %d: asked %d times, then %d; found %v", i, asked, e.Questions(), s.Preparation)
		}
		asked = e.Questions()
	}
}

// TestSharedFindings: stages that reach a server in the same way share findings, whatever else differs.
func TestSharedFindings(t *testing.T) {
	random := func(isl uint32) *spatev1.Workload {
		return &spatev1.Workload{Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: isl, Osl: 1}}}
	}
	sonnet := &spatev1.Workload{Content: &spatev1.Workload_Sonnet{Sonnet: &spatev1.SonnetContent{Isl: 9}}}
	base := func() *spatev1.Stage {
		return &spatev1.Stage{Workload: random(3), Target: &spatev1.Target{
			Name: "a", Endpoints: []string{"http://h"}, Api: "chat", Model: "m", ApiKey: "env:K",
			Headers: map[string]string{"X-A": "1"}, Tokenizer: "auto",
		}}
	}
	for name, tt := range map[string]struct {
		change func(*spatev1.Stage)
		same   bool
	}{
		"another name":   {func(s *spatev1.Stage) { s.Target.Name = "b" }, true},
		"another header": {func(s *spatev1.Stage) { s.Target.Headers["X-A"] = "2" }, true},
		"another load, seed": {func(s *spatev1.Stage) { s.Load, s.Seed = &spatev1.LoadPoint{Concurrency: 3}, 9 },
			true},
		"another length": {func(s *spatev1.Stage) { s.Workload = random(500) }, true},
		"a trace": {func(s *spatev1.Stage) {
			s.Workload = &spatev1.Workload{Content: &spatev1.Workload_Azure{}}
		}, true},
		"other timeouts":  {func(s *spatev1.Stage) { s.Target.RequestTimeout = durationpb.New(time.Second) }, true},
		"one header more": {func(s *spatev1.Stage) { s.Target.Headers["X-B"] = "1" }, false},
		"another key":     {func(s *spatev1.Stage) { s.Target.ApiKey = "env:L" }, false},
		"another model":   {func(s *spatev1.Stage) { s.Target.Model = "n" }, false},
		"another endpoint": {func(s *spatev1.Stage) { s.Target.Endpoints = append(s.Target.Endpoints, "http://i") },
			false},
		"other running usage": {func(s *spatev1.Stage) { s.Target.RunningUsage = "never" }, false},
		"a text of lines":     {func(s *spatev1.Stage) { s.Workload = sonnet }, false},
		"a text in another part of a mixture": {func(s *spatev1.Stage) {
			s.Workload, s.PartDatasets = mixtureOf(random(3), sonnet), []*spatev1.Dataset{{}, {Sha256: "one"}}
		}, false},
		"prompts of token ids": {func(s *spatev1.Stage) { s.Target.Prompts = "token_ids" }, false},
		"another text": {func(s *spatev1.Stage) {
			s.Workload, s.Dataset = sonnet, &spatev1.Dataset{Sha256: "other"}
		}, false},
	} {
		one, other := base(), base()
		switch name {
		case "a text in another part of a mixture":
			one.Workload, one.PartDatasets = mixtureOf(sonnet, random(3)), []*spatev1.Dataset{{Sha256: "one"}, {}}
		case "prompts of token ids": // sessions have text
			one.Target.Prompts = "token_ids"
			one.Workload = &spatev1.Workload{Content: &spatev1.Workload_Sessions{Sessions: &spatev1.SessionContent{}}}
		case "another text":
			one.Workload, one.Dataset = sonnet, &spatev1.Dataset{Sha256: "one"}
		}
		tt.change(other)
		a, err := findingOf(one)
		b, err2 := findingOf(other)
		if err != nil || err2 != nil || (a == b) != tt.same {
			t.Errorf("%s: same %v, %v, %v", name, a == b, err, err2)
		}
	}
}

// mixtureOf returns a mixture of workloads.
func mixtureOf(parts ...*spatev1.Workload) *spatev1.Workload {
	mix := &spatev1.Mixture{}
	for _, part := range parts {
		mix.Parts = append(mix.Parts, &spatev1.Part{Workload: part})
	}
	return &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: mix}}
}

// cancelling is a server that cancels a preparation when it is first asked something, and then does not answer.
type cancelling struct{ cancel context.CancelFunc }

func (c *cancelling) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.cancel()
	<-r.Context().Done()
}

// A preparation that was cancelled found nothing out: the next stage asks again.
func TestCancelledPreparationIsNotRemembered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(&cancelling{cancel: cancel})
	defer server.Close()
	e := enginetest.New(t, 0, 0)
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e)
	stage.Target.Endpoints = []string{server.URL}
	k := resourcesOf(Limits{})
	a := enginetest.AssignOf(stage, 0)
	if _, err := Prepare(ctx, a, nil, k); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	key, err := findingOf(stage)
	if err != nil {
		t.Fatal(err)
	}
	if found, known := k.findings.get(a.GetRef().GetRunId(), key); known {
		t.Errorf("found out %v", found)
	}
}

// TestFindingsGoStale: findings are dropped after a while, with another run, and when a target of the run is dead.
func TestFindingsGoStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f findings
		var key finding
		known := func(run string) bool { _, known := f.get(run, key); return known }
		f.forget("a")
		f.put("a", key, nil)
		time.Sleep(staleAfter)
		if !known("a") || known("b") {
			t.Error("not known in its run, or known in another")
		}
		time.Sleep(time.Second)
		if known("a") {
			t.Error("known for too long")
		}
		f.put("a", key, nil)
		if f.forget("b"); !known("a") {
			t.Error("forgotten with another run")
		}
		if f.forget("a"); known("a") {
			t.Error("not forgotten")
		}
		if f.put("a", key, nil); !known("a") {
			t.Error("not found out again")
		}
	})
}

// TestADeadTargetIsAskedAgain: a server that went away may come back as something else.
func TestADeadTargetIsAskedAgain(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	k := resourcesOf(Limits{})
	assign := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0)
	ready := func(a *spatev1.Assign) error {
		s, err := Prepare(t.Context(), a, nil, k)
		if err == nil {
			s.Close()
		}
		return err
	}
	if err := ready(assign); err != nil {
		t.Fatal(err)
	}
	dead := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0)
	dead.Stage.Target.Endpoints = []string{"http://127.0.0.1:1"}
	asked := e.Questions()
	if err := ready(dead); FailureKindOf(err) != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
		t.Fatalf("%v", err)
	}
	if err := ready(assign); err != nil || e.Questions() <= asked {
		t.Errorf("asked %d times, then %d: %v", asked, e.Questions(), err)
	}
}

// A stage waits for a server that is starting, and counts what it asked. A later stage does not ask again.
func TestAStageWaitsForItsServer(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	k := resourcesOf(Limits{})
	var said []string
	k.Waiting = func(_ *spatev1.AssignmentRef, text string) { said = append(said, text) }
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e)
	stage.Target.Ready = &spatev1.Ready{Within: durationpb.New(time.Minute), Path: "/none"}
	requests := func(status uint32) uint32 {
		stage.Target.Ready.Status = status
		s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, k)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Preparation.GetRequests()
	}
	if first, later := requests(http.StatusNotFound), requests(http.StatusNotFound); first != later+1 || said != nil {
		t.Errorf("%d requests, then %d; said %q", first, later, said)
	}
	stage.Target.Endpoints = []string{"http://127.0.0.1:1"}
	stage.Target.Ready.Within = durationpb.New(time.Nanosecond)
	_, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, k)
	if FailureKindOf(err) != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD || !strings.Contains(err.Error(), "not ready within") {
		t.Errorf("%v", err)
	}
}

// One agent asks the target; the others do as it found, and ask nothing: not for a later stage either.
func TestFoundByAnotherAgent(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	assign := func() *spatev1.Assign {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e)
		stage.Target.Api, stage.Target.Tokenizer, stage.Target.ExactOutput = "chat", "auto", "auto"
		return enginetest.AssignOf(stage, 0)
	}
	ready := func(a *spatev1.Assign, found chan *spatev1.Found, k *Resources) *spatev1.Applied {
		s, err := Prepare(t.Context(), a, found, k)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Applied(a.GetRef())
	}
	first := ready(assign(), nil, resourcesOf(Limits{}))
	asked, other, waits := e.Questions(), resourcesOf(Limits{}), assign()
	waits.AwaitsFound = true
	found := make(chan *spatev1.Found, 1)
	found <- first.GetFound()
	second := ready(waits, found, other)
	if second.GetFound() != nil || second.GetPreparation().GetRequests() != 0 ||
		second.GetPreparation().GetLengths() != first.GetPreparation().GetLengths() {
		t.Errorf("%v after %v", second, first)
	}
	if third := ready(assign(), nil, other); third.GetFound() == nil || e.Questions() != asked || asked == 0 {
		t.Errorf("asked %d times, then %d", asked, e.Questions())
	}
}
