package api

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/simulator/config"
)

// asksFor has requests of an API. STREAM, RUNNING, TOOLS and LIMIT stand for fields that vary.
var asksFor = map[string]string{
	"/v1/chat/completions": `{"model":"m","messages":[{"content":"hi you"}],"max_tokens":LIMIT,` +
		`"stream_options":{"include_usage":trueRUNNING}TOOLSSTREAM}`,
	"/v1/completions": `{"model":"m","prompt":"hi you","max_tokens":LIMIT,` +
		`"stream_options":{"include_usage":trueRUNNING}TOOLSSTREAM}`,
	"/v1/responses":  `{"model":"m","input":"hi you","max_output_tokens":LIMITTOOLSSTREAM}`,
	"/v1/messages":   `{"model":"m","messages":[{"content":"hi you"}],"max_tokens":LIMITTOOLSSTREAM}`,
	"/generate":      `{"text":"hi you","sampling_params":{"max_new_tokens":LIMIT}STREAM}`,
	"/v1/embeddings": `{"input":["hi","you"]}`,
	"/embed":         `{"inputs":["hi","you"]}`,
	"/v2/embed":      `{"texts":["hi","you"]}`,
	"/v1/rerank":     `{"query":"hi","documents":["you","all"]}`,
	"/v2/rerank":     `{"query":"hi","documents":["you","all"]}`,
	"/score":         `{"text_1":"hi","text_2":["you","all"]}`,
}

var nowField = regexp.MustCompile(`"sent_ns":\d+`)

// Every byte of each API is pinned, over 300 draws of what requests and configurations change. A changed digest is a
// changed answer: the bytes are then in the file that the failure names, to be compared with those of the old code.
func TestBytesOfEachAPI(t *testing.T) {
	mux := http.NewServeMux()
	var ask, got string
	for pattern, a := range Routes() {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = drawnAnswers(t, a, ask, r) })
	}
	folder := os.Getenv("SPATE_BYTES")
	if folder == "" {
		folder = os.TempDir()
	}
	for _, path := range slices.Sorted(maps.Keys(asksFor)) {
		ask = asksFor[path]
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, http.NoBody))
		if digest := fmt.Sprintf("%x", sha256.Sum256([]byte(got)))[:16]; digest != digests[path] {
			file := filepath.Join(folder, strings.NewReplacer("/", "_", "?", "_", ":", "_").Replace(path))
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Errorf("%q: %q, // see %s", path, digest, file)
		}
	}
}

var digests = map[string]string{
	"/embed":               "ee153e2f1fed7bce",
	"/generate":            "6d515c9fd5d2552c",
	"/score":               "2a9c5e67f614f3e0",
	"/v1/chat/completions": "3a581858e362ba9a",
	"/v1/completions":      "14d9da1ab7ed1699",
	"/v1/embeddings":       "9327c1c46818cd3f",
	"/v1/messages":         "a0e0667489ad0434",
	"/v1/rerank":           "eb9a751c3e566f49",
	"/v1/responses":        "8858fa8b2c22adcb",
	"/v2/embed":            "d0349bd39d933dbf",
	"/v2/rerank":           "ef67c34a4d6877d8",
}

// drawnAnswers returns many answers of an API, each under a heading that says what was drawn.
func drawnAnswers(t *testing.T, a API, ask string, r *http.Request) string {
	t.Helper()
	var all strings.Builder
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		some := func() bool { return random.IntN(3) == 0 }
		c := config.Default()
		f := &c.Frames
		f.FinishFrame, f.NoReasoningUsage = some(), some()
		if some() {
			f.Role = config.RoleAtOnce
		}
		f.ReasoningTokens = max(0, random.IntN(6)-2)
		f.ReasoningField = []string{"", "reasoning", config.ReasoningHidden}[random.IntN(3)]
		c.Truth.Stamp = some()
		if some() {
			c.Model.CacheBlocks = 1
		}
		if some() {
			c.TextlessShare = 0.3
		}
		if some() {
			c.OutputLength.Mean = 3
		}
		body := strings.NewReplacer("LIMIT", fmt.Sprint(1+random.IntN(6)),
			"RUNNING", []string{"", `,"continuous_usage_stats":true`}[random.IntN(2)],
			"STREAM", []string{"", `,"stream":true`}[random.IntN(2)],
			"TOOLS", []string{"", `,"tools":[{"name":"t","parameters":{"type":"array"}}],"tool_choice":"required"`,
				`,"response_format":{"type":"json_object"}`}[random.IntN(3)]).Replace(ask)
		fmt.Fprintf(&all, "\n== %d %s\n", seed, body)
		all.WriteString(nowField.ReplaceAllString(drawnAnswer(t, a, r, []byte(body), &c, random), `"sent_ns":0`))
	}
	for _, e := range []*Error{BadRequest("<no>"), Unauthorized(), unknownModel("x"), BodyTooLarge(1), TooManyRequests(),
		ServerError(), unknownParameter("y")} {
		status, body := a.Problem(e)
		fmt.Fprintln(&all, status, "map[]", string(body))
	}
	return all.String()
}

func drawnAnswer(t *testing.T, a API, r *http.Request, body []byte, c *config.Config, random *rand.Rand) string {
	t.Helper()
	q, problem := a.Parse(r, body, c)
	if problem != nil {
		t.Fatal(problem.Message)
	}
	q.Script = DrawScript(c, q, random)
	finish := FinishLength
	if q.Script.Tokens < q.MaxTokens {
		finish = FinishStop
	}
	p := NewWriter(q, c, "r 1", 7)
	p.Cached = random.IntN(2)
	if !q.Stream {
		return string(p.Seal(p.Whole(nil, q.Script.Tokens, finish))) + "\n" + string(p.Failure(nil, ServerError())) +
			"\n" + string(p.Broken(nil))
	}
	b := p.Opening(nil)
	fails := random.IntN(4) // 0: failure, 1: broken
	for from := 0; from < q.Script.Tokens; {
		until, reason := min(from+1+random.IntN(3), q.Script.Tokens), ""
		if until == q.Script.Tokens {
			reason = finish
		}
		b = p.Tokens(b, from, until, reason)
		if from = until; random.IntN(2) == 0 {
			b = append(p.Seal(b), "|"...)
		}
		switch fails {
		case 0:
			return string(p.Mark(p.Failure(b, TooManyRequests())))
		case 1:
			return string(p.Broken(b))
		}
	}
	for part, more := 0, true; more; part++ {
		b = append(p.Seal(b), "|"...)
		b, more = p.Closing(b, part, q.Script.Tokens, finish)
	}
	return string(p.Seal(b))
}
