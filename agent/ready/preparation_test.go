package ready

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/workload"
)

// split returns a model that splits one word in every `one` words into two or three tokens.
func split(one int, where func(first bool) bool) func(string, bool) int {
	extra := make(map[string]int)
	for i, word := range workload.LexiconWords() {
		if i%one == one-1 {
			extra[word] = 1 + i%2
		}
	}
	return func(word string, first bool) int {
		if where(first) {
			return extra[word]
		}
		return 0
	}
}

func anywhere(bool) bool      { return true }
func atBegin(first bool) bool { return first }

// hardlyWhole is a model in which a fortieth of the words are one token.
func hardlyWhole(word string, _ bool) int {
	return min(1, slices.Index(workload.LexiconWords(), word)%40)
}

// fewWhole is a model in which a sixth of the words are one token.
func fewWhole(word string, _ bool) int { return min(1, slices.Index(workload.LexiconWords(), word)%6) }

// checkPrompts makes the workload generate 1,000 prompts of random length, and the server count them.
func checkPrompts(t *testing.T, f *spatev1.Found, form workload.Form, count func(string) int) {
	t.Helper()
	lots := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(1000) {
		isl := templateOf(f) + 1 + lots.Uint32N(300)
		w, err := workload.New(workload.Config{
			Workload: &spatev1.Workload{Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: isl,
				Osl: 1}}},
			Seed: i, Words: f.Words, FirstWords: f.First, Template: templateOf(f),
		})
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := w.AppendPrompt(nil, workload.Request{Index: i, Form: form})
		if err != nil {
			t.Fatal(err)
		}
		if got := count(textOf(t, prompt)); got != int(isl) {
			t.Fatalf("asked for %d tokens, the server counts %d: %s", isl, got, prompt)
		}
	}
}

// textOf returns the text of a prompt: a string, or a chat of one message.
func textOf(t *testing.T, prompt []byte) string {
	t.Helper()
	var text string
	if json.Unmarshal(prompt, &text) == nil {
		return text
	}
	var chat []struct{ Content string }
	if err := json.Unmarshal(prompt, &chat); err != nil || len(chat) != 1 {
		t.Fatalf("%.100s: %v", prompt, err)
	}
	return chat[0].Content
}

func TestExactLengths(t *testing.T) {
	for name, tt := range map[string]struct {
		tokenizer string
		api       string
		server    *fakeServer
		least     int // words
		requests  int64
	}{
		"server": {"server", "chat", &fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true,
			usage: true}, 512, 12},
		"server, some words split": {"server", "chat",
			&fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true, extra: split(50, anywhere)},
			256, 40},
		"server, some words split at the start": {"server", "chat",
			&fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true, extra: split(40, atBegin)}, 512,
			12},
		"server without chats": {"server", "chat", &fakeServer{template: 7, feed: 1, tokenizer: true,
			usage: true}, 512, 14},
		"server, completions of text": {"server", "completions",
			&fakeServer{special: 1, template: 7, feed: 1, tokenizer: true}, 512, 11},
		"server that drops line feeds": {"server", "chat", &fakeServer{template: 7, tokenizer: true, chats: true}, 512,
			12},
		"usage": {"usage", "chat", &fakeServer{special: 1, template: 20, feed: 1, usage: true},
			512, 11},
		"usage, some words split": {"usage", "chat", &fakeServer{template: 20, feed: 2, usage: true,
			extra: split(100, anywhere)}, 256, 30},
		"usage, the first word split": {"usage", "chat", &fakeServer{template: 20, feed: 1, usage: true,
			extra: func(w string, _ bool) int {
				if w == "able" { // the first word of all
					return 1
				}
				return 0
			}}, 256, 48},
		"server, a third of the words split at the start": {"server", "chat",
			&fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true, extra: split(3, atBegin)}, 512,
			20},
		"usage, a third of the words split at the start": {"usage", "chat",
			&fakeServer{special: 1, template: 7, feed: 1, usage: true, extra: split(3, atBegin)}, 512, 19},
		"server, a third of the words split": {"server", "completions",
			&fakeServer{special: 1, feed: 1, tokenizer: true, extra: split(3, anywhere)}, 50, 100},
		"usage, every word split at the start": {"usage", "chat",
			&fakeServer{template: 7, feed: 1, usage: true,
				extra: func(_ string, first bool) int { return map[bool]int{true: 1}[first] }}, 512, 11},
		"usage, a short model": {"usage", "chat",
			&fakeServer{special: 1, template: 40, feed: 2, usage: true, limit: 500, models: listing("m", "vllm", 500)},
			100, 11},
		"usage, completions of text": {"usage", "completions", &fakeServer{special: 1, feed: 1, usage: true}, 512, 11},
	} {
		t.Run(name, func(t *testing.T) {
			stage := stageOf(&spatev1.Target{Api: tt.api, Prompts: "text", Tokenizer: tt.tokenizer, Model: "m"})
			f, err := found(t, tt.server, stage)
			if err != nil {
				t.Fatal(err)
			}
			form, count := workload.Messages, tt.server.chat
			if tt.api == "completions" {
				form, count = workload.Text, func(text string) int { return tt.server.special + tt.server.count(text) }
			}
			if len(f.Words) < tt.least || f.GetPreparation().GetLengths() != tt.tokenizer ||
				f.GetPreparation().TemplateTokens == nil {
				t.Errorf("%d words, template %d, %v", len(f.Words), templateOf(f), f.GetPreparation())
			}
			checkPrompts(t, f, form, count)
			if sent := tt.server.tokenized.Load() + tt.server.generated.Load(); sent > tt.requests {
				t.Errorf("%d requests", sent)
			}
			again, err := found(t, tt.server, stage)
			if err != nil || !slices.Equal(again.Words, f.Words) || templateOf(again) != templateOf(f) {
				t.Errorf("another agent finds %d words and template %d: %v", len(again.Words), templateOf(again), err)
			}
		})
	}
}

func TestLengthsThatCannotBeExact(t *testing.T) {
	for name, tt := range map[string]struct {
		tokenizer string
		server    *fakeServer
		want      string
	}{
		"no tokenizer": {"server", &fakeServer{usage: true}, "/tokenize: 404"},
		"no usage":     {"usage", &fakeServer{}, "no usage with prompt tokens"},
		"no way to a chat": {"server", &fakeServer{tokenizer: true},
			"the tokens that the chat template adds cannot be counted"},
		"every word is split": {"server", &fakeServer{tokenizer: true, chats: true, feed: 1, extra: split(1, anywhere)},
			"0 of"},
		"most words split": {"usage", &fakeServer{usage: true, feed: 1, extra: hardlyWhole},
			"of 512 words are known to be one token each"},
		"tokens over spaces": {"usage", &fakeServer{usage: true, feed: 1, merged: func(before, word string) bool {
			return before > word && before[0]%2 == 0
		}}, "the model's tokens span the spaces between words"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := found(t, tt.server, stageOf(&spatev1.Target{Tokenizer: tt.tokenizer}))
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "target t: tokenizer "+tt.tokenizer) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if tt.server.generated.Load()+tt.server.tokenized.Load() > mostRequests {
				t.Errorf("%d and %d requests", tt.server.generated.Load(), tt.server.tokenized.Load())
			}
		})
	}
}

func TestOtherLengths(t *testing.T) {
	trace := &spatev1.Workload{Content: &spatev1.Workload_Mooncake{Mooncake: &spatev1.TraceContent{}}}
	rows := &spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: &spatev1.FileContent{}}}
	for _, tt := range []struct {
		target   *spatev1.Target
		workload *spatev1.Workload
		want     string
	}{
		{&spatev1.Target{Api: "completions"}, nil, "token_ids"},
		{&spatev1.Target{Api: "completions", Tokenizer: "usage"}, trace, "token_ids"},
		{&spatev1.Target{Api: "completions"}, rows, "own"},
		{&spatev1.Target{Tokenizer: "server"}, rows, "own"},
		{&spatev1.Target{}, trace, "words"},
		{&spatev1.Target{Tokenizer: "words"}, nil, "words"},
	} {
		stage := stageOf(tt.target)
		if tt.workload != nil {
			stage.Workload = tt.workload
		}
		s := &fakeServer{models: listing("", "vllm", 0), usage: true}
		f, err := found(t, s, stage)
		if err != nil || f.GetPreparation().GetLengths() != tt.want || f.GetPreparation().TemplateTokens != nil ||
			len(f.Words) > 0 || s.generated.Load() > 0 {
			t.Errorf("%v: %v, %v", tt.target, f.GetPreparation(), err)
		}
		if unchecked := strings.Contains(strings.Join(f.GetPreparation().GetNotes(), " "),
			"is not checked"); unchecked != (tt.want == "words") {
			t.Errorf("%v: notes %q", tt.target, f.GetPreparation().GetNotes())
		}
	}
}

func TestFile(t *testing.T) {
	stage := stageOf(&spatev1.Target{Tokenizer: "file:tokenizer.json"})
	if _, err := found(t, &fakeServer{}, stage); err == nil || !strings.Contains(err.Error(), "its words are missing") {
		t.Errorf("no words: %v", err)
	}
	words := []string{"alpha", "beta", "gamma"}
	stage.Lexicon = &spatev1.Lexicon{Words: words, Source: "file"}
	s := &fakeServer{special: 1, template: 6, usage: true}
	f, err := found(t, s, stage)
	if err != nil || !slices.Equal(f.Words, words) || templateOf(f) != 7 ||
		s.generated.Load() != 5 {
		t.Errorf("%v, %v, %d requests", f, err, s.generated.Load())
	}
	another := &fakeServer{usage: true, extra: func(string, bool) int { return 1 }}
	for name, other := range map[string]*fakeServer{"another model": another, "no usage": {}} {
		f, err = found(t, other, stage)
		if err != nil || templateOf(f) != 0 || f.GetPreparation().TemplateTokens != nil ||
			!strings.Contains(strings.Join(f.GetPreparation().GetNotes(), " "),
				"What the server adds to a prompt is not known") {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

func TestServers(t *testing.T) {
	for name, tt := range map[string]struct {
		server *fakeServer
		target *spatev1.Target
		exact  bool
		is     string
		most   uint32
		note   string // part of a note; "": no note
	}{
		"vLLM": {&fakeServer{models: listing("m", "vllm", 8192), version: "0.9.1"},
			&spatev1.Target{Model: "m"}, true, "vLLM 0.9.1", 8192, ""},
		"SGLang": {&fakeServer{models: listing("m", "sglang", 8192)}, &spatev1.Target{Model: "m"}, true,
			"SGLang", 8192, ""},
		"TensorRT-LLM": {&fakeServer{models: listing("m", "tensorrt_llm", 0), version: "1.0"},
			&spatev1.Target{Model: "m"}, true, "TensorRT-LLM 1.0", 0, ""},
		"simulator": {&fakeServer{models: listing("simulated", "spate", 0)}, &spatev1.Target{Model: "m"}, true,
			"Spate simulator", 0, ""},
		"never": {&fakeServer{models: listing("m", "vllm", 0)},
			&spatev1.Target{Model: "m", ExactOutput: "never"}, false, "vLLM", 0, "exact_output: never"},
		"always": {&fakeServer{models: listing("m", "x", 0)},
			&spatev1.Target{Model: "m", ExactOutput: "always"}, true, "", 0, ""},
		"unknown": {&fakeServer{models: listing("m", "x", 9000), usage: true}, &spatev1.Target{Model: "m",
			ExactOutput: "auto"}, false, "", 9000, "accepts any value for ignore_eos and min_tokens"},
		"the body asks": {&fakeServer{models: listing("m", "x", 0)},
			&spatev1.Target{Model: "m", Body: fields(t, "ignore_eos", true)}, true, "", 0, ""},
		"the body forbids": {&fakeServer{models: listing("m", "vllm", 0)}, &spatev1.Target{Model: "m",
			Body: fields(t, "ignore_eos", false)}, false, "vLLM", 0, "body sets ignore_eos: false"},
		"another model": {&fakeServer{models: listing("n", "vllm", 8192)}, &spatev1.Target{Model: "m"}, true,
			"vLLM", 0, `does not list the model "m"; it lists "n"`},
		"model of the body": {&fakeServer{models: listing("n", "vllm", 0)},
			&spatev1.Target{Model: "m", Body: fields(t, "model", "n")}, true, "vLLM", 0, ""},
		"no models": {&fakeServer{models: `{"data":[]}`}, &spatev1.Target{ExactOutput: "always"}, true, "", 0,
			"lists no models"},
		"no list": {&fakeServer{}, &spatev1.Target{ExactOutput: "always"}, true, "", 0,
			"are not known. Why: GET /v1/models: 404"},
	} {
		tt.target.Api = "completions"
		f, err := found(t, tt.server, stageOf(tt.target))
		p := f.GetPreparation()
		if err != nil || p.GetExactOutput() != tt.exact || p.GetServer() != tt.is || p.GetMaxModelTokens() != tt.most ||
			(p.MaxModelTokens == nil) != (tt.most == 0) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		notes := strings.Join(p.GetNotes(), " ")
		if (notes == "") != (tt.note == "") || !strings.Contains(notes, tt.note) || len(p.GetNotes()) > 1 {
			t.Errorf("%s: notes %q", name, p.GetNotes())
		}
	}
}

// fields returns a body with one field.
func fields(t *testing.T, name string, value any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(map[string]any{name: value})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// simulated serves the built-in simulator, which counts words, until the test ends.
func simulated(t *testing.T) *simulator.Server {
	c := config.Default()
	c.ChatTemplateTokens = 9
	server, err := simulator.Start(c, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(context.Background()) })
	return server
}

// TestSimulator prepares against the built-in simulator, which counts words.
func TestSimulator(t *testing.T) {
	server := simulated(t)
	client, err := stream.New(stream.Config{Endpoints: server.URLs(), Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f, err := Find(t.Context(), client, stageOf(&spatev1.Target{Tokenizer: "usage", Model: "m"}), nil)
	ownWords := len(workload.LexiconWords())
	if err != nil || templateOf(f) != 9 || len(f.Words) != ownWords || !f.GetPreparation().GetExactOutput() ||
		len(f.GetPreparation().GetNotes()) > 0 {
		t.Errorf("%v, %d words, %v", f.GetPreparation(), len(f.Words), err)
	}
}

// deaf is a client of a server that never answers.
type deaf struct{ calls int }

func (d *deaf) wait(ctx context.Context) error {
	d.calls++
	<-ctx.Done()
	return ctx.Err()
}
func (d *deaf) Form() workload.Form { return workload.Messages }
func (d *deaf) Models(ctx context.Context, _ int) ([]api.Model, error) {
	return nil, d.wait(ctx)
}
func (d *deaf) Version(ctx context.Context, _ int) (string, error) { return "", d.wait(ctx) }
func (d *deaf) Tokenize(ctx context.Context, _ int, _ string) (api.Tokens, error) {
	return api.Tokens{}, d.wait(ctx)
}
func (d *deaf) TokenizeChat(ctx context.Context, _ int, _ string) (api.Tokens, error) {
	return api.Tokens{}, d.wait(ctx)
}
func (d *deaf) Probe(ctx context.Context, _ int, _ string) error { return d.wait(ctx) }

func (*deaf) LeaveOut([]string) error { return nil }

func (d *deaf) Try(ctx context.Context, _ int, _ stream.TrialRequest) (stream.TrialResult, error) {
	return stream.TrialResult{}, d.wait(ctx)
}
func (d *deaf) Measure(ctx context.Context, _ int, _ string) (uint64, error) { return 0, d.wait(ctx) }

// A server that never answers is asked only once.
func TestSilence(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for tokenizer, fails := range map[string]bool{"words": false, "file:x": false, "server": true, "usage": true} {
		d := &deaf{}
		stage := stageOf(&spatev1.Target{Tokenizer: tokenizer})
		stage.Lexicon = &spatev1.Lexicon{Words: []string{"a"}}
		f, err := Find(ctx, d, stage, nil)
		if (err != nil) != fails || d.calls != 1 {
			t.Errorf("%s: %v after %d calls", tokenizer, err, d.calls)
		}
		if err == nil && !strings.Contains(fmt.Sprint(f.GetPreparation().GetNotes()), "does not list its models") {
			t.Errorf("%s: notes %q", tokenizer, f.GetPreparation().GetNotes())
		}
		if errors.Is(err, errNoRequestsLeft) {
			t.Errorf("%s: %v", tokenizer, err)
		}
	}
}
