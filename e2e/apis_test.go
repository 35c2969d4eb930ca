package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/rundir"
	"github.com/spate-load/spate/simulator/config"
)

const cloudsPlan = `
name: clouds
targets:
  - {name: signed, endpoints: [%[1]q], model: "anthropic.claude-v1:0", api: bedrock, api_key: "file:%[2]s"}
  - {name: gemini, endpoints: [%[1]q], model: gemini-2.5-flash, api: gemini, api_key: "file:%[2]s"}
workloads: [{random: {isl: 30, osl: 6}}]
loads: [{concurrency: [3], requests: 20}]
`

// The programs test Bedrock with signed requests and binary streams, and Gemini. (Package bedrock checks the
// signatures.)
func TestClouds(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := programs.RunPlan(t, fmt.Sprintf(cloudsPlan, serve(t, config.Default()).URLs()[0], key))
	r.MustExit(0)
	for _, s := range r.Results().Stages {
		if s.Requests.Completed != 20 || s.OSL.Missed > 0 || s.ISL.Missed > 0 {
			t.Errorf("%s: %+v, %d prompts and %d outputs of another length than asked, %v", s.Target, s.Requests,
				s.ISL.Missed, s.OSL.Missed, s.ErrorExamples)
		}
	}
}

const wholePlan = `
name: whole
seed: 3
targets:
  - {name: chat, simulator: {decode_step: 2ms}, stream: false}
  - {name: triton, api: triton, endpoints: [TRITON], model: ensemble, stream: false}
  - {name: bedrock, api: bedrock, simulator: {decode_step: 2ms}, stream: false}
slo: {e2e: 10s}
workloads:
  - random: {isl: 100, osl: 20}
loads:
  - {concurrency: [4], requests: 60}
`

// Answers in one piece have E2E, throughput and usage, and nothing else; what is not known is null in results and n/a
// in reports.
func TestAnswersInOnePiece(t *testing.T) {
	t.Parallel()
	triton := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model_name":"ensemble","model_version":"1","text_output":" water rises"}`)
	}))
	t.Cleanup(triton.Close)
	r := programs.RunPlan(t, strings.Replace(wholePlan, "TRITON", triton.URL, 1), "--agents", "2")
	r.MustExit(0)
	rows := r.Rows()
	for _, s := range r.Results().Stages {
		if s.Stream || s.Requests.Completed != 60 || s.E2E == nil || s.E2E.Count != 60 || s.TTFT != nil ||
			s.TPOT != nil || s.ITL != nil || s.TokensPerFrame != nil ||
			s.Streams.WholeAnswers+s.Streams.StreamedAnswers != 0 {
			t.Fatalf("%s: %+v", s.Target, s)
		}
		var e2e float64
		for _, q := range rows[s.Index] {
			if q.FirstTokenNs != nil || len(q.ITLNs) > 0 {
				t.Fatalf("%s: row %+v", s.Target, q)
			}
			e2e += float64(*q.LastTokenNs - q.StartNs)
		}
		rundir.Near(t, s.Target+": mean E2E", s.E2E.Mean, e2e/60/1e6, 1e-6)
		if counted := s.Target != "triton"; counted != (s.OutputTokens != nil) || counted &&
			(*s.OutputTokens != 1200 || *s.OutputTokensCounted != "usage" || s.OutputTokenThroughput == nil) {
			t.Errorf("%s: output tokens %v", s.Target, s.OutputTokens)
		} else if !counted && (s.OutputTokenThroughput != nil || s.PeakOutputTokenThroughput != nil ||
			s.OutputTokensCounted != nil || s.OSL.Seen != nil) {
			t.Errorf("%s: throughput %v, peak %v, OSL %v", s.Target, s.OutputTokenThroughput,
				s.PeakOutputTokenThroughput, s.OSL.Seen)
		}
		for _, c := range s.Trust.Checks {
			if c.Name == "streaming" && (c.Verdict != "VALID" || c.Words != "every answer came in one piece, as requested") {
				t.Errorf("%s: %+v", s.Target, c)
			}
		}
	}
	if report := r.Text("report.md"); !strings.Contains(report, "requested in one piece:") {
		t.Error("the report does not say that answers came in one piece")
	}
}
