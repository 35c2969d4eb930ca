package ready

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// answering answers each request by a function of its body and its number.
type answering struct {
	asked  atomic.Int64
	answer func(body string, number int64) string
}

func (a *answering) Do(_ context.Context, r stream.Request, o *stream.Observation) {
	*o = stream.Observation{End: clock.Now(), Answer: []byte(a.answer(string(r.Body), a.asked.Add(1)))}
}

// canariesOf returns the canaries of a stage at an engine whose answers to chats are "a<>".
func canariesOf(t *testing.T, change func(*spatev1.Stage)) (*Stage, *enginetest.Engine) {
	t.Helper()
	e := enginetest.New(t, 0, 0)
	e.KeepBodies = true
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e)
	stage.Target.Api = "chat"
	stage.Canaries = &spatev1.Canaries{Share: 0.5}
	if change != nil {
		change(stage)
	}
	s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesOf(Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, e
}

// A target is asked all canaries before the load, greedily and for text alone, and they are due beside the requests.
func TestCanariesAreAskedBeforeTheLoad(t *testing.T) {
	s, e := canariesOf(t, func(s *spatev1.Stage) {
		s.Target.Body, _ = structpb.NewStruct(map[string]any{"temperature": 0.7, "response_format": map[string]any{"type": "text"},
			"max_tokens": 900})
	})
	count := s.Preparation.GetCanaries()
	if len(count) != 1 || count[0].GetAsked() != 1000 || count[0].GetDiffering() != 0 || count[0].GetTasks() != 300 ||
		count[0].GetRight() != 0 {
		t.Fatalf("quiet: %v, notes %q", count, s.Preparation.GetNotes())
	}
	greedy := 0
	for _, body := range e.Bodies() {
		if strings.Contains(body, "capital of France") {
			greedy++
			if !strings.Contains(body, `"temperature":0}`) || !strings.Contains(body, `"max_tokens":24,`) ||
				strings.Contains(body, "response_format") || strings.Contains(body, "ignore_eos") {
				t.Fatalf("body %s", body)
			}
		}
	}
	due, numbers := 0, map[int]bool{}
	for i := range uint64(1000) {
		if number, is := s.Canaries.Due(0, i, 0); is {
			due++
			numbers[number] = true
		}
	}
	if greedy != 50 || due < 450 || due > 550 || len(numbers) != 20 {
		t.Errorf("one canary was asked %d times; %d of 1,000 requests have one, of %d", greedy, due, len(numbers))
	}
	if _, is := s.Canaries.Due(1, 0, 0); is {
		t.Error("an endpoint that was not asked has canaries")
	}
}

// What cannot be asked, or has no text to compare, is told and does not fail the stage.
func TestCanariesThatCannotBeAsked(t *testing.T) {
	for want, change := range map[string]func(*spatev1.Stage){
		"No canaries are asked: api embeddings cannot be asked for greedy decoding.": func(s *spatev1.Stage) { s.Target.Api = "embeddings" },
		"No canaries are asked: 400 Bad Request: not supported: temperature.":        nil,
	} {
		server := httptest.NewServer(picky{"temperature", 0})
		defer server.Close()
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, enginetest.New(t, 0, 0))
		stage.Target.Api, stage.Target.Endpoints, stage.Canaries = "chat", []string{server.URL}, &spatev1.Canaries{Share: 1}
		if change != nil {
			change(stage)
		}
		s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesOf(Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if notes := strings.Join(s.Preparation.GetNotes(), "\n"); !strings.Contains(notes, want) || s.Canaries != nil ||
			s.Preparation.GetCanaries() != nil {
			t.Errorf("notes %q, want %q", notes, want)
		}
	}
}

// Most answers to a canary are its answer, also if the first one is wrong. What is not clear is not asked again.
func TestQuietAnswers(t *testing.T) {
	s, _ := canariesOf(t, nil)
	c, paris := s.Canaries, atomic.Int64{}
	quiet, count, _ := c.askEndpoint(t.Context(), &answering{answer: func(body string, number int64) string {
		switch {
		case strings.Contains(body, "capital of France") && paris.Add(1)%2 == 0:
			return fmt.Sprint(number)
		case strings.Contains(body, "Count on") && number == 1, strings.Contains(body, "Monday"):
			return ""
		case number == 8:
			return "wrong"
		}
		return "right"
	}}, 0, 20)
	unclear := 0
	for _, h := range quiet.GetHashes() {
		if h == 0 {
			unclear++
		}
	}
	if unclear != 3 || count.GetAsked() != 360 || count.GetDiffering() != 11 {
		t.Errorf("%d canaries are not clear; %v", unclear, count)
	}
	c.quiet[0] = quiet
	says := func(answer string) Answer {
		return c.Ask(t.Context(), &answering{answer: func(string, int64) string { return answer }}, 0, 7, "")
	}
	if says("right").Differs || !says("wrong").Differs || !says("").Differs {
		t.Error("an answer is not compared with that of the quiet endpoint")
	}
}

// The tasks differ and are the same each time. A right answer may stand in a sentence, but not within another number.
func TestTasks(t *testing.T) {
	all, again := tasks(), tasks()
	seen := map[string]bool{}
	for i, one := range all {
		seen[one.text] = true
		if one != again[i] || one.right == "" {
			t.Errorf("task %d: %+v, then %+v", i, one, again[i])
		}
		if strings.Contains(one.text, "box") && !strings.Contains(one.text, " is "+one.right+".\n") {
			t.Errorf("%s: the key %s is not in the text", one.text, one.right)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d different tasks", len(seen))
	}
	sum, object := canary{right: "42"}, all[5]
	for answer, want := range map[string]bool{"42": true, "The sum is 42.": true, "142": false, "420": false, "": false} {
		if sum.isRight(answer) != want {
			t.Errorf("%q is right: %v", answer, !want)
		}
	}
	if !object.isRight("```json\n{\"name\": \"Ann\", \"age\": 41}") || object.isRight(`{"name": "Ann"}`) {
		t.Errorf("%s", object.right)
	}
}

// A server that takes seconds for an answer is asked a part of the canaries alone, and all of them at once.
func TestASlowServerIsAskedAllCanaries(t *testing.T) {
	s, _ := canariesOf(t, nil)
	synctest.Test(t, func(t *testing.T) {
		slow := &answering{answer: func(string, int64) string { time.Sleep(2 * time.Second); return "right" }}
		ctx, cancel := context.WithTimeout(t.Context(), quietTime)
		defer cancel()
		quiet, count, _ := s.Canaries.askEndpoint(ctx, slow, 0, 50)
		if count.GetAsked() != 7+6*20 || slices.Contains(quiet.GetHashes(), 0) {
			t.Errorf("%v, %v", count, quiet)
		}
	})
}

func TestAlike(t *testing.T) {
	for texts, want := range map[[2]string]uint64{
		{"a b c", "a b d"}: 2, {"", "a"}: 0, {"a b", "a b c"}: 2, {"x", "a"}: 0,
	} {
		if got := alike(texts[0], texts[1]); got != want {
			t.Errorf("%q: %d, want %d", texts, got, want)
		}
	}
}
