package preparation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/workload/draw"
)

// weigh returns how many tokens the server counts in a text.
type weigh func(ctx context.Context, text string) (uint64, error)

// scale finds words that the server counts as one token each, by weighing texts.
//
// A text weighs the sum of its words' tokens plus what the server adds to every prompt. To tell the two apart, every
// text starts with a first word, one that was weighed alone. The other words come after a space and weigh what the text
// weighs beyond the first word. A list of n words that weighs n needs no second look. A list that weighs something else
// is halved; the weight of one half gives that of the other.
//
// A word that is one token after a space may be more at the start of a prompt, and the other way round. So there are a
// few first words, which weigh the same alone as prompts, and many others. A prompt of a first word and n others then
// has base + n tokens, whatever a first word weighs by itself: anything beyond one token counts as added by the server.
type scale struct {
	prompt weigh // weighs a text as a prompt, with everything that the server adds
	list   weigh // weighs a text of many words; differs from prompt only where the server's tokenizer accepts no chats
	same   bool  // list is the same as prompt
	left   int   // requests that may still be sent
	looks  int   // words that are weighed alone in one round
	words  []string

	sent  int
	first []string
	base  uint64 // weight of a first word as a prompt
	head  uint64 // weight of the first of the first words, by list
}

const (
	// fewest is how many words are needed: of 32, a text of 16 tokens repeats with a probability of 1 in 10^24.
	fewest = 32
	// enough is how many good words end the search.
	enough = 256
	// singles is how many words are weighed alone in one round if nothing is known about them. If fewer than
	// fewestFirst of them weigh the same, another round is weighed.
	singles, fewestFirst = 8, 4
	// spare is how many requests are reserved for what follows the search for words.
	spare = 4
	// sample is how many words the texts of confirm have at most, besides the first.
	sample = 400
)

var errSpent = errors.New("no requests left")

// take reserves n requests before they are sent. It returns an error if fewer are left.
func (s *scale) take(n int) error {
	if s.left < n {
		return errSpent
	}
	s.left -= n
	s.sent += n
	return nil
}

// search finds the first words and the others.
func (s *scale) search(ctx context.Context) error {
	if err := s.starts(ctx); err != nil {
		return err
	}
	good, err := s.sieve(ctx)
	if err != nil {
		return err
	}
	if len(good) < fewest {
		return fmt.Errorf("after %d requests, %d of %d words are known to be one token each, but %d are needed: "+
			"set the target's tokenizer to file:PATH, the model's tokenizer.json", s.sent, len(good),
			len(s.words), fewest)
	}
	s.words = good
	return s.confirm(ctx)
}

// starts finds words that weigh the same as prompts: it keeps the most common weight of the words that it weighs.
func (s *scale) starts(ctx context.Context) error {
	var weights []uint64
	for round := range 2 {
		if err := s.weighSingles(ctx, &weights, round); err != nil {
			return err
		}
		s.base = commonest(weights)
		s.first = nil
		for i, w := range weights {
			if w == s.base {
				s.first = append(s.first, s.single(i))
			}
		}
		if len(s.first) >= min(fewestFirst, s.looks) || s.left < s.looks+spare {
			break
		}
	}
	if s.base == 0 || s.base > math.MaxInt32 {
		return fmt.Errorf("the server counts %d tokens in the prompt %q", s.base, s.first[0])
	}
	if s.head = s.base; s.same {
		return nil
	}
	if err := s.take(1); err != nil {
		return err
	}
	var err error
	s.head, err = s.list(ctx, s.first[0])
	return err
}

// single returns the word number i to weigh alone. The words of a round are far apart.
func (s *scale) single(i int) string {
	return s.words[(i%s.looks*len(s.words)/s.looks+i/s.looks*7)%len(s.words)]
}

// weighSingles weighs the single words of a round, several at a time.
func (s *scale) weighSingles(ctx context.Context, weights *[]uint64, round int) error {
	if err := s.take(s.looks); err != nil {
		return err
	}
	more := make([]uint64, s.looks)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askers / 2)
	for i := range more {
		group.Go(func() (err error) {
			more[i], err = s.prompt(ctx, s.single(round*s.looks+i))
			return err
		})
	}
	err := group.Wait()
	*weights = append(*weights, more...)
	return err
}

// commonest returns the most frequent number, and of several the smallest.
func commonest(numbers []uint64) uint64 {
	count := make(map[uint64]int)
	for _, n := range numbers {
		count[n]++
	}
	best := numbers[0]
	for n, c := range count {
		if c > count[best] || c == count[best] && n < best {
			best = n
		}
	}
	return best
}

// group is a list of words, some of which may be too heavy or too light.
type group struct {
	words  []string
	excess int64
}

// density returns the absolute excess per word, in tokens.
func (g group) density() float64 { return math.Abs(float64(g.excess)) / float64(len(g.words)) }

// weighGroup weighs words after the first word.
func (s *scale) weighGroup(ctx context.Context, words []string) (group, error) {
	if err := s.take(1); err != nil {
		return group{}, err
	}
	w, err := s.list(ctx, s.first[0]+" "+strings.Join(words, " "))
	return group{words, int64(w) - int64(s.head) - int64(len(words))}, err
}

// sieve returns words that weigh one token each. It keeps halving the group with the smallest excess per word, until
// there are enough words or no requests left. It drops words that it has not resolved by then.
func (s *scale) sieve(ctx context.Context) ([]string, error) {
	all, err := s.weighGroup(ctx, s.words)
	if err != nil {
		return nil, err
	}
	good := make(map[string]bool)
	var open []group
	keep := func(g group) {
		switch {
		case g.excess == 0:
			for _, w := range g.words {
				good[w] = true
			}
		case len(g.words) > 1:
			open = append(open, g)
		}
	}
	keep(all)
	for len(open) > 0 && len(good) < enough && s.left > spare {
		i := lightest(open)
		g := open[i]
		open = slices.Delete(open, i, i+1)
		half, err := s.weighGroup(ctx, g.words[:len(g.words)/2])
		if err != nil {
			return nil, err
		}
		keep(half)
		keep(group{g.words[len(half.words):], g.excess - half.excess})
	}
	return slices.DeleteFunc(slices.Clone(s.words), func(w string) bool { return !good[w] }), nil
}

// lightest returns the index of the group with the smallest density, the first of several.
func lightest(groups []group) int {
	best := 0
	for i, g := range groups {
		if g.density() < groups[best].density() {
			best = i
		}
	}
	return best
}

// confirm weighs whole prompts that start with different first words and continue with the other words, in different
// orders.
func (s *scale) confirm(ctx context.Context) error {
	mixed := shuffled(s.words)
	mixed = mixed[:min(len(mixed), sample)]
	for _, first := range []string{s.first[len(s.first)-1], s.first[0]} {
		if err := s.take(1); err != nil {
			return err
		}
		w, err := s.prompt(ctx, first+" "+strings.Join(mixed, " "))
		if err != nil {
			return err
		}
		if want := s.base + uint64(len(mixed)); w != want {
			return fmt.Errorf("a prompt of %d words that are one token each has %d tokens instead of %d: the "+
				"model's tokens span the spaces between words; set the target's tokenizer to file:PATH, the "+
				"model's tokenizer.json",
				len(mixed)+1, w, want)
		}
		slices.Reverse(mixed)
	}
	return nil
}

// shuffled returns words in a random order that is always the same.
func shuffled(words []string) []string {
	lots := draw.New(1, "preparation")
	all := slices.Clone(words)
	for i := range all {
		j := i + int(lots.Below(uint64(i), uint64(len(all)-i)))
		all[i], all[j] = all[j], all[i]
	}
	return all
}
