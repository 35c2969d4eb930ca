package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/spate-load/spate/e2e/programs"
)

const cloudsPlan = `
name: clouds
targets:
  - {name: signed, endpoints: [%[1]q], model: "anthropic.claude-v1:0", api: bedrock, api_key: "file:%[2]s"}
  - {name: gemini, endpoints: [%[1]q], model: gemini-2.5-flash, api: gemini, api_key: "file:%[2]s"}
workloads: [{random: {isl: 30, osl: 6}}]
loads: [{concurrency: [3], requests: 20}]
`

// wordsOf counts the words of all texts of a request.
func wordsOf(t *testing.T, r *http.Request) int {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	n := 0
	for _, match := range regexp.MustCompile(`"text":"([^"]*)"`).FindAllSubmatch(body, -1) {
		n += len(strings.Fields(string(match[1])))
	}
	return n
}

// converse answers as Bedrock does, with six tokens.
func converse(t *testing.T, w http.ResponseWriter, prompt int) {
	send := func(event, payload string) {
		headers := eventstream.Headers{
			{Name: ":message-type", Value: eventstream.StringValue("event")},
			{Name: ":event-type", Value: eventstream.StringValue(event)},
			{Name: ":content-type", Value: eventstream.StringValue("application/json")}}
		message := eventstream.Message{Payload: []byte(payload), Headers: headers}
		if err := eventstream.NewEncoder().Encode(w, message); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
	}
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	send("messageStart", `{"p":"ab","role":"assistant"}`)
	for range 6 {
		send("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" water"},"p":"abcd"}`)
	}
	send("contentBlockStop", `{"contentBlockIndex":0,"p":"abcdef"}`)
	send("messageStop", `{"p":"abc","stopReason":"max_tokens"}`)
	send("metadata", fmt.Sprintf(`{"metrics":{"latencyMs":7},"usage":{"inputTokens":%d,"outputTokens":6,"totalTokens":%d}}`,
		prompt, prompt+6))
}

// generate answers as Gemini does, with six tokens.
func generate(w http.ResponseWriter, prompt int) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 6 {
		finish := ""
		if i == 5 {
			finish = `"finishReason":"MAX_TOKENS",`
		}
		fmt.Fprintf(w, `data: {"candidates":[{"content":{"parts":[{"text":" water"}],"role":"model"},%s"index":0}],`+
			`"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d},`+
			`"modelVersion":"gemini-2.5-flash"}`+"\r\n\r\n", finish, prompt, i+1, prompt+i+1)
		w.(http.Flusher).Flush()
	}
}

// The programs test Bedrock with binary streams, and Gemini.
func TestClouds(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n, path := wordsOf(t, r), r.URL.Path; {
		case strings.HasSuffix(path, "/converse-stream"):
			converse(t, w, n)
		case strings.HasSuffix(path, ":streamGenerateContent"):
			generate(w, n)
		case strings.HasSuffix(path, "/count-tokens"):
			fmt.Fprintf(w, `{"inputTokens":%d}`, n)
		case strings.HasSuffix(path, ":countTokens"):
			fmt.Fprintf(w, `{"totalTokens":%d}`, n)
		case r.Method == http.MethodGet && strings.HasPrefix(path, "/v1beta/models/"):
			_, _ = io.WriteString(w, `{"name":"models/gemini-2.5-flash","inputTokenLimit":1048576}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("bedrock-api-key-YmVkcm9jaw=="), 0o600); err != nil {
		t.Fatal(err)
	}
	r := programs.RunPlan(t, fmt.Sprintf(cloudsPlan, server.URL, key))
	r.MustExit(0)
	for _, s := range r.Results().Stages {
		if s.Requests.Completed != 20 || s.OSL.Missed > 0 || s.ISL.Missed > 0 || s.TTFT == nil || s.ITL == nil {
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
  - {name: anthropic, api: anthropic, simulator: {decode_step: 2ms}, stream: false}
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
		programs.Near(t, s.Target+": mean E2E", s.E2E.Mean, e2e/60/1e6, 1e-6)
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
