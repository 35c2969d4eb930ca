package simulator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// exactSteps returns a configuration whose decode steps take a time that is exact in the model.
func exactSteps() Config {
	c := fast()
	c.Model.DecodeStep = time.Millisecond
	c.Truth = Truth{Keep: true, Tokens: true}
	return c
}

// record sends a request to an API for a number of tokens, and returns its record and its answer.
func record(t *testing.T, c Config, api string, tokens int) (Record, string) {
	t.Helper()
	p := start(t, c)
	body := strings.NewReplacer(`tokens":3`, fmt.Sprintf(`tokens":%d`, tokens), `,"ignore_eos":true`,
		"").Replace(asks[api].body)
	_, got := p.get(asks[api].path, "r", body)
	p.stop()
	return p.Records()[0], got
}

// framesOf returns how many token frames an API sends for a number of tokens, withText of which have text.
func framesOf(api string, tokens, withText int) int {
	if api == "responses" || api == "anthropic" {
		return withText
	}
	return tokens
}

// Tokens without text take their time and count, and have a frame if the API has one for them.
func TestTokensWithoutText(t *testing.T) {
	for api := range asks {
		t.Run(api, func(t *testing.T) {
			c := exactSteps()
			c.Textless = Textless{First: 2, Last: 2}
			r, got := record(t, c, api, 10)
			if r.OutputTokens != 10 || len(r.Tokens) != framesOf(api, 10, 6) || r.FinishReason != finishLength {
				t.Errorf("%d tokens in %d frames, finish %q", r.OutputTokens, len(r.Tokens), r.FinishReason)
			}
			if d := r.LastProduced.Sub(r.FirstProduced); d != 9*time.Millisecond {
				t.Errorf("decoding took %v", d)
			}
			if strings.Contains(got, " rises") || strings.Contains(got, " low") || !strings.Contains(got, " over") ||
				!strings.Contains(got, " across") {
				t.Errorf("the texts are not those of tokens 2 to 7: %s", got)
			}
			if first := r.Tokens[0].Sub(r.FirstProduced); framesOf(api, 10, 6) == 6 && first < 2*time.Millisecond {
				t.Errorf("the first frame came %v after the first token, before there was text", first)
			}
		})
	}
}

// An output that ends by itself ends with the end-of-sequence token or, as at OpenAI, with its last text.
func TestOutputLength(t *testing.T) {
	for api := range asks {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprint(api, "/apart=", apart), func(t *testing.T) {
				c := exactSteps()
				c.OutputLength.Mean, c.Frames.FinishFrame = 5, apart
				r, got := record(t, c, api, 10)
				text := 4
				if apart {
					text = 5
				}
				if r.OutputTokens != 5 || r.FinishReason != finishStop || len(r.Tokens) != framesOf(api, 5, text) {
					t.Errorf("%d tokens in %d frames, finish %q", r.OutputTokens, len(r.Tokens), r.FinishReason)
				}
				if d := r.LastProduced.Sub(r.FirstProduced); d != 4*time.Millisecond {
					t.Errorf("decoding took %v", d)
				}
				if strings.Contains(got, " banks") != apart || !strings.Contains(got, " the") {
					t.Errorf("the text is not that of %d tokens: %s", text, got)
				}
				if r.Ended < r.LastProduced {
					t.Errorf("it ended %v before its last token", r.LastProduced.Sub(r.Ended))
				}
			})
		}
	}
}

// If ignore_eos is honoured, nothing ends early.
func TestIgnoreEOSOverridesOutputLength(t *testing.T) {
	for _, ends := range []OutputLength{{Mean: 5}, {MeanShare: 0.1}} {
		for handling, want := range map[FieldHandling]int{Honoured: 1000, Ignored: 5} {
			c := Default()
			c.OutputLength, c.Dialect.ExactOutput = ends, handling
			q := &request{maxTokens: 1000, ignoreEOS: true}
			if problem := c.Dialect.exactOutput(q); problem != nil {
				t.Fatal(problem)
			}
			got := c.drawScript(q, requestRand(0, "r")).tokens
			if handling == Honoured && got != want || handling == Ignored &&
				(got >= 1000 || ends.Mean > 0 && got != want) {
				t.Errorf("%+v, ignore_eos %s: %d tokens", ends, handling, got)
			}
		}
	}
}

// The mean length is the requested share of the limit, and each length is reached as often as with a constant chance of
// an end.
func TestMeanShareOfLengths(t *testing.T) {
	for _, share := range []float64{0.1, 0.5, 0.814, 0.98} {
		c := Default()
		c.OutputLength.MeanShare = share
		const n, most = 20_000, 1000
		sum, full := 0, 0
		for i := range n {
			s := c.drawScript(&request{maxTokens: most}, requestRand(1, fmt.Sprint("r", i)))
			sum += s.tokens
			if s.tokens == most {
				full++
			}
		}
		if mean := float64(sum) / n / most; math.Abs(mean-share) > 0.01 {
			t.Errorf("mean share %v, want %v", mean, share)
		}
		if got, want := float64(full)/n, math.Exp(-hazard(share)); math.Abs(got-want) > 0.015 {
			t.Errorf("share %v: %v of the outputs are full, want %v", share, got, want)
		}
	}
}

func TestLognormalLengths(t *testing.T) {
	c := Default()
	c.OutputLength = OutputLength{Mean: 400, Stddev: 100}
	const n = 20_000
	sum, squares := 0.0, 0.0
	for i := range n {
		x := float64(c.drawScript(&request{maxTokens: 1 << 20}, requestRand(1, fmt.Sprint("r", i))).tokens)
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / n
	if dev := math.Sqrt(squares/n - mean*mean); math.Abs(mean-400) > 4 || math.Abs(dev-100) > 4 {
		t.Errorf("mean %v, deviation %v", mean, dev)
	}
}

// The fields of a script are consistent, whatever the configuration.
func TestScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.EarlyEOS = rapid.Bool().Draw(t, "early")
		c.OutputLength.Mean = rapid.Float64Range(0, 50).Draw(t, "mean")
		c.Textless = Textless{
			Share: rapid.Float64Range(0, 1).Draw(t, "share"), First: rapid.IntRange(0, 5).Draw(t, "first"),
			Last: rapid.IntRange(0, 5).Draw(t, "last"),
		}
		c.Frames.ReasoningTokens = rapid.IntRange(0, 30).Draw(t, "reasoning")
		c.Frames.ReasoningField = rapid.SampledFrom([]string{"", ReasoningHidden}).Draw(t, "field")
		c.Frames.FinishFrame = rapid.Bool().Draw(t, "apart")
		q := &request{maxTokens: rapid.IntRange(1, 40).Draw(t, "max"), ignoreEOS: rapid.Bool().Draw(t, "ignore")}
		q.minTokens = rapid.IntRange(0, q.maxTokens).Draw(t, "min")
		s := c.drawScript(q, requestRand(7, rapid.String().Draw(t, "name")))
		if s.tokens < max(1, q.minTokens) || s.tokens > q.maxTokens || q.ignoreEOS && s.tokens != q.maxTokens {
			t.Errorf("%d tokens of %+v", s.tokens, q)
		}
		if s.eos && (c.Frames.FinishFrame || s.tokens == q.maxTokens || !s.textless(s.tokens-1)) {
			t.Errorf("an end of the sequence that cannot be: %+v", s)
		}
		for i := range s.tokens {
			if (i < s.hidden || i < s.hidden+s.first || i >= s.tokens-s.last) && !s.textless(i) {
				t.Errorf("token %d of %+v has text", i, s)
			}
		}
	})
}

// A share of the tokens has no text.
func TestShareOfTokensWithoutText(t *testing.T) {
	s := script{tokens: 100_000, someTextless: true, share: 0.02, seed: 5}
	n := 0
	for i := range s.tokens {
		if s.textless(i) {
			n++
		}
	}
	if n < 1850 || n > 2150 {
		t.Errorf("%d of 100,000 tokens have no text, want about 2,000", n)
	}
}

// Hidden reasoning takes its time: the first frame comes with the first token of the answer.
func TestHiddenReasoning(t *testing.T) {
	for api := range asks {
		t.Run(api, func(t *testing.T) {
			c := exactSteps()
			c.Frames.ReasoningTokens, c.Frames.ReasoningField = 6, ReasoningHidden
			r, got := record(t, c, api, 9)
			if r.OutputTokens != 9 || len(r.Tokens) != 3 {
				t.Errorf("%d tokens in %d frames", r.OutputTokens, len(r.Tokens))
			}
			if d := r.FirstToken.Sub(r.FirstProduced); d < 6*time.Millisecond {
				t.Errorf("the first frame came %v after the first token", d)
			}
			if strings.Contains(got, " water") || strings.Contains(got, " and") || !strings.Contains(got, " spreads") {
				t.Errorf("it shows what is hidden: %s", got)
			}
			reported := map[string]string{"responses": `"output_tokens_details":{"reasoning_tokens":6}`,
				"anthropic": `"output_tokens":9`, "sglang": `"completion_tokens":9`}
			if !strings.Contains(got, reported[api]) {
				t.Errorf("no %s in %s", reported[api], got)
			}
		})
	}
}

// An output that is delivered at the end comes in the right number of frames and writes, and no earlier.
func TestDeliveries(t *testing.T) {
	for deliver, want := range map[Delivery]struct{ frames, writes int }{
		DeliverAsProduced: {8, 8}, DeliverOneWrite: {8, 1}, DeliverOneFrame: {1, 1}, DeliverTwoFrames: {2, 2},
	} {
		for api := range asks {
			t.Run(string(deliver)+"/"+api, func(t *testing.T) {
				c := exactSteps()
				c.Frames.Deliver = deliver
				r, _ := record(t, c, api, 8)
				writes := len(slices.Compact(slices.Clone(r.Tokens)))
				if r.OutputTokens != 8 || len(r.Tokens) != want.frames || writes != want.writes {
					t.Errorf("%d tokens in %d frames and %d writes, want %+v", r.OutputTokens, len(r.Tokens),
						writes, want)
				}
				if d := r.FirstToken.Sub(r.FirstProduced); deliver != DeliverAsProduced && d < 6*time.Millisecond {
					t.Errorf("the first frame came %v after the first token: nothing was held back", d)
				}
			})
		}
	}
}

// A server that does not stream answers as if no stream had been requested.
func TestDeliverJSON(t *testing.T) {
	for api, a := range asks {
		c := fast()
		c.Frames.Deliver = DeliverJSON
		path, body := unstreamed(api)
		if got, want := handled(t, c, a.path, a.body), handled(t, fast(), path, body); got != want {
			t.Errorf("%s: %s, want %s", api, got, want)
		}
	}
}

func TestDialect(t *testing.T) {
	const chat = `{"model":"m","messages":[{"content":"hi"}],"max_tokens":2,"stream":true`
	for name, c := range map[string]struct {
		dialect    Dialect
		path, body string
		status     int
		says       string
	}{
		"owner": {Dialect{OwnedBy: "nvidia"}, "/v1/models", "", 200, `"owned_by":"nvidia"`},
		"no tokenizer": {Dialect{NoTokenize: true}, "/tokenize", `{"prompt":"a"}`, 404,
			`Unknown request: POST /tokenize`},
		"a tokenizer": {Dialect{}, "/tokenize", `{"prompt":"a"}`, 200, `"count":1`},
		"ignore_eos refused": {Dialect{ExactOutput: Refused}, chatPath, chat + `,"ignore_eos":true}`, 400,
			`supplied: ignore_eos","type":"invalid_request_error","param":"ignore_eos"`},
		"min_tokens refused": {Dialect{ExactOutput: Refused}, chatPath, chat + `,"min_tokens":2}`, 400,
			`supplied: min_tokens`},
		"neither is there to refuse": {Dialect{ExactOutput: Refused}, chatPath, chat + `}`, 200, `[DONE]`},
		"options refused": {Dialect{ContinuousUsage: Refused}, chatPath,
			chat + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 400,
			`supplied: stream_options.continuous_usage_stats`},
		"unknown options refused": {Dialect{ContinuousUsage: Refused}, completionsPath,
			`{"model":"m","prompt":"a","stream_options":{"x":1}}`, 400, `supplied: stream_options.x`},
		"known options are not": {Dialect{ContinuousUsage: Refused}, chatPath,
			chat + `,"stream_options":{"include_usage":true}}`, 200, `"choices":[],"usage":`},
		"unknown options let through": {Dialect{}, chatPath, chat + `,"stream_options":{"x":1}}`, 200, `[DONE]`},
		"options that are none": {Dialect{}, chatPath, chat + `,"stream_options":7}`, 400,
			`stream_options is not an object`},
		"running usage": {Dialect{}, chatPath,
			chat + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 200,
			`"finish_reason":null}],"usage":`},
		"ids": {Dialect{TokenIDs: Honoured}, chatPath, chat + `,"return_token_ids":true}`, 200,
			`"finish_reason":"length","token_ids":[1001]}`},
		"ids of completions": {Dialect{TokenIDs: Honoured}, completionsPath,
			`{"model":"m","prompt":"a","max_tokens":1,"stream":true,"return_token_ids":true}`, 200,
			`"token_ids":[1000]`},
		"ids refused": {Dialect{TokenIDs: Refused}, chatPath, chat + `,"return_token_ids":true}`, 400,
			`supplied: return_token_ids`},
		"Triton's end_id refused, too": {Dialect{ExactOutput: Refused}, "/v2/models/m/generate",
			`{"text_input":"a","end_id":-1}`, 400, `ignore_eos`},
	} {
		t.Run(name, func(t *testing.T) {
			config := fast()
			config.Dialect = c.dialect
			status, got := start(t, config).get(c.path, "r", c.body)
			if status != c.status || !strings.Contains(got, c.says) {
				t.Errorf("%d %s, want %d with %s", status, got, c.status, c.says)
			}
		})
	}
	for body, dialect := range map[string]Dialect{
		`,"return_token_ids":true`: {TokenIDs: Ignored},
		`,"stream_options":{"continuous_usage_stats":true,"include_usage":true}`: {ContinuousUsage: Ignored},
	} {
		config := fast()
		config.Dialect = dialect
		if got := handled(t, config, chatPath, chat+body+"}"); strings.Contains(got, "token_ids") ||
			strings.Contains(got, `}],"usage"`) {
			t.Errorf("%s is not ignored: %s", body, got)
		}
	}
}
