package workload

import (
	"errors"
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// uniqueBits is the number of random bits in the unique start of a request that must miss every cache. Among n
// requests, of this run and others, two start alike with a chance of at most n^2 / 2^64: 1 in 18 million for a million
// requests. (Half of this chance comes from equal tokens, half from equal sequences that the tokens are drawn from.)
const uniqueBits = 64

// cacheBusting gives each arrival a unique start that no other arrival has, in this run or another, whatever the seeds
// of their stages. The zero value gives none.
type cacheBusting struct {
	starts draw.Sequence
	on     bool
}

// newBusting reads the workload's cache_busting.
func newBusting(c Config, v *vocabulary) (cacheBusting, error) {
	switch how := c.Workload.GetCacheBusting(); how {
	case "", "none":
		return cacheBusting{}, nil
	case "request":
	default:
		return cacheBusting{}, fmt.Errorf("workload: cache_busting %q is not known: give none or request", how)
	}
	if v.size(Text) < 2 || v.size(TokenIDs) < 2 {
		return cacheBusting{}, fmt.Errorf("workload: cache_busting needs at least 2 different tokens, "+
			"but there are %d words and %d token ids", v.size(Text), v.size(TokenIDs))
	}
	return cacheBusting{starts: draw.New(c.Seed, "cache busting", c.Run), on: true}, nil
}

// check returns an error if the workload also has a prefix, which contradicts cache busting.
func (b cacheBusting) check(p *spatev1.Prefix) error {
	if b.on && p != nil {
		return errors.New("workload: prefix and cache_busting contradict each other, " +
			"because a prefix makes requests start alike: leave one out")
	}
	return nil
}

// uniqueTokens returns the number of tokens in the unique start of a prompt of n tokens. A prompt that is shorter than
// a full unique start consists of nothing else, and may occur twice.
func (b cacheBusting) uniqueTokens(v *vocabulary, form Form, n uint64) uint64 {
	if !b.on {
		return 0
	}
	return min(v.tokensFor(form, uniqueBits), n)
}

// start writes the unique start of an arrival's prompt of n tokens, and returns its length in tokens.
func (b cacheBusting) start(t *transcript, index, n uint64) uint64 {
	unique := b.uniqueTokens(t.words, t.form, n)
	t.tokens(b.starts.Sub(index), 0, unique)
	return unique
}
