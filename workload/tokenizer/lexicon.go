package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

const (
	// Length of words in letters. There are few words of one letter, and they say little. With its space, the longest
	// word has 8 bytes, which are written at once.
	minLetters = 2
	maxLetters = 7
	// maxWords keeps a stage's assignment small and its words common: vocabularies list their most common tokens
	// first.
	maxWords = 4000
	// minWords is the minimum number of words of a lexicon.
	minWords = 100
	// Number of random texts that the words must pass, and of words in each.
	trials    = 1000
	trialSize = 64
)

// Lexicon returns words that are one token each, whatever their neighbours: at most 4,000 lowercase English-like words,
// in the order of the vocabulary. It returns an error if there are fewer than 100.
//
// Every token that is a space and 2 to 7 lowercase letters is a candidate. It must be one token alone, at the start of
// a line, and behind a space. Then 1,000 texts of 64 random words must have 64 tokens each. If a text fails,
// neighbouring words that are not two tokens are removed, and the trials start over. Tokens of today's models end where
// a space starts, so one round is enough for them.
func (t *Tokenizer) Lexicon() (_ *spatev1.Lexicon, err error) {
	defer tooSlow(&err)
	words := t.candidates()
	for {
		bad, err := t.failing(words)
		if err != nil {
			return nil, err
		}
		if len(bad) == 0 {
			return &spatev1.Lexicon{Words: words, Source: "file"}, nil
		}
		words = slices.DeleteFunc(words, func(w string) bool { return bad[w] })
	}
}

// candidates returns the words that are one token in every position.
func (t *Tokenizer) candidates() []string {
	var words []string
	seen := make(map[string]bool)
	feed := len(t.encode("\n"))
	for _, token := range t.model.tokens() {
		if len(words) == maxWords {
			break
		}
		w, ok := wordOf(token)
		if !ok || seen[w] {
			continue
		}
		seen[w] = true
		if len(t.encode(w)) == 1 && len(t.encode(w+" "+w)) == 2 && len(t.encode("\n"+w)) == feed+1 {
			words = append(words, w)
		}
	}
	return words
}

// wordOf returns the word of a token that starts with a space, as tokens of whole words do. False: the token is not
// such a word, or not of a wanted length.
func wordOf(token string) (string, bool) {
	for _, space := range []string{"Ġ", "▁"} {
		if w, ok := strings.CutPrefix(token, space); ok {
			plain := strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == ""
			return w, plain && len(w) >= minLetters && len(w) <= maxLetters
		}
	}
	return "", false
}

// failing returns the words to blame for the first trial that fails. Empty: all trials pass.
func (t *Tokenizer) failing(words []string) (map[string]bool, error) {
	if len(words) < minWords {
		return nil, fmt.Errorf("tokenizer: only %d lowercase words of its vocabulary are one token "+
			"next to any other word, but %d are needed: set the target's tokenizer to server or usage",
			len(words), minWords)
	}
	numbers := draw.New(1, "lexicon")
	text := make([]string, trialSize)
	for trial := range uint64(trials) {
		for i := range text {
			text[i] = words[numbers.Below(trial*trialSize+uint64(i), uint64(len(words)))]
		}
		if len(t.encode(strings.Join(text, " "))) != trialSize {
			return t.blame(text), nil
		}
	}
	return nil, nil
}

// blame returns the words of a text that are not two tokens with a neighbour, or all words if there are none.
func (t *Tokenizer) blame(text []string) map[string]bool {
	bad := make(map[string]bool)
	for i := range text[1:] {
		if len(t.encode(text[i]+" "+text[i+1])) != 2 {
			bad[text[i]], bad[text[i+1]] = true, true
		}
	}
	if len(bad) == 0 {
		for _, w := range text {
			bad[w] = true
		}
	}
	return bad
}
