package ready

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// TestAuto: the default uses what works, makes prompts exact with that, and never fails.
func TestAuto(t *testing.T) {
	for name, tt := range map[string]struct {
		server   *fakeServer
		want     string
		template uint32
		note     string // part of a note; "": no note about lengths
	}{
		"the tokenizer takes chats": {&fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true,
			usage: true}, "server", 8, ""},
		"the tokenizer takes texts": {&fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, usage: true},
			"server", 8, ""},
		"usage alone": {&fakeServer{template: 20, usage: true}, "usage", 20, ""},
		"a tokenizer, but no usage": {&fakeServer{template: 20, tokenizer: true}, "words", 0,
			"by server: the tokens that the chat template adds cannot be counted: POST /v1/chat/"},
		"neither": {&fakeServer{template: 20}, "words", 0,
			"by server: POST /tokenize: 404 Not Found"},
		"words that are not tokens": {&fakeServer{tokenizer: true, chats: true, usage: true,
			extra: split(1, anywhere)}, "words", 0, "0 of"},
		"a word in three at the start": {&fakeServer{template: 9, usage: true, extra: split(3, atBegin)},
			"usage", 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stage := stageOf(&spatev1.Target{Api: "chat", Tokenizer: "auto", Model: "m"})
			f, err := found(t, tt.server, stage)
			p := f.GetPreparation()
			if err != nil || p.GetLengths() != tt.want || templateOf(f) != tt.template ||
				(p.TemplateTokens == nil) != (tt.want == "words") {
				t.Fatalf("%v, %v", p, err)
			}
			notes := strings.Join(p.GetNotes(), " ")
			if !strings.Contains(notes, tt.note) ||
				strings.Contains(notes, "counts as one token") != (tt.note != "") {
				t.Errorf("notes %q", p.GetNotes())
			}
			asked := tt.server.tokenized.Load() + tt.server.generated.Load()
			if p.GetRequests() > mostRequests || p.GetRequests() < uint32(asked) {
				t.Errorf("%d requests, %d told", asked, p.GetRequests())
			}
			if tt.want != "words" {
				checkPrompts(t, f, workload.Messages, tt.server.chat)
			}
		})
	}
}

// TestAutoOnASlowServer: two seconds per request must not add up to minutes, and a server that hangs does not fail the
// run.
func TestAutoOnASlowServer(t *testing.T) {
	for takes, want := range map[time.Duration]string{2 * time.Second: "server", 7 * time.Second: "words",
		time.Hour: "words"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := &slowClient{takes: takes}
			f, err := Find(t.Context(), c,
				stageOf(&spatev1.Target{Model: "m", Api: "chat", Tokenizer: "auto", ExactOutput: "auto"}), nil)
			if err != nil || f.GetPreparation().GetLengths() != want || time.Since(start) > limit {
				t.Errorf("%v a request: %v after %v: %v", takes, f.GetPreparation(), time.Since(start), err)
			}
		})
	}
}

// TestTrials: findings about outputs depend on what the server does, not on its name.
func TestTrials(t *testing.T) {
	both := []string{"ignore_eos", "min_tokens"}
	all := append([]string{"continuous_usage_stats"}, both...)
	for name, tt := range map[string]struct {
		server  *fakeServer
		target  *spatev1.Target
		exact   string // ExactOutputBy; "": not exact; "disproved": not exact, by a trial
		running bool
		is      string
		tried   int64
		note    string
	}{
		"vLLM": {&fakeServer{models: listing("m", "vllm", 0), version: "1", usage: true, reads: both,
			running: true}, nil, "known", true, "vLLM 1", 1, ""},
		"Dynamo": {&fakeServer{models: listing("m", "nvidia", 0), usage: true, reads: both, running: true,
			short: 3}, nil, "tried", true, "Dynamo", 2, ""},
		"one of the two": {&fakeServer{models: listing("m", "x", 0), usage: true, reads: both[1:]}, nil, "tried",
			false, "", 3, ""},
		"a gateway": {&fakeServer{models: listing("m", "openai", 0), usage: true, reads: both, gateway: "1.106",
			software: "vllm-0.32.0-39"}, nil, "tried", false, "LiteLLM 1.106 before vLLM 0.32.0", 2, ""},
		"ignores fields": {&fakeServer{models: listing("m", "openai", 0), usage: true}, nil, "disproved", false, "", 3,
			"accepts any value for ignore_eos and min_tokens"},
		"drops some": {&fakeServer{models: listing("m", "x", 0), usage: true, reads: both, drops: 3}, nil, "tried", false,
			"", 5, ""},
		"drops all": {&fakeServer{models: listing("m", "x", 0), usage: true, drops: 99}, nil, "", false, "", 8,
			"a request that shows whether the server reads ignore_eos and min_tokens failed ("},
		"ends early": {&fakeServer{models: listing("m", "vllm", 0), usage: true, short: 5}, nil, "disproved", false, "vLLM",
			1, "asked for exactly 16 tokens with ignore_eos and min_tokens, the server generated 5"},
		"refuses both": {&fakeServer{models: listing("m", "openai", 0), usage: true, refuses: all}, nil, "disproved", false,
			"", 4, "the server rejects ignore_eos and min_tokens"},
		"refuses usage": {&fakeServer{models: listing("m", "vllm", 0), usage: true, reads: both, refuses: all[:1]},
			nil, "known", false, "vLLM", 2, ""},
		"refuses exact": {&fakeServer{models: listing("m", "openai", 0), usage: true, running: true, refuses: both},
			nil, "disproved", true, "", 3, "the server rejects ignore_eos and min_tokens"},
		"tells no usage": {&fakeServer{models: listing("m", "x", 0), reads: both}, nil, "", false, "", 1,
			"does not report how many tokens it generated"},
		"simulator": {&fakeServer{models: listing("m", "spate", 0)}, nil, "known", true,
			"Spate simulator", 0, ""},
		"always": {&fakeServer{models: listing("m", "x", 0)},
			&spatev1.Target{ExactOutput: "always", RunningUsage: "always"}, "plan", true, "", 0, ""},
		"never": {&fakeServer{models: listing("m", "vllm", 0), usage: true, reads: both},
			&spatev1.Target{ExactOutput: "never", RunningUsage: "never"}, "", false, "vLLM", 0, "exact_output: never"},
		"the body": {&fakeServer{models: listing("m", "x", 0)},
			&spatev1.Target{ExactOutput: "auto", RunningUsage: "auto", Body: bodyOf(t)}, "plan", false, "", 0, ""},
		"running alone": {&fakeServer{models: listing("m", "x", 0), usage: true, running: true},
			&spatev1.Target{ExactOutput: "always", RunningUsage: "auto"}, "plan", true, "", 1, ""},
		"exactness alone": {&fakeServer{models: listing("m", "x", 0), usage: true, running: true, reads: both},
			&spatev1.Target{ExactOutput: "auto", RunningUsage: "never"}, "tried", false, "", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := tt.target
			if target == nil {
				target = &spatev1.Target{ExactOutput: "auto", RunningUsage: "auto"}
			}
			target.Api, target.Prompts, target.Model = "chat", "", "m"
			f, err := found(t, tt.server, stageOf(target))
			p := f.GetPreparation()
			exact, by := tt.exact != "" && tt.exact != "disproved", strings.Replace(tt.exact, "disproved", "tried", 1)
			if err != nil || p.GetExactOutputBy() != by || p.GetExactOutput() != exact ||
				p.GetRunningUsage() != tt.running || p.GetServer() != tt.is {
				t.Errorf("%v, %v", p, err)
			}
			notes := strings.Join(p.GetNotes(), " ")
			if n := tt.server.tried.Load(); n != tt.tried || !strings.Contains(notes, tt.note) ||
				strings.Contains(notes, "Outputs") != (tt.note != "") {
				t.Errorf("%d trials, notes %q", n, p.GetNotes())
			}
		})
	}
}

// TestFieldsThatServersRefuse: what the server refuses and names is left out of all requests, which ask for the length
// of outputs by the field that it accepts.
func TestFieldsThatServersRefuse(t *testing.T) {
	exact := []string{"ignore_eos", "min_tokens"}
	for name, tt := range map[string]struct {
		refuses, left []string
		tried         int64
	}{
		"o-series":    {append(slices.Clone(exact), "max_tokens"), []string{"max_tokens"}, 8},
		"Mistral":     {append(slices.Clone(exact), "stream_options"), []string{"stream_options"}, 8},
		"both":        {[]string{"max_tokens", "stream_options"}, []string{"max_tokens", "stream_options"}, 9},
		"other field": {[]string{"colour"}, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeServer{models: listing("m", "openai", 0), usage: true, refuses: tt.refuses}
			target := &spatev1.Target{Api: "chat", Model: "m", ExactOutput: "auto", RunningUsage: "auto",
				Tokenizer: "usage", Body: &structpb.Struct{Fields: map[string]*structpb.Value{"colour": structpb.NewStringValue("red")}}}
			if tt.left != nil {
				target.Body = nil
			}
			f, err := found(t, s, stageOf(target))
			if p := f.GetPreparation(); !slices.Equal(p.GetLeftOut(), tt.left) || s.tried.Load() != tt.tried {
				t.Errorf("%v, %d trials, %v", p, s.tried.Load(), err)
			}
			if tt.left == nil {
				return
			}
			said := slices.ContainsFunc(f.GetPreparation().GetNotes(), func(n string) bool {
				return strings.Contains(n, "The server refuses "+strings.Join(tt.left, " and ")+": requests are sent without") &&
					strings.Contains(n, "max_completion_tokens has the length") == slices.Contains(tt.left, "max_tokens")
			})
			if err != nil || !said || f.GetPreparation().GetLengths() != "usage" || templateOf(f) != 0 {
				t.Errorf("%v, %v", f.GetPreparation(), err)
			}
		})
	}
}

// TestTrialThatFails: a server that does not know the model reports that, and its name decides.
func TestTrialThatFails(t *testing.T) {
	s := &fakeServer{models: listing("other", "vllm", 0)}
	// the server has no such path
	target := &spatev1.Target{Api: "responses", Model: "m", ExactOutput: "auto", Tokenizer: "auto"}
	f, err := found(t, s, stageOf(target))
	notes := strings.Join(f.GetPreparation().GetNotes(), " ")
	if err != nil || f.GetPreparation().GetExactOutputBy() != "known" ||
		!strings.Contains(notes, `does not list the model "m"; it lists "other"`) ||
		!strings.Contains(notes, "A short request to the server failed: POST /v1/responses: 404 Not Found") ||
		!strings.Contains(notes, "by server: POST /tokenize: 404 Not Found: 404 page not found; short requests fail.") {
		t.Errorf("%v, %v", f.GetPreparation(), err)
	}
}

// Models of a mixture's parts that the server does not list are noted; one that lists none, or that serves any, is not
// doubted.
func TestUnlistedModels(t *testing.T) {
	w := &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: &spatev1.Mixture{Parts: []*spatev1.Part{
		{Model: "m"}, {Models: &spatev1.Models{Prefix: "lora-", Count: 3}}, {Model: "lora-0"}, {}}}}}
	for models, note := range map[string]string{
		listing("m", "vllm", 0): `does not list 3 of the models that parts of the mixture name, such as "lora-0"`,
		`{"data":[{"id":"m"},{"id":"lora-0"},{"id":"lora-1"},{"id":"lora-2"}]}`: "",
		"":                       "",
		listing("m", "spate", 0): "",
	} {
		f, err := found(t, &fakeServer{models: models}, stageOf(&spatev1.Target{Api: "chat", Model: "m"}))
		got := unlistedModels(w, f.Models)
		if err != nil || (got == "") != (note == "") || !strings.Contains(got, note) {
			t.Errorf("%s: %q, %v, want %q", models, got, err, note)
		}
	}
}

// TestEndpointsThatDiffer: each endpoint is asked what it is.
func TestEndpointsThatDiffer(t *testing.T) {
	servers := []*fakeServer{
		{models: listing("m", "vllm", 8192), version: "1"},
		{models: listing("m", "vllm", 8192), version: "1"},
		{models: listing("n", "vllm", 8192), version: "1"},
		{models: listing("m", "vllm", 8192), version: "2"},
		{models: listing("m", "sglang", 8192), version: "1"},
		{models: listing("m", "vllm", 4096), version: "1"},
		{},
	}
	want := []string{"", "", `it does not list the model "m"; it lists "n"`, "it is vLLM 2, the first is vLLM 1",
		"it is SGLang 1, the first is vLLM 1",
		"it accepts at most 4096 tokens, the first 8192", "it does not list its models (GET /v1/models: 404 Not Found"}
	stage := stageOf(&spatev1.Target{Api: "chat", Model: "m"})
	for _, s := range servers {
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		stage.Target.Endpoints = append(stage.Target.Endpoints, server.URL)
	}
	client, err := stream.New(stream.Config{Endpoints: stage.Target.Endpoints, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f, err := Find(t.Context(), client, stage, nil)
	if err != nil || f.GetPreparation().GetMaxModelTokens() != 4096 {
		t.Errorf("%v, %v", f.GetPreparation(), err)
	}
	for i, w := range want {
		about := "Endpoint " + stage.Target.Endpoints[i] + " differs from the first, " +
			stage.Target.Endpoints[0] + ": " + w
		if said := slices.ContainsFunc(f.GetPreparation().GetNotes(),
			func(n string) bool { return strings.HasPrefix(n, about) }); said != (w != "") {
			t.Errorf("endpoint %d: %q, want %q", i, f.GetPreparation().GetNotes(), w)
		}
	}
}

// TestTemplateBeyondTheISL: an impossible length is noted.
func TestTemplateBeyondTheISL(t *testing.T) {
	for isl, told := range map[uint32]bool{8: true, 9: false} {
		stage := stageOf(&spatev1.Target{Api: "chat", Model: "m", Tokenizer: "auto"})
		stage.Workload.GetRandom().Isl = isl
		f, err := found(t, &fakeServer{template: 8, usage: true}, stage)
		note := shortPrompts(stage.GetWorkload(), templateOf(f))
		if err != nil || strings.Contains(note,
			"The server adds 8 tokens to each prompt, so no prompt can have fewer than 9") != told {
			t.Errorf("%d: %q, %v", isl, note, err)
		}
	}
}

// sonnetStage returns a stage with prompts of whole lines.
func sonnetStage(target *spatev1.Target, isl uint32) *spatev1.Stage {
	stage := stageOf(target)
	stage.Workload.Content = &spatev1.Workload_Sonnet{Sonnet: &spatev1.SonnetContent{Isl: isl, Osl: 5}}
	return stage
}

// verses returns lines of 3 to 9 words, some of which a server splits.
func verses(tokens bool) func(int) ([]workload.Line, error) {
	words := workload.LexiconWords()
	var lines []workload.Line
	for i := range 120 {
		n := 3 + i%7
		line := workload.Line{Text: strings.Join(words[i:i+n], " ") + ",\n"}
		if tokens {
			line.Tokens = uint32(n) + 1
		}
		lines = append(lines, line)
	}
	return func(int) ([]workload.Line, error) { return lines, nil }
}

// TestSonnet: lines have the length that the server counts, and prompts of lines include what the server adds.
func TestSonnet(t *testing.T) {
	for name, tt := range map[string]struct {
		tokenizer string
		server    *fakeServer
		counted   bool
		off       uint32 // of 400 tokens
		note      string
	}{
		"server": {"server", &fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true,
			extra: split(3, anywhere)}, false, 20, "can differ from the requested length"},
		"auto": {"auto", &fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, usage: true,
			extra: split(3, anywhere)}, false, 20, "can differ from the requested length"},
		"usage": {"usage", &fakeServer{template: 7, feed: 1, usage: true}, false, 40,
			"can differ from the requested length"},
		"file": {"file:x", &fakeServer{template: 7, feed: 1, usage: true}, true, 0, ""},
		"several files": {"file:x", &fakeServer{template: 7, feed: 1, usage: true}, false, 1000,
			"several tokenizer files"},
		"file, but no usage": {"file:x", &fakeServer{template: 7, feed: 1}, true, 1000,
			"What the server adds to a prompt of whole lines is not known"},
		"no counter": {"auto", &fakeServer{template: 7, feed: 1}, false, 1000, "counts as one token"},
		"lines share a token": {"server", &fakeServer{feed: 1, tokenizer: true, chats: true, joins: true}, false, 20,
			"differ from the requested length"},
	} {
		t.Run(name, func(t *testing.T) {
			stage := sonnetStage(&spatev1.Target{Api: "chat", Model: "m", Tokenizer: tt.tokenizer}, 400)
			stage.Lexicon = &spatev1.Lexicon{Words: workload.LexiconWords()}
			client := clientOf(t, tt.server, &spatev1.Target{Model: "m"})
			lines := verses(tt.counted)
			f, err := Find(t.Context(), client, stage, lines)
			if err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(f.GetPreparation().GetNotes(), " "); !strings.Contains(notes, tt.note) ||
				strings.Contains(notes, "ines") && tt.note == "" || f.GetPreparation().GetRequests() > mostRequests {
				t.Errorf("notes %q", f.GetPreparation().GetNotes())
			}
			if tt.off == 1000 {
				if f.Lines != nil {
					t.Errorf("lengths %v", f.Lines)
				}
				return
			}
			all, _ := lines(0)
			checkLines(t, f, tt.server, all, tt.off)
		})
	}
}

// checkLines makes the server count prompts of lines.
func checkLines(t *testing.T, f *spatev1.Found, s *fakeServer, lines []workload.Line, off uint32) {
	t.Helper()
	if len(f.Lines) != 1 || len(f.Lines[0].GetTokens()) != len(lines) {
		t.Fatalf("%d lengths of %d lines", len(f.Lines), len(lines))
	}
	for from := range len(lines) - 60 {
		var text strings.Builder
		asked := int(templateOf(f))
		for i := from; i < from+60; i++ {
			text.WriteString(lines[i*7%len(lines)].Text)
			asked += int(f.Lines[0].Tokens[i*7%len(lines)])
		}
		if got := s.chat(text.String()); got > asked+int(off) || got < asked-int(off) {
			t.Fatalf("%d tokens by the lines, the server counts %d", asked, got)
		}
	}
}

// A sonnet in a mixture gets its lines' lengths beside the words of the other parts, which keep the template.
func TestSonnetInAMixture(t *testing.T) {
	s := &fakeServer{special: 1, template: 7, feed: 1, tokenizer: true, chats: true, extra: split(3, anywhere)}
	stage := stageOf(&spatev1.Target{Api: "chat", Model: "m", Tokenizer: "server"})
	sonnet := sonnetStage(&spatev1.Target{}, 400).GetWorkload()
	stage.Workload = &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: &spatev1.Mixture{Parts: []*spatev1.Part{
		{Weight: 1, Workload: stage.GetWorkload()}, {Weight: 1, Workload: sonnet}}}}}
	client := clientOf(t, s, &spatev1.Target{Model: "m"})
	lines := verses(false)
	f, err := Find(t.Context(), client, stage, func(part int) ([]workload.Line, error) {
		if part != 1 {
			t.Errorf("lines of part %d", part)
		}
		return lines(part)
	})
	if err != nil || len(f.Lines) != 2 || f.Lines[0].GetTokens() != nil || len(f.Words) == 0 || templateOf(f) != 8 {
		t.Fatalf("%d parts with lines, %d words, template %d, %v", len(f.Lines), len(f.Words), templateOf(f), err)
	}
	all, _ := lines(1)
	f.Lines = f.Lines[1:]
	checkLines(t, f, s, all, 20)
}

// The template stays unknown where a mixture with a sonnet has words that do not show it.
func TestUnknownTemplateOfAMixture(t *testing.T) {
	target := &spatev1.Target{Api: "chat", Model: "m", Tokenizer: "file:x"}
	stage := sonnetStage(target, 400)
	stage.Workload = &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: &spatev1.Mixture{Parts: []*spatev1.Part{
		{Weight: 1, Workload: stage.GetWorkload()}}}}}
	stage.Lexicon = &spatev1.Lexicon{Words: workload.LexiconWords()}
	s := &fakeServer{template: 7, feed: 1, usage: true, extra: fewWhole}
	f, err := Find(t.Context(), clientOf(t, s, target), stage, verses(true))
	if err != nil || len(f.Lines) != 1 || templateOf(f) != 0 || f.GetPreparation().TemplateTokens != nil {
		t.Errorf("%d parts with lines, template %d, %v: %v", len(f.Lines), templateOf(f), f.GetPreparation(), err)
	}
}

// TestLongText: only some lines of a long text are counted.
func TestLongText(t *testing.T) {
	s := &fakeServer{feed: 1, tokenizer: true, chats: true}
	client := clientOf(t, s, &spatev1.Target{Model: "m"})
	few, _ := verses(false)(0)
	var lines []workload.Line
	for i := range 5 * mostRequests {
		lines = append(lines, workload.Line{Text: strings.Repeat("a ", i/len(few)) + few[i%len(few)].Text})
	}
	f, err := Find(t.Context(), client, sonnetStage(&spatev1.Target{Api: "chat", Model: "m", Tokenizer: "server"}, 400),
		func(int) ([]workload.Line, error) { return lines, nil })
	if err != nil || len(f.Lines) != 1 || len(f.Lines[0].GetTokens()) != len(lines) ||
		s.tokenized.Load() > mostRequests {
		t.Errorf("%d lengths after %d requests: %v", len(f.Lines), s.tokenized.Load(), err)
	}
}

// TestOwnText: a note says that given texts are not counted, and their template is counted if a file counted them.
func TestOwnText(t *testing.T) {
	rows := &spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: &spatev1.FileContent{}}}
	for tokenizer, tt := range map[string]struct {
		template uint32
		note     string
	}{
		"auto": {}, "words": {}, "server": {0, "tokenizer: server does not count it"},
		"usage": {0, "tokenizer: usage does not count it"}, "file:x": {9, ""},
	} {
		stage := stageOf(&spatev1.Target{Api: "chat", Model: "m", Tokenizer: tokenizer})
		stage.Workload, stage.Lexicon = rows, &spatev1.Lexicon{Words: workload.LexiconWords()}
		s := &fakeServer{models: listing("m", "vllm", 0), template: 9, usage: true, tokenizer: true}
		f, err := found(t, s, stage)
		notes := strings.Join(f.GetPreparation().GetNotes(), " ")
		if err != nil || f.GetPreparation().GetLengths() != "own" || templateOf(f) != tt.template ||
			(notes == "") != (tt.note == "") || !strings.Contains(notes, tt.note) {
			t.Errorf("%s: %v, %v", tokenizer, f.GetPreparation(), err)
		}
	}
}

// bodyOf returns a body that decides about exact output and running usage.
func bodyOf(t *testing.T) (body *structpb.Struct) {
	t.Helper()
	body = fields(t, "ignore_eos", true)
	body.Fields["stream_options"] = fields(t, "stream_options",
		map[string]any{"continuous_usage_stats": false}).Fields["stream_options"]
	return body
}

var _ targetClient = (*stream.Client)(nil)
