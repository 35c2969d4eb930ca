package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// template is the number of tokens that the server's chat template adds in these tests.
const template = 7

// serve starts a simulator in this process, for settings without a flag.
func serve(t *testing.T, c config.Config) *simulator.Server {
	t.Helper()
	server, err := simulator.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(context.Background()) }) // t.Context has ended by then
	return server
}

const tokenizersPlan = `
name: tokenizers
targets:
  - {name: server, endpoints: [URL], model: m, tokenizer: server, server_metrics: {read: never}}
  - {name: usage, endpoints: [URL], model: m, tokenizer: usage, server_metrics: {read: never}}
  - {name: text, endpoints: [URL], model: m, api: completions, prompts: text, tokenizer: server, server_metrics: {read: never}}
  - {name: words, endpoints: [URL], model: m, tokenizer: words, server_metrics: {read: never}}
  - {name: auto, endpoints: [URL], model: m, server_metrics: {read: never}}
workloads:
  - name: random
    random: {isl_lengths: {uniform: {min: 20, max: 200}}, osl: 3}
  - name: sessions
    sessions: {turns: 3, isl: 40, osl: 4, play: {history: server}}
loads:
  - {workloads: [random], concurrency: [4], requests: 60}
  - {workloads: [sessions], concurrency: [4], sessions: 12}
`

// Prompts are exact: what the server counts, including its chat template, is what was asked for. If the plan wants them
// made of unchecked words, they are longer by the template, and the output says so.
func TestPromptsHaveTheLengthThatTheServerCounts(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.ChatTemplateTokens, c.MaxModelTokens, c.Truth.Keep = template, 4000, true
	server := serve(t, c)
	r := programs.RunPlan(t, strings.ReplaceAll(tokenizersPlan, "URL", server.URLs()[0]), "--agents", "2")
	r.MustExit(0)
	counted := map[string]uint64{}
	for _, record := range server.Records() {
		counted[record.RequestID] = uint64(record.PromptTokens)
	}
	result, rows := r.Results(), r.Rows()
	for _, stage := range result.Stages {
		added := uint64(0) // tokens that were not asked for
		if stage.Target == "words" {
			added = template
		}
		checked := 0
		for _, q := range rows[stage.Index] {
			id := measure.RequestIDsOf(result.Run.ID, stage.Index).String(q.Index, int(q.Turn))
			asked := q.ISLAsked + added
			if q.Turn > 0 && (stage.Target == "server" || stage.Target == "usage" || stage.Target == "auto") {
				// What a template adds to later messages is not known, so nothing was asked for.
				asked = *q.InputTokens
				if q.ISLAsked != 0 {
					t.Errorf("%s: request %s: %d tokens asked", stage.Target, id, q.ISLAsked)
				}
			}
			if got, known := counted[id]; !known || got != *q.InputTokens || *q.InputTokens != asked {
				t.Errorf("%s: request %s: %d tokens by usage, %d counted (%v), %d asked", stage.Target, id,
					*q.InputTokens, got, known, q.ISLAsked)
			}
			checked++
		}
		if missed := stage.ISL.Missed > 0; missed != (added > 0) || checked != int(stage.Requests.Completed) ||
			checked == 0 {
			t.Errorf("%s, %s: %d of %d prompts missed their length", stage.Target, stage.Workload,
				stage.ISL.Missed, checked)
		}
		checkPreparation(t, stage)
	}
	if want := "of the prompts did not have the requested length"; !strings.Contains(r.Stdout.String(), want) {
		t.Errorf("nothing says %q", want)
	}
}

// checkPreparation checks what the agents found out about the server before a stage.
func checkPreparation(t *testing.T, stage results.StageResult) {
	t.Helper()
	p := stage.Preparations
	if len(p) != 1 || p[0].Agents != 2 || p[0].MaxModelTokens == nil || *p[0].MaxModelTokens != 4000 ||
		p[0].Server != "Spate simulator" || !p[0].ExactOutput {
		t.Fatalf("%s: preparations %+v", stage.Target, p)
	}
	wantLengths, wantTemplate := stage.Target, "7"
	switch stage.Target {
	case "text":
		wantLengths, wantTemplate = "server", "0"
	case "auto":
		wantLengths = "server"
	case "words":
		wantTemplate = "not known"
	}
	gotTemplate := "not known"
	if tokens := p[0].TemplateTokens; tokens != nil {
		gotTemplate = fmt.Sprint(*tokens)
	}
	if p[0].Lengths != wantLengths || gotTemplate != wantTemplate {
		t.Errorf("%s: lengths by %s, template of %s tokens; want %s, %s", stage.Target, p[0].Lengths, gotTemplate,
			wantLengths, wantTemplate)
	}
}

// However many agents there are, one asks the server, and the server sees at most 60 requests before the load.
func TestThirtyAgentsAskAsOne(t *testing.T) {
	t.Parallel()
	const load = 60
	for tokenizer, refused := range map[string]string{"server": "none", "usage": "none", "auto": "/tokenize"} {
		server := serve(t, config.Default())
		to, err := url.Parse(server.URLs()[0])
		if err != nil {
			t.Fatal(err)
		}
		var seen, preparing atomic.Int32
		proxy := httputil.NewSingleHostReverseProxy(to)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if seen.Add(1); r.Header.Get("X-Request-Id") == "" {
				preparing.Add(1)
			}
			if r.URL.Path == refused {
				http.NotFound(w, r)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		plan := strings.NewReplacer("URL", front.URL, "TOKENIZER", tokenizer).Replace(`
name: thirty
targets:
  - {name: t, endpoints: [URL], model: m, tokenizer: TOKENIZER}
workloads:
  - random: {isl: 50, osl: 2}
loads:
  - {concurrency: [30], requests: 60}
`)
		r := programs.RunPlan(t, plan, "--agents", "30")
		r.MustExit(0)
		if asked := seen.Load() - load; asked < 3 || asked > 60 || preparing.Load() != asked {
			t.Errorf("%s: %d requests besides the load, %d of them without its ids", tokenizer, asked, preparing.Load())
		}
		if p := r.Results().Stages[0].Preparations; len(p) != 1 || p[0].Agents != 30 {
			t.Errorf("%s: preparations %+v", tokenizer, p)
		}
	}
}

// Prompts that are longer than the server accepts are reported before anything is sent.
func TestPromptsThatAreTooLongAreNotSent(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.MaxModelTokens, c.Truth.Keep = 150, true
	server := serve(t, c)
	r := programs.RunPlan(t, fmt.Sprintf(`
name: long
targets:
  - {name: small, endpoints: [%q], model: m}
workloads:
  - random: {isl: 149, osl: 2}
  - random: {isl: 148, osl: 2}
loads:
  - {concurrency: [2], requests: 10}
`, server.URLs()[0]))
	r.MustExit(3)
	sent := 0
	for _, record := range server.Records() {
		if record.OutputTokens == 2 { // others are those of the preparation, on a slow machine
			sent++
		}
	}
	if sent != 10 {
		t.Errorf("the server had %d requests", sent)
	}
	for _, want := range []string{"149:2", "151 tokens", "accepts at most 150"} {
		if !strings.Contains(r.Stderr.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
}
