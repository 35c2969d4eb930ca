package preparation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/workload/draw"
)

// scale finds out which words a server counts as one token each, by weighing texts.
//
// A text of words weighs the sum of its words' tokens and what the server adds to every prompt. To tell the two apart, every text begins
// with the same word, the head: it weighs base = head + added alone, and whatever follows it stands behind a space. So the tokens of any
// list of words are weight - base, they add up, and a list of n words whose weight is base + n needs no second look. One that weighs
// something else is halved; the weight of one half says that of the other. As there are words enough, short lists that are
// not right are dropped whole.
//
// A word at the begin of a prompt has no space before it. That is weighed in the same way, with a line feed for the space.
type scale struct {
	weigh     func(ctx context.Context, text string) (uint64, error)
	left      int    // requests that it may still send
	sent      int    // those it has sent
	head      string // first word of all texts
	base      uint64 // its weight
	added     uint32 // tokens that the server adds to a prompt
	unchecked bool   // words could not be weighed at the begin of a prompt
}

const (
	// fewest is how many words must be left: of 100, a text of 16 tokens is the same twice in 10^32.
	fewest = 100
	// leaf is the longest list that is dropped whole.
	leaf = 4
	// spare is how many requests are kept for what follows the search for words.
	spare = 4
)

var errSpent = errors.New("no more requests")

// put weighs a text.
func (s *scale) put(ctx context.Context, text string) (uint64, error) {
	if s.left == 0 {
		return 0, errSpent
	}
	s.left--
	s.sent++
	return s.weigh(ctx, text)
}

// search returns the words that weigh one token each.
func (s *scale) search(ctx context.Context, words []string) ([]string, error) {
	if err := s.calibrate(ctx, words); err != nil {
		return nil, err
	}
	good, err := s.sieve(ctx, words, " ", 1)
	if err != nil {
		return nil, err
	}
	if len(good) < fewest {
		return nil, s.few(len(good), len(words))
	}
	if good, err = s.beginners(ctx, good); err != nil {
		return nil, err
	}
	return good, s.confirm(ctx, good)
}

// few is the error of too few words.
func (s *scale) few(good, all int) error {
	return fmt.Errorf("after %d requests, %d of %d words are known to be one token each, and %d are needed: set the target's tokenizer to file:PATH, the model's tokenizer.json",
		s.sent, good, all, fewest)
}

// calibrate weighs three single words. The lightest is the head. Its own weight is one token: a model that splits three of the commonest
// words at the begin of a prompt is not to be told from one that adds a token more.
func (s *scale) calibrate(ctx context.Context, words []string) error {
	for _, head := range []string{words[0], words[len(words)/2], words[len(words)-1]} {
		w, err := s.put(ctx, head)
		if err != nil {
			return err
		}
		if s.head == "" || w < s.base {
			s.head, s.base = head, w
		}
	}
	if s.base == 0 || s.base-1 > math.MaxInt32 {
		return fmt.Errorf("the prompt %q has %d tokens, says the server", s.head, s.base)
	}
	s.added = uint32(s.base - 1)
	return nil
}

// excess returns by how many tokens a list is heavier than it should be, with each word behind a separator that it weighs together with.
func (s *scale) excess(ctx context.Context, words []string, separator string, each uint64) (int64, error) {
	text := s.head + separator + strings.Join(words, separator)
	w, err := s.put(ctx, text)
	return int64(w) - int64(s.base) - int64(len(words))*int64(each), err
}

// group is a list of words that is too heavy or too light.
type group struct {
	words  []string
	excess int64
}

// sieve returns the words of a list that weigh what they should. Those that it cannot look into any more are dropped.
func (s *scale) sieve(ctx context.Context, words []string, separator string, each uint64) ([]string, error) {
	e, err := s.excess(ctx, words, separator, each)
	if err != nil {
		return nil, err
	}
	bad := make(map[string]bool)
	for open := []group{{words, e}}; len(open) > 0; {
		g := open[0] // halves go to the end: the longest list is looked into first
		open = open[1:]
		switch {
		case g.excess == 0:
			continue
		case len(g.words) <= leaf || s.left <= spare:
			for _, w := range g.words {
				bad[w] = true
			}
			continue
		}
		half := len(g.words) / 2
		e, err := s.excess(ctx, g.words[:half], separator, each)
		if err != nil {
			return nil, err
		}
		open = append(open, group{g.words[:half], e}, group{g.words[half:], g.excess - e})
	}
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return bad[w] }), nil
}

// beginners returns the words that are one token at the begin of a prompt, too. If too few seem to be, it is the line feed
// that the model takes in another way, and all are returned.
func (s *scale) beginners(ctx context.Context, words []string) ([]string, error) {
	const times = 8
	w, err := s.put(ctx, s.head+strings.Repeat("\n"+s.head, times))
	if err != nil {
		return nil, err
	}
	each := (w - s.base) / times
	if w < s.base || each == 0 || each*times != w-s.base {
		s.unchecked = true
		return words, nil
	}
	good, err := s.sieve(ctx, words, "\n", each)
	if err != nil {
		return nil, err
	}
	if len(good) < fewest {
		s.unchecked = true
		return words, nil
	}
	return good, nil
}

// confirm weighs the words once more, in another order and twice each.
func (s *scale) confirm(ctx context.Context, words []string) error {
	e, err := s.excess(ctx, shuffled(words), " ", 1)
	if err != nil {
		return err
	}
	if e != 0 {
		return fmt.Errorf("%d words that are one token each have %d tokens in another order: the model's tokens go over the space between words; set the target's tokenizer to file:PATH, the model's tokenizer.json",
			len(words), int64(len(words))+e)
	}
	return nil
}

// shuffled returns words in an order that is random, but always the same.
func shuffled(words []string) []string {
	lots := draw.New(1, "preparation")
	all := slices.Clone(words)
	for i := range all {
		j := i + int(lots.Below(uint64(i), uint64(len(all)-i)))
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// constant finds out what the server adds to a prompt of words that are one token each. It is an error if they are not.
func (s *scale) constant(ctx context.Context, words []string) error {
	if err := s.calibrate(ctx, words); err != nil {
		return err
	}
	some := shuffled(words)
	some = some[:min(len(some), 4*fewest)]
	e, err := s.excess(ctx, some, " ", 1)
	if err != nil {
		return err
	}
	if e != 0 {
		return fmt.Errorf("the server counts %d tokens more for a prompt of %d words than for one of 1 word", int64(len(some))+e, len(some)+1)
	}
	return nil
}
