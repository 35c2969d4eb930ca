package workload

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// prefixes are the starts that requests share. Whether request i carries a prefix, and of which group, is drawn for
// each i independently.
//
// How much of request i's prefix an earlier request carried too depends on all earlier requests. Each prefixes walks
// the indices once, up to the highest index asked for, and stops when each group has been carried at full length. It
// keeps 32 bytes per group (32 MB for a million groups), and a little more where prompts are too short for their
// prefix.
type prefixes struct {
	length  uint64 // in tokens
	groups  uint64
	share   float64
	prompt  func(index uint64) uint64 // length of a prompt
	carried draw.Sequence             // whether a request has one
	drawn   draw.Sequence             // which group
	content draw.Sequence             // each group's tokens

	walked   atomic.Uint64             // carriers cover the requests below this index
	carriers []atomic.Pointer[carrier] // the newest carrier of each group
	walking  sync.Mutex                // guards the fields below, and stores to the fields above
	full     uint64                    // the length beyond which no carrier is needed
	missing  uint64                    // groups without a carrier of that length
	end      uint64                    // requests from here on are not walked
}

// carrier is a request that carried more of its group's prefix than all earlier requests.
type carrier struct {
	index, length uint64
	before        *carrier
}

// walkAhead is how many requests are walked at a time.
const walkAhead = 1024

// longestWalk is the minimum number of requests that are walked while a group has not been carried at full length.
// Prompts may be so short that this never happens. After the walk, a group's longest prefix so far is taken to be its
// longest.
const longestWalk = 1 << 24

// newPrefixes returns the prefixes of prompts whose lengths lie between shortest and longest.
func newPrefixes(p *spatev1.Prefix, seed uint64, prompt func(uint64) uint64, shortest, longest uint64) *prefixes {
	x := &prefixes{
		length: uint64(p.GetLength()), groups: uint64(max(p.GetGroups(), 1)), prompt: prompt,
		share:   cmp.Or(p.GetShare(), 1),
		carried: draw.New(seed, "prefix", "carried"), drawn: draw.New(seed, "prefix", "group"),
		content: draw.New(seed, "prefix", "content"),
	}
	x.carriers = make([]atomic.Pointer[carrier], x.groups)
	x.full, x.missing = min(x.length, longest), x.groups
	x.end = requestsToCover(float64(x.groups), x.share)
	if shortest < x.full {
		x.end = max(x.end, longestWalk)
	}
	return x
}

// requestsToCover returns the number of requests after which each group has been carried, except with a chance of 1 in
// 10^9. A given group is missing from n requests with a chance of (1 - share/groups)^n < exp(-n share / groups). Any
// group is missing with a chance of at most groups times that.
func requestsToCover(groups, share float64) uint64 {
	n := groups * (math.Log(groups) + math.Log(1e9)) / share
	if n >= math.MaxUint64 {
		return math.MaxUint64
	}
	return uint64(math.Ceil(n))
}

// of returns the tokens and the length of a request's prefix. Length 0: the request carries no prefix.
func (x *prefixes) of(index uint64) (tokens draw.Sequence, length uint64) {
	group, carries := x.group(index)
	if !carries {
		return draw.Sequence{}, 0
	}
	return x.content.Sub(group), min(x.length, x.prompt(index))
}

// group returns the group of a request, and whether the request carries a prefix.
func (x *prefixes) group(index uint64) (group uint64, carries bool) {
	if x.share < 1 && x.carried.Unit(index) >= x.share {
		return 0, false
	}
	return x.drawn.Below(index, x.groups), true
}

// shared returns how many tokens of a request's prefix an earlier request carried too. It costs a few nanoseconds for
// each request between this one and the highest index asked for so far.
func (x *prefixes) shared(index uint64) uint64 {
	group, carries := x.group(index)
	if !carries {
		return 0
	}
	if index >= x.walked.Load() {
		x.walk(index)
	}
	for r := x.carriers[group].Load(); r != nil; r = r.before {
		if r.index < index {
			return min(r.length, x.prompt(index))
		}
	}
	return 0
}

// walk notes the requests up to the index and some beyond it.
func (x *prefixes) walk(index uint64) {
	x.walking.Lock()
	defer x.walking.Unlock()
	i := x.walked.Load()
	to := min(max(index, index+walkAhead), x.end)
	for ; i < to && x.missing > 0; i++ {
		x.note(i)
	}
	if x.missing == 0 || i >= x.end {
		i = math.MaxUint64
	}
	x.walked.Store(i)
}

// note adds a carrier if the request carries more of its prefix than the requests before it.
func (x *prefixes) note(index uint64) {
	group, carries := x.group(index)
	if !carries {
		return
	}
	before, length := x.carriers[group].Load(), min(x.length, x.prompt(index))
	if before != nil && before.length >= min(length, x.full) {
		return
	}
	x.carriers[group].Store(&carrier{index, length, before})
	if length >= x.full {
		x.missing--
	}
}

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

// newBusting returns the vocabulary of a workload, and reads its cache_busting.
func newBusting(c Config) (*vocabulary, cacheBusting, error) {
	v, err := newVocabulary(c)
	if err != nil {
		return nil, cacheBusting{}, err
	}
	if c.Workload.GetCacheBusting() != "request" {
		return v, cacheBusting{}, nil
	}
	if v.size(Text) < 2 || v.size(TokenIDs) < 2 {
		return nil, cacheBusting{}, fmt.Errorf("workload: cache_busting needs at least 2 different tokens, "+
			"but there are %d words and %d token ids", v.size(Text), v.size(TokenIDs))
	}
	return v, cacheBusting{starts: draw.New(c.Seed, "cache busting", c.Run), on: true}, nil
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
