package workload

import (
	"errors"
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// ownBits is how many bits of tokens a request begins with that is to miss every cache. Of n requests, of this and
// other runs, two begin alike with a chance of at most n^2 / 2^64: 1 in 18 million for a million requests. (Half of it
// is that the tokens are the same, half that the sequences they are drawn from are.)
const ownBits = 64

// busting gives each arrival a begin that no other one has, in this run or another, whatever the seeds of their stages.
// The zero value gives none.
type busting struct {
	begins draw.Sequence
	on     bool
}

// newBusting reads what the workload asks for.
func newBusting(c Config, v *vocabulary) (busting, error) {
	switch how := c.Workload.GetCacheBusting(); how {
	case "", "none":
		return busting{}, nil
	case "request":
	default:
		return busting{}, fmt.Errorf("workload: cache_busting %q is not known: give none or request", how)
	}
	if v.size(Text) < 2 || v.size(TokenIDs) < 2 {
		return busting{}, fmt.Errorf("workload: cache_busting needs at least 2 different tokens, there are %d words and %d token ids",
			v.size(Text), v.size(TokenIDs))
	}
	return busting{begins: draw.New(c.Seed, "cache busting", c.Run), on: true}, nil
}

// check refuses what contradicts it.
func (b busting) check(p *spatev1.Prefix) error {
	if b.on && p != nil {
		return errors.New("workload: prefix and cache_busting contradict each other: one makes requests begin alike, the other apart")
	}
	return nil
}

// tokens returns how many tokens the begin has, of n that the prompt has. A shorter prompt is nothing but begin, and
// may come twice.
func (b busting) tokens(v *vocabulary, form Form, n uint64) uint64 {
	if !b.on {
		return 0
	}
	return min(v.enough(form, ownBits), n)
}
