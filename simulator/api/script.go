package api

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// Finish reasons.
const (
	FinishLength = "length"
	FinishStop   = "stop"
)

// Script describes the tokens of one answer. It is drawn before the answer starts. Tokens count from 0.
type Script struct {
	Tokens       int     // generated in total; usage counts each of them
	Hidden       int     // number of first tokens that are never streamed
	EOS          bool    // the last token is the end-of-sequence token, which has no text
	someTextless bool    // some tokens have no text
	share        float64 // chance of every other token to have no text
	seed         uint64  // seed of that chance
	Wrong        bool    // the words are not those of the model
	Noise        float64 // standard normal, for the jitter of the prefill
}

// Textless reports whether token i has no text.
func (s *Script) Textless(i int) bool { return s.someTextless && s.lacksText(i) }

func (s *Script) lacksText(i int) bool {
	return i < s.Hidden || s.EOS && i == s.Tokens-1 || s.share > 0 && unit(s.seed, i) < s.share
}

// hasText reports whether any of the tokens from to until-1 has text.
func (s *Script) hasText(from, until int) bool {
	for i := from; i < until; i++ {
		if !s.Textless(i) {
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

// DrawScript returns the script of a request. It draws the same numbers whatever the configuration.
func DrawScript(c *config.Config, q *Request, r *rand.Rand) Script {
	_, _ = r.Float64(), r.ExpFloat64() // the plans' parameters were fitted with the numbers that follow these
	normal, seed, noise := r.NormFloat64(), r.Uint64(), r.NormFloat64()
	s := Script{Tokens: q.MaxTokens, share: c.TextlessShare, seed: seed, Noise: noise}
	if !q.IgnoreEOS {
		s.Tokens = naturalLength(c, q, normal)
	}
	s.EOS = s.Tokens < q.MaxTokens && !c.Frames.FinishFrame
	if c.Frames.ReasoningField == config.ReasoningHidden {
		s.Hidden = min(c.Frames.ReasoningTokens, s.Tokens)
	}
	s.someTextless = s.EOS || s.Hidden > 0 || s.share > 0
	return s
}

// naturalLength returns the length of an output that may end by itself, including the end-of-sequence token if it
// counts. normal is drawn from the standard normal distribution.
func naturalLength(c *config.Config, q *Request, normal float64) int {
	most := float64(q.MaxTokens)
	least := max(1, q.minTokens)
	var n float64
	switch l := &c.OutputLength; {
	case q.said != nil:
		n = float64(c.Frames.ReasoningTokens + len(q.said) + 1)
	case l.Mean > 0:
		n = math.Round(engine.Lognormal(l.Mean, l.Stddev/l.Mean, normal))
	default:
		return q.MaxTokens
	}
	return int(min(max(n, float64(least)), most))
}

// RequestRand returns the random source of one request. It depends only on the seed and the request's ID, so that the
// order of requests does not matter.
func RequestRand(seed uint64, id string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
