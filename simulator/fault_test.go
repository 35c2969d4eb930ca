package simulator

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
)

const fourTokens = `{"model":"m","prompt":[1],"max_tokens":4,"stream":true}`

func TestFaultsInStream(t *testing.T) {
	for name, c := range map[string]struct {
		fault  config.Fault
		status int
		frames int    // token frames before the fault
		says   string // in the body
		ends   error  // of the body
	}{
		"429":     {config.Fault{Kind: config.FaultTooManyRequests}, 429, 0, `"code":"rate_limit_exceeded"`, nil},
		"500":     {config.Fault{Kind: config.FaultServerError}, 500, 0, `"type":"server_error"`, nil},
		"garbage": {config.Fault{Kind: config.FaultGarbage}, 200, 0, "<html>", nil},
		"garbage frame": {config.Fault{Kind: config.FaultGarbageFrame, AfterTokens: 2}, 200, 2,
			"{\"cont\n\ndata: [DONE]\n\n",
			nil},
		"error frame": {config.Fault{Kind: config.FaultErrorFrame, AfterTokens: 1}, 200, 1,
			`data: {"error":{"message":"The server had an error`, nil},
		"cut":                {config.Fault{Kind: config.FaultCut, AfterTokens: 2}, 200, 2, "", io.ErrUnexpectedEOF},
		"cut at once":        {config.Fault{Kind: config.FaultCut}, 200, 0, "", io.ErrUnexpectedEOF},
		"cut beyond the end": {config.Fault{Kind: config.FaultCut, AfterTokens: 99}, 200, 3, "", io.ErrUnexpectedEOF},
		"reset":              {config.Fault{Kind: config.FaultReset, AfterTokens: 1}, 200, -1, "", syscall.ECONNRESET},
		"stall, then the end": {config.Fault{Kind: config.FaultStall, AfterTokens: 1, Pause: time.Millisecond}, 200, 4,
			"[DONE]", nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			c.fault.Probability = 1
			cfg.Faults = []config.Fault{c.fault}
			cfg.Truth.Keep = true
			p := start(t, cfg)
			resp, err := p.ask(t.Context(), 0, completionsPath, "", fourTokens)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if !errors.Is(err, c.ends) {
				t.Errorf("the body ended with %v, want %v", err, c.ends)
			}
			body := string(b)
			frames := strings.Count(body, `"text":"`)
			if c.frames >= 0 && frames != c.frames { // a reset may overtake frames already sent
				t.Errorf("%d token frames, want %d", frames, c.frames)
			}
			if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%d %s, want %d with %q", resp.StatusCode, body, c.status, c.says)
			}
			p.stop()
			r := p.Records()[0]
			if r.Fault != c.fault.Kind || r.Status != c.status || c.frames >= 0 && r.OutputTokens != c.frames ||
				(r.FinishReason == "") != (r.OutputTokens < 4) || r.Cancelled {
				t.Errorf("recorded %+v", r)
			}
		})
	}
}

func TestFaultsInBody(t *testing.T) {
	const ask = `{"model":"m","prompt":[1],"max_tokens":4}`
	for kind, c := range map[config.FaultKind]struct {
		says string
		ends error
	}{
		config.FaultGarbageFrame: {`{"cont`, nil},
		config.FaultErrorFrame:   {`{"error":`, nil},
		config.FaultCut:          {`{"id":"cmpl-`, io.ErrUnexpectedEOF},
		config.FaultReset:        {"", syscall.ECONNRESET},
		config.FaultStall:        {`water rises over the`, nil},
	} {
		t.Run(string(kind), func(t *testing.T) {
			cfg := fast()
			cfg.Faults = []config.Fault{{Kind: kind, Probability: 1, Pause: time.Microsecond}}
			p := start(t, cfg)
			resp, err := p.ask(t.Context(), 0, completionsPath, "", ask)
			var body []byte
			if err == nil {
				defer resp.Body.Close()
				body, err = io.ReadAll(resp.Body)
			}
			if !errors.Is(err, c.ends) || !strings.Contains(string(body), c.says) {
				t.Errorf("%q, then %v; want %q, then %v", body, err, c.says, c.ends)
			}
		})
	}
}

// A stall without end lasts until the client leaves, and then frees its slot.
func TestEndlessStall(t *testing.T) {
	cfg := fast()
	cfg.Faults = []config.Fault{{Kind: config.FaultStall, Probability: 1, AfterTokens: 1}}
	cfg.Truth.Keep = true
	p := start(t, cfg)
	resp, err := p.ask(t.Context(), 0, completionsPath, "", fourTokens)
	if err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 10)
	if _, err := io.ReadFull(resp.Body, one); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	p.metric(0, `vllm:request_success_total{finished_reason="abort",model_name="simulated"} 1`)
	p.stop()
	if r := p.Records()[0]; !r.Cancelled || r.OutputTokens != 1 || r.Fault != config.FaultStall {
		t.Errorf("recorded %+v", r)
	}
}

// Which requests a fault strikes depends only on the seed and the request IDs, and is as likely as configured.
func TestProbability(t *testing.T) {
	faults := []config.Fault{{Kind: config.FaultCut, Probability: 0.1}, {Kind: config.FaultStall, Probability: 0.5}}
	const n = 20_000
	counts := map[config.FaultKind]int{}
	differ := 0
	for i := range n {
		id := fmt.Sprint("request-", i)
		hit := chooseFault(faults, api.RequestRand(1, id))
		again := chooseFault(faults, api.RequestRand(1, id))
		other := chooseFault(faults, api.RequestRand(2, id))
		if hit != again {
			t.Fatalf("%s gets %v, then %v", id, hit, again)
		}
		if hit != other {
			differ++
		}
		if hit != nil {
			counts[hit.Kind]++
		}
	}
	for kind, want := range map[config.FaultKind]float64{config.FaultCut: 0.1 * n, config.FaultStall: 0.9 * 0.5 * n} {
		if got := float64(counts[kind]); math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("%s hit %v of %d, want about %v", kind, got, n, want)
		}
	}
	if differ < n/4 {
		t.Errorf("another seed changed only %d of %d", differ, n)
	}
}

func TestRetryAfter(t *testing.T) {
	cfg := fast()
	cfg.Faults = []config.Fault{{Kind: config.FaultTooManyRequests, Probability: 1}}
	p := start(t, cfg)
	resp, err := p.ask(t.Context(), 0, completionsPath, "", fourTokens)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}
