package api

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/simulator/config"
)

// If ignore_eos is honoured, nothing ends early.
func TestIgnoreEOSOverridesOutputLength(t *testing.T) {
	for _, ends := range []config.OutputLength{{Mean: 5}} {
		for handling, want := range map[config.FieldHandling]int{config.Honoured: 1000, config.Ignored: 5} {
			c := config.Default()
			c.OutputLength, c.Dialect.ExactOutput = ends, handling
			q := &Request{MaxTokens: 1000, IgnoreEOS: true}
			if problem := ExactOutput(&c.Dialect, q); problem != nil {
				t.Fatal(problem)
			}
			got := DrawScript(&c, q, RequestRand(0, "r")).Tokens
			if handling == config.Honoured && got != want || handling == config.Ignored &&
				(got >= 1000 || ends.Mean > 0 && got != want) {
				t.Errorf("%+v, ignore_eos %s: %d tokens", ends, handling, got)
			}
		}
	}
}

func TestLognormalLengths(t *testing.T) {
	c := config.Default()
	c.OutputLength = config.OutputLength{Mean: 400, Stddev: 100}
	const n = 20_000
	sum, squares := 0.0, 0.0
	for i := range n {
		x := float64(DrawScript(&c, &Request{MaxTokens: 1 << 20}, RequestRand(1, fmt.Sprint("r", i))).Tokens)
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
		c := config.Default()
		c.OutputLength.Mean = rapid.Float64Range(0, 50).Draw(t, "mean")
		c.TextlessShare = rapid.Float64Range(0, 1).Draw(t, "share")
		c.Frames.ReasoningTokens = rapid.IntRange(0, 30).Draw(t, "reasoning")
		c.Frames.ReasoningField = rapid.SampledFrom([]string{"", config.ReasoningHidden}).Draw(t, "field")
		c.Frames.FinishFrame = rapid.Bool().Draw(t, "apart")
		q := &Request{MaxTokens: rapid.IntRange(1, 40).Draw(t, "max"), IgnoreEOS: rapid.Bool().Draw(t, "ignore")}
		q.minTokens = rapid.IntRange(0, q.MaxTokens).Draw(t, "min")
		s := DrawScript(&c, q, RequestRand(7, rapid.String().Draw(t, "name")))
		if s.Tokens < max(1, q.minTokens) || s.Tokens > q.MaxTokens || q.IgnoreEOS && s.Tokens != q.MaxTokens {
			t.Errorf("%d tokens of %+v", s.Tokens, q)
		}
		if s.EOS && (c.Frames.FinishFrame || s.Tokens == q.MaxTokens || !s.Textless(s.Tokens-1)) {
			t.Errorf("an end of the sequence that cannot be: %+v", s)
		}
		for i := range s.Tokens {
			if i < s.Hidden && !s.Textless(i) {
				t.Errorf("token %d of %+v has text", i, s)
			}
		}
	})
}

// A share of the tokens has no text.
func TestShareOfTokensWithoutText(t *testing.T) {
	s := Script{Tokens: 100_000, someTextless: true, share: 0.02, seed: 5}
	n := 0
	for i := range s.Tokens {
		if s.Textless(i) {
			n++
		}
	}
	if n < 1850 || n > 2150 {
		t.Errorf("%d of 100,000 tokens have no text, want about 2,000", n)
	}
}
