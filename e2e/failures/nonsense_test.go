package failures

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/e2e/programs"
)

// answer writes the answer to one chat request. These servers have nothing else in common with a real one.
type answer func(w *sse)

// sse writes events of a chat, and sleeps as an engine does.
type sse struct {
	http.ResponseWriter
	held strings.Builder // what the next flush sends at once
}

func (w *sse) data(format string, args ...any) { fmt.Fprintf(&w.held, "data: "+format+"\n\n", args...) }

// flush sends what was written, that long after the last flush.
func (w *sse) flush(after time.Duration) {
	time.Sleep(after)
	_, _ = io.WriteString(w, w.held.String())
	w.held.Reset()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *sse) delta(fields string) { w.data(`{"choices":[{"index":0,"delta":{%s}}]}`, fields) }

func (w *sse) role() { w.delta(`"role":"assistant","content":""`) }

// words writes that many tokens of text in one frame.
func (w *sse) words(n int) { w.delta(fmt.Sprintf(`"content":%q`, strings.Repeat(" word", n))) }

// end ends the stream, with a usage of that many tokens, some of them for reasoning.
func (w *sse) end(tokens, reasoning int) {
	w.data(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	w.data(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d,"completion_tokens_details":{"reasoning_tokens":%d}}}`, tokens, reasoning)
	w.data("[DONE]")
	w.flush(0)
}

// tokens streams words one by one.
func (w *sse) tokens(n int, every time.Duration) {
	for range n {
		w.words(1)
		w.flush(every)
	}
}

// nonsense is a server of odd streams.
type nonsense struct {
	answer answer
	check  string // the check that fails; empty: none
	words  string
}

const step = 4 * time.Millisecond

// nonsenses are causes of numbers that mean nothing.
var nonsenses = map[string]nonsense{
	"sound": {func(w *sse) {
		w.role()
		w.flush(20 * time.Millisecond)
		w.tokens(40, step)
		w.end(40, 0)
	}, "", ""},
	"all tokens in one frame": {func(w *sse) {
		w.role()
		w.words(200)
		w.flush(300 * time.Millisecond)
		w.end(200, 0)
	}, "streaming", "answers of several tokens by usage came in 1 frame (200 tokens on average)"},
	"two frames": {func(w *sse) {
		w.role()
		w.words(100)
		w.flush(200 * time.Millisecond)
		w.words(100)
		w.flush(10 * time.Millisecond)
		w.end(200, 0)
	}, "tokens_per_frame", "200 tokens by usage came in 2.0 frames"},
	"thinking that is not streamed": {func(w *sse) {
		w.role()
		w.flush(200 * time.Millisecond)
		w.tokens(5, step)
		w.end(200, 0)
	}, "tokens_per_frame", "200 tokens by usage came in 5.0 frames: the server does not stream token by token, or hides reasoning"},
	"thinking that is not streamed, and told": {func(w *sse) {
		w.role()
		w.flush(200 * time.Millisecond)
		w.tokens(50, step)
		w.end(200, 150)
	}, "hidden_tokens", "75.0 % of the output tokens were reasoning that was not streamed"},
	"thinking that running usage tells": {func(w *sse) {
		w.role()
		w.flush(200 * time.Millisecond)
		for i := range 50 {
			w.data(`{"choices":[{"index":0,"delta":{"content":" word"}}],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, 151+i)
			w.flush(step)
		}
		w.end(200, 0)
	}, "hidden_tokens", "of the output tokens came before the first frame"},
	"more tokens than text": {func(w *sse) {
		w.role()
		w.flush(200 * time.Millisecond)
		for range 50 {
			w.delta(`"content":"word"`)
			w.flush(step)
		}
		w.end(200, 0)
	}, "text", "1.0 bytes of text per token"},
	"all tokens in one write": {func(w *sse) {
		w.role()
		w.flush(20 * time.Millisecond)
		for range 200 {
			w.words(1)
		}
		w.flush(300 * time.Millisecond)
		w.end(200, 0)
	}, "streaming", "came in one write: they were held back"},
	"no stream": {func(w *sse) {
		time.Sleep(200 * time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":200}}`,
			strings.Repeat(" word", 200))
	}, "streaming", "answers came as one body: the server does not stream"},
	"bunches": {func(w *sse) {
		w.role()
		w.flush(20 * time.Millisecond)
		for range 10 {
			for range 20 {
				w.words(1)
			}
			w.flush(80 * time.Millisecond)
		}
		w.end(200, 0)
	}, "bunching", "the median gap between frames is 0.00"},
}

// Published reports have numbers of servers that did not really stream: a median ITL of 0, a TPOT of 0.12 ms. Each
// cause of such numbers has a verdict that names it. A server that streams properly has none.
func TestNonsenseIsNotValid(t *testing.T) {
	t.Parallel()
	for name, c := range nonsenses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.mustBeTold(t, c.run(t))
		})
	}
}

// run returns how a stage against the server is judged.
func (c nonsense) run(t *testing.T) trust.Trust {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		c.answer(&sse{ResponseWriter: w})
	}))
	defer server.Close()
	r := programs.RunPlan(t, fmt.Sprintf(`
name: nonsense
targets: [{name: odd, endpoints: [%q], model: m, tokenizer: words}]
workloads: [{random: {isl: 10, osl: 200}}]
loads: [{concurrency: [2], requests: 20}]
`, server.URL))
	r.MustExit(0)
	return r.Results().Stages[0].Trust
}

// mustBeTold fails the test unless the check that should fail has failed, with its words and a remedy, or nothing has.
func (c nonsense) mustBeTold(t *testing.T, judged trust.Trust) {
	t.Helper()
	busy := []string{"send_delay", "frame_times"} // on a machine that others also use
	failed := slices.DeleteFunc(judged.Failed(),
		func(k trust.Check) bool { return slices.Contains(busy, k.Name) })
	i := slices.IndexFunc(failed, func(k trust.Check) bool {
		return k.Name == c.check && strings.Contains(k.Words, c.words)
	})
	switch {
	case c.check == "" && len(failed) > 0, c.check != "" && i < 0:
		t.Errorf("%s: %+v, want %s %q", judged.Verdict, failed, c.check, c.words)
	case i >= 0 && failed[i].Remedy == nil:
		t.Errorf("nothing to do about %s", failed[i].Words)
	}
}
