package ready

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/workload/draw"
)

// tokenCounter returns how many tokens the server counts in a text.
type tokenCounter func(ctx context.Context, text string) (uint64, error)

// wordFinder finds words that the server counts as one token each.
//
// The server's count of a text is the sum of its words' tokens plus what the server adds to every prompt. To tell the
// two apart, every text starts with a first word, one that was counted alone. The other words come after a space and
// have the tokens that the text has beyond the first word. A list of n words that has n tokens is done. A list that has
// another number of tokens is halved; the count of one half gives that of the other. If that finds little, words are
// weighed: a text has each word another number of times.
//
// A word that is one token after a space may be more at the start of a prompt, and the other way round. So there are a
// few first words, which have the same count alone as prompts, and many others. A prompt of a first word and n others
// then has base + n tokens, however many tokens a first word has by itself: anything beyond one token counts as added
// by the server.
type wordFinder struct {
	countPrompt  tokenCounter // counts a text as a prompt, with everything that the server adds
	countList    tokenCounter // counts a list of words, where the tokenizer accepts no chats; nil: countPrompt does
	requestsLeft int          // requests that may still be sent
	perRound     int          // words that are counted alone in one round
	words        []string

	began        time.Time
	requestsSent int
	first        []string
	base         uint64 // tokens of a first word as a prompt, by countPrompt
	listBase     uint64 // tokens of the first of the first words, by countList
}

const (
	// minWords is how many words are needed: of 32, a text of 16 tokens repeats with a probability of 1 in 10^24.
	minWords = 32
	// enoughWords is how many good words end the search. After searchLimit minWords do.
	enoughWords = 256
	searchLimit = 15 * time.Second
	// singlesPerRound is how many words are counted alone in one round if nothing is known about them. If fewer than
	// minFirstWords of them have the same count, another round is counted.
	singlesPerRound, minFirstWords = 8, 4
	// spareRequests is how many requests are reserved for what follows the search for words.
	spareRequests = 4
	// maxSample is how many words the texts of confirm have at most, besides the first.
	maxSample = 400
)

var errNoRequestsLeft = errors.New("no requests left")

// reserve reserves n requests before they are sent. It returns an error if fewer are left.
func (s *wordFinder) reserve(n int) error {
	if s.requestsLeft < n {
		return errNoRequestsLeft
	}
	s.requestsLeft -= n
	s.requestsSent += n
	return nil
}

// search finds the first words and the others.
func (s *wordFinder) search(ctx context.Context) error {
	s.began = time.Now()
	if err := s.findFirst(ctx); err != nil {
		return err
	}
	good, err := s.findGood(ctx)
	if err != nil {
		return err
	}
	if len(good) < minWords {
		return fmt.Errorf("after %d requests, %d of %d words are known to be one token each, but %d are needed: "+
			"set the target's tokenizer to file:PATH, the model's tokenizer.json", s.requestsSent, len(good),
			len(s.words), minWords)
	}
	s.words = good
	return s.confirm(ctx)
}

// findFirst finds words that have the same count as prompts: it keeps those with the most frequent count.
func (s *wordFinder) findFirst(ctx context.Context) error {
	var counts []uint64
	for round := range 2 {
		if err := s.countSingles(ctx, &counts, round); err != nil {
			return err
		}
		s.base = mostFrequent(counts)
		s.first = nil
		for i, n := range counts {
			if n == s.base {
				s.first = append(s.first, s.single(i))
			}
		}
		if len(s.first) >= min(minFirstWords, s.perRound) || s.requestsLeft < s.perRound+spareRequests {
			break
		}
	}
	if s.base == 0 || s.base > math.MaxInt32 {
		return fmt.Errorf("the server counts %d tokens in the prompt %q", s.base, s.first[0])
	}
	if s.listBase = s.base; s.countList == nil {
		s.countList = s.countPrompt
		return nil
	}
	if err := s.reserve(1); err != nil {
		return err
	}
	var err error
	s.listBase, err = s.countList(ctx, s.first[0])
	return err
}

// single returns the word number i to count alone. The words of a round are far apart.
func (s *wordFinder) single(i int) string {
	return s.words[(i%s.perRound*len(s.words)/s.perRound+i/s.perRound*7)%len(s.words)]
}

// countSingles counts the single words of a round, several at a time.
func (s *wordFinder) countSingles(ctx context.Context, counts *[]uint64, round int) error {
	if err := s.reserve(s.perRound); err != nil {
		return err
	}
	more := make([]uint64, s.perRound)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel / 2)
	for i := range more {
		group.Go(func() (err error) {
			more[i], err = s.countPrompt(ctx, s.single(round*s.perRound+i))
			return err
		})
	}
	err := group.Wait()
	*counts = append(*counts, more...)
	return err
}

// mostFrequent returns the most frequent number, and of several the smallest.
func mostFrequent(numbers []uint64) uint64 {
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

// group is a list of words, some of which may have more or fewer tokens than one.
type group struct {
	words  []string
	excess int64
}

// density returns the absolute excess per word, in tokens.
func (g group) density() float64 { return math.Abs(float64(g.excess)) / float64(len(g.words)) }

// countGroup counts words after the first word.
func (s *wordFinder) countGroup(ctx context.Context, words []string) (group, error) {
	if err := s.reserve(1); err != nil {
		return group{}, err
	}
	n, err := s.countList(ctx, s.first[0]+" "+strings.Join(words, " "))
	return group{words, int64(n) - int64(s.listBase) - int64(len(words))}, err
}

// findGood returns words that are one token each. It keeps halving the group with the smallest excess per word, until
// there are enough words or no requests left. It drops words that it has not resolved by then.
func (s *wordFinder) findGood(ctx context.Context) ([]string, error) {
	all, err := s.countGroup(ctx, s.words)
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
	for len(open) > 0 && len(good) < enoughWords && s.requestsLeft > spareRequests &&
		(len(good) < minWords || time.Since(s.began) < searchLimit) {
		i := lowestDensity(open)
		g := open[i]
		open = slices.Delete(open, i, i+1)
		if g.density() > dense {
			if err := s.weigh(ctx, g, keep); err != nil {
				return nil, err
			}
			continue
		}
		half, err := s.countGroup(ctx, g.words[:len(g.words)/2])
		if err != nil {
			return nil, err
		}
		keep(half)
		keep(group{g.words[len(half.words):], g.excess - half.excess})
	}
	return slices.DeleteFunc(slices.Clone(s.words), func(w string) bool { return !good[w] }), nil
}

// A group is dense if most of its parts have words of several tokens, so that halving it finds few words.
const (
	dense = 1.0 / 16
	ratio = 7 // more than the tokens that a word has beyond one
)

// weigh counts the first words of a dense group in one text that has each word ratio times as often as the one before,
// so that the text's excess to the base ratio has the excess of each word as a digit. It keeps them and the others.
func (s *wordFinder) weigh(ctx context.Context, g group, keep func(group)) error {
	var text []string
	n := 0
	for times := 1; n < len(g.words) && len(text)+times <= len(s.words); times *= ratio {
		text = append(text, slices.Repeat(g.words[n:n+1], times)...)
		n++
	}
	counted, err := s.countGroup(ctx, text)
	if err != nil {
		return err
	}
	for i := range n {
		excess := counted.excess
		if i < n-1 {
			excess %= ratio
		}
		keep(group{g.words[i : i+1], excess})
		g.excess -= excess
		counted.excess /= ratio
	}
	keep(group{g.words[n:], g.excess})
	return nil
}

// lowestDensity returns the index of the group with the smallest density, the first of several.
func lowestDensity(groups []group) int {
	best := 0
	for i, g := range groups {
		if g.density() < groups[best].density() {
			best = i
		}
	}
	return best
}

// confirm counts whole prompts that start with different first words and continue with the other words, in different
// orders.
func (s *wordFinder) confirm(ctx context.Context) error {
	mixed := shuffled(s.words)
	mixed = mixed[:min(len(mixed), maxSample)]
	for _, first := range []string{s.first[len(s.first)-1], s.first[0]} {
		if err := s.reserve(1); err != nil {
			return err
		}
		n, err := s.countPrompt(ctx, first+" "+strings.Join(mixed, " "))
		if err != nil {
			return err
		}
		if want := s.base + uint64(len(mixed)); n != want {
			return fmt.Errorf("a prompt of %d words that are one token each has %d tokens instead of %d: the "+
				"model's tokens span the spaces between words; set the target's tokenizer to file:PATH, the "+
				"model's tokenizer.json",
				len(mixed)+1, n, want)
		}
		slices.Reverse(mixed)
	}
	return nil
}

// shuffled returns words in a random order that is always the same.
func shuffled(words []string) []string {
	random := draw.New(1, "preparation")
	all := slices.Clone(words)
	for i := range all {
		j := i + int(random.Below(uint64(i), uint64(len(all)-i)))
		all[i], all[j] = all[j], all[i]
	}
	return all
}
