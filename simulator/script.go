package simulator

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// script describes the tokens of one answer. It is drawn before the answer starts. Tokens count from 0.
type script struct {
	tokens       int     // generated in total; usage counts each of them
	hidden       int     // number of first tokens that are never streamed
	eos          bool    // the last token is the end-of-sequence token, which has no text
	someTextless bool    // some tokens have no text
	first        int     // number of first streamed tokens without text
	last         int     // number of last tokens without text, before the end-of-sequence token
	share        float64 // chance of every other token to have no text
	seed         uint64  // seed of that chance
	noise        float64 // standard normal, for the jitter of the prefill
}

// textless reports whether token i has no text.
func (s *script) textless(i int) bool { return s.someTextless && s.lacksText(i) }

func (s *script) lacksText(i int) bool {
	text := s.tokens
	if s.eos {
		text--
	}
	return i < s.hidden+s.first || i >= text-s.last || s.share > 0 && unit(s.seed, i) < s.share
}

// hasText reports whether any of the tokens from to until-1 has text.
func (s *script) hasText(from, until int) bool {
	for i := from; i < until; i++ {
		if !s.textless(i) {
			return true
		}
	}
	return false
}

// unit returns number i of a seed, at least 0 and below 1: SplitMix64 indexed by its counter.
func unit(seed uint64, i int) float64 {
	x := seed + uint64(i+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) * 0x1p-53
}

// drawScript returns the script of a request. It draws the same numbers whatever the configuration.
func (c *Config) drawScript(q *request, r *rand.Rand) script {
	uniform, exponential, normal, seed, noise := r.Float64(), r.ExpFloat64(), r.NormFloat64(), r.Uint64(),
		r.NormFloat64()
	s := script{tokens: q.maxTokens, first: c.Textless.First, last: c.Textless.Last, share: c.Textless.Share,
		seed: seed, noise: noise}
	if !q.ignoreEOS {
		s.tokens = c.naturalLength(q, uniform, exponential, normal)
	}
	s.eos = s.tokens < q.maxTokens && !c.Frames.FinishFrame
	if c.Frames.ReasoningField == ReasoningHidden {
		s.hidden = min(c.Frames.ReasoningTokens, s.tokens)
	}
	s.someTextless = s.eos || s.hidden+s.first+s.last > 0 || s.share > 0
	return s
}

// naturalLength returns the length of an output that may end by itself, including the end-of-sequence token if it
// counts. The three numbers are drawn from the distributions of these names.
func (c *Config) naturalLength(q *request, uniform, exponential, normal float64) int {
	most := float64(q.maxTokens)
	least := max(1, q.minTokens)
	var n float64
	switch l := &c.OutputLength; {
	case c.EarlyEOS:
		return min(q.maxTokens, least+int(uniform*(most-float64(least)+1)))
	case l.MeanShare > 0:
		n = 1 + math.Floor(exponential*most/hazard(l.MeanShare))
	case l.Mean > 0:
		n = math.Round(lognormal(l.Mean, l.Stddev/l.Mean, normal))
	default:
		return q.maxTokens
	}
	return int(min(max(n, float64(least)), most))
}

// OutputLength is the length of outputs that end by themselves. It does not apply if the request says ignore_eos, or
// beyond the request's limit. Set either MeanShare or Mean.
type OutputLength struct {
	// MeanShare is the mean length of outputs as a share of their limit, above 0 and below 1. Each token is the last
	// with the same chance. 0, the default: outputs do not end by themselves.
	MeanShare float64
	// Mean and Stddev are those of a lognormal distribution of lengths in tokens, before the limit applies. 0, the
	// default: outputs do not end by themselves.
	Mean, Stddev float64
}

func (l *OutputLength) validate() error {
	var errs []error
	if !(l.MeanShare >= 0 && l.MeanShare < 1) {
		errs = append(errs, fmt.Errorf("simulator: OutputLength.MeanShare is %v: give 0 or more and less than 1",
			l.MeanShare))
	}
	errs = append(errs, checkFinite("OutputLength.Mean", l.Mean), checkFinite("OutputLength.Stddev", l.Stddev))
	if l.MeanShare > 0 && l.Mean > 0 {
		errs = append(errs, errors.New("simulator: OutputLength.MeanShare and OutputLength.Mean are both set: "+
			"give one of them"))
	}
	if l.Stddev > 0 && l.Mean == 0 {
		errs = append(errs, errors.New("simulator: OutputLength.Stddev is set without OutputLength.Mean: give both"))
	}
	return errors.Join(errs...)
}

// hazard returns the x for which an exponential distribution with rate x, truncated at 1, has the mean s: (1-e^-x)/x =
// s.
func hazard(s float64) float64 {
	low, high := 0.0, 2/s
	for range 60 {
		x := (low + high) / 2
		if -math.Expm1(-x)/x > s {
			low = x
		} else {
			high = x
		}
	}
	return high
}

// lognormal returns the lognormal number with a mean and a coefficient of variation v that corresponds to a standard
// normal number z: mean x exp(sigma z - sigma^2/2) with sigma^2 = ln(1+v^2) (Johnson, Kotz, Balakrishnan: Continuous
// Univariate Distributions 1, chapter 14).
func lognormal(mean, v, z float64) float64 {
	variance := math.Log1p(v * v)
	return mean * math.Exp(math.Sqrt(variance)*z-variance/2)
}

// Textless is which tokens are streamed as a frame with empty text, as engines send halves of characters and special
// tokens. In APIs without such frames (responses and Anthropic's messages, as vLLM serves them), these tokens have no
// frame.
type Textless struct {
	// Share is the chance of each token to have no text, 0 (default) to 1.
	Share float64
	// First and Last are the numbers of tokens at the start and at the end that never have text. Default 0.
	First, Last int
}

func (t *Textless) validate() error {
	errs := []error{checkAtLeast("Textless.First", t.First, 0), checkAtLeast("Textless.Last", t.Last, 0)}
	return errors.Join(append(errs, checkShare("Textless.Share", t.Share))...)
}

// checkFinite returns an error if v is negative, infinite or not a number.
func checkFinite(field string, v float64) error {
	if v >= 0 && !math.IsInf(v, 1) {
		return nil
	}
	return fmt.Errorf("simulator: %s is %v: give 0 or more", field, v)
}
