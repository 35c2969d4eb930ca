package simulator

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Thoughts are parts of their own, each frame has the usage so far, and the last one the finish reason. Without alt=sse
// the same objects are the elements of an array.
func TestGeminiStreams(t *testing.T) {
	frame := func(parts, finish, usage string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + finish +
			`,"index":0}],"usageMetadata":{"promptTokenCount":2,` + usage + `},"modelVersion":"m","responseId":"r"}`
	}
	const prompt = `"promptTokensDetails":[{"modality":"TEXT","tokenCount":2}]`
	for name, c := range map[string]struct {
		finishFrame bool
		frames      []string
	}{
		"with the last token": {false, []string{
			frame(`{"text":" water","thought":true}`, "", `"totalTokenCount":3,`+prompt+`,"thoughtsTokenCount":1`),
			frame(`{"text":" rises"}`, "", `"candidatesTokenCount":1,"totalTokenCount":4,`+prompt+
				`,"thoughtsTokenCount":1`),
			frame(`{"text":" over"}`, `,"finishReason":"MAX_TOKENS"`,
				`"candidatesTokenCount":2,"totalTokenCount":5,`+prompt+`,"thoughtsTokenCount":1`),
		}},
		"separately": {true, []string{
			frame(`{"text":" water","thought":true}`, "", `"totalTokenCount":3,`+prompt+`,"thoughtsTokenCount":1`),
			frame(`{"text":" rises"}`, "", `"candidatesTokenCount":1,"totalTokenCount":4,`+prompt+
				`,"thoughtsTokenCount":1`),
			frame(`{"text":" over"}`, "", `"candidatesTokenCount":2,"totalTokenCount":5,`+prompt+
				`,"thoughtsTokenCount":1`),
			frame(`{"text":""}`, `,"finishReason":"MAX_TOKENS"`,
				`"candidatesTokenCount":2,"totalTokenCount":5,`+prompt+`,"thoughtsTokenCount":1`),
		}},
	} {
		cfg := fast()
		cfg.Frames.ReasoningTokens, cfg.Frames.FinishFrame = 1, c.finishFrame
		want := "data: " + strings.Join(c.frames, "\r\n\r\ndata: ") + "\r\n\r\n"
		if diff := cmp.Diff(want, handled(t, cfg, asks["gemini"].path, asks["gemini"].body)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		want = "[" + strings.Join(c.frames, ",\r\n") + "]"
		if diff := cmp.Diff(want, handled(t, cfg, asks["vertex"].path, asks["vertex"].body)); diff != "" {
			t.Errorf("%s, as an array: %s", name, diff)
		}
		cfg.Frames.NoEndMark = true
		if got := handled(t, cfg, asks["vertex"].path, asks["vertex"].body); got != strings.TrimSuffix(want, "]") {
			t.Errorf("%s, without a mark: %s", name, got)
		}
	}
}

// Without includeThoughts the reasoning takes its time and counts, and is not sent.
func TestGeminiHidesThoughts(t *testing.T) {
	cfg := fast()
	cfg.Frames.ReasoningTokens = 2
	body := strings.Replace(asks["gemini"].body, "true", "false", 1)
	got := handled(t, cfg, asks["gemini"].path, body)
	if strings.Count(got, "data: ") != 1 || strings.Contains(got, "thought\"") ||
		!strings.Contains(got, `"parts":[{"text":" over"}]`) || !strings.Contains(got,
		`"candidatesTokenCount":1,"totalTokenCount":5,`) || !strings.Contains(got, `"thoughtsTokenCount":2`) {
		t.Error(got)
	}
}

func TestGeminiBodyAndCount(t *testing.T) {
	cfg := fast()
	cfg.Frames.ReasoningTokens, cfg.Model.CacheBlocks, cfg.Model.CacheBlockTokens = 1, 10, 1
	cfg.Truth.Keep = true
	p := start(t, cfg)
	path, body := unstreamed("gemini")
	p.get(path, "r", body)
	want := `{"candidates":[{"content":{"parts":[{"text":" water","thought":true},{"text":" rises over"}],"role":"model"},` +
		`"finishReason":"MAX_TOKENS","index":0}],"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":2,` +
		`"totalTokenCount":5,"cachedContentTokenCount":1,"promptTokensDetails":[{"modality":"TEXT","tokenCount":2}],` +
		`"thoughtsTokenCount":1},"modelVersion":"m","responseId":"r"}`
	if _, got := p.get(path, "r", body); got != want {
		t.Error(cmp.Diff(want, got))
	}
	count := strings.Replace(path, "generateContent", "countTokens", 1)
	want = `{"totalTokens":2,"promptTokensDetails":[{"modality":"TEXT","tokenCount":2}]}`
	for _, body := range []string{body, `{"generateContentRequest":` + body + `}`} {
		if _, got := p.get(count, "", body); got != want {
			t.Error(cmp.Diff(want, got))
		}
	}
	p.stop()
	if n := len(p.Records()); n != 2 {
		t.Errorf("%d records: counting tokens is recorded", n)
	}
}

func TestGeminiErrors(t *testing.T) {
	cfg := fast()
	cfg.ModelName, cfg.APIKey = "m", "sesame"
	p := start(t, cfg)
	const m, array = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"
	for name, c := range map[string]struct {
		path, key, body string
		status          int
		starts          string
	}{
		"no key":             {m, "", `{}`, 401, `{"error":{"code":401,"message":"Incorrect`},
		"no key for a count": {"/v1beta/models/m:countTokens", "", `{}`, 401, `{"error":{"code":401,`},
		"key in the query":   {m + "?key=sesame", "", `{}`, 400, `{"error":{"code":400,"message":"contents is missing`},
		"no contents":        {m, "sesame", `{}`, 400, `{"error":{"code":400,"message":"contents is missing`},
		"in an array":        {array, "sesame", `{}`, 400, `[{"error":{"code":400,"message":"contents is missing`},
		"as events":          {array + "?alt=sse", "sesame", `{}`, 400, `{"error":{"code":400,`},
		"no parts": {m, "sesame", `{"contents":[{}]}`, 400,
			`{"error":{"code":400,"message":"contents[0].parts is missing`},
		"candidates": {m, "sesame", `{"generationConfig":{"candidateCount":2}}`, 400,
			`{"error":{"code":400,"message":"candidateCount is 2`},
		"unknown model": {"/v1beta/models/x:generateContent", "sesame", `{}`, 404, `{"error":{"code":404,`},
		"unknown verb":  {"/v1beta/models/m:embedContent", "sesame", `{}`, 404, `{"error":`},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URLs()[0]+c.path, strings.NewReader(c.body))
		r.Header.Set("X-Goog-Api-Key", c.key)
		resp, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.HasPrefix(string(b), c.starts) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, b)
		}
	}
}
