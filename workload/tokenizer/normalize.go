package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes text before the text is split.
type normalizer func(text string) string

// normalizerPart is a normalizer in the file.
type normalizerPart struct {
	kind
	Parts   []json.RawMessage `json:"normalizers"`
	Prepend string            `json:"prepend"`
	Pattern pattern           `json:"pattern"`
	Content string            `json:"content"`
	Left    bool              `json:"strip_left"`
	Right   bool              `json:"strip_right"`
}

var forms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// newNormalizer returns the normalizer of a part of the file.
func newNormalizer(data json.RawMessage) (normalizer, error) {
	if absent(data) {
		return func(text string) string { return text }, nil
	}
	var p normalizerPart
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("its normalizer: %w", err)
	}
	if form, ok := forms[p.Type]; ok {
		return form.String, nil
	}
	switch p.Type {
	case "Sequence":
		return inSequence(p.Parts, newNormalizer)
	case "Lowercase":
		return strings.ToLower, nil
	case "Prepend":
		return p.prepend, nil
	case "Strip":
		return p.strip, nil
	case "Replace":
		return newReplacement(p)
	}
	return nil, unsupported("normalizer", p.Type)
}

func (p *normalizerPart) prepend(text string) string {
	if text == "" {
		return ""
	}
	return p.Prepend + text
}

func (p *normalizerPart) strip(text string) string {
	if p.Left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if p.Right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// newReplacement returns a normalizer that replaces what a pattern matches.
func newReplacement(p normalizerPart) (normalizer, error) {
	if p.Pattern.String != nil {
		return func(text string) string { return strings.ReplaceAll(text, *p.Pattern.String, p.Content) }, nil
	}
	find, err := p.Pattern.finder()
	if err != nil {
		return nil, err
	}
	return func(text string) string {
		var out strings.Builder
		from := 0
		for _, m := range find(text) {
			out.WriteString(text[from:m.start])
			out.WriteString(p.Content)
			from = m.stop
		}
		out.WriteString(text[from:])
		return out.String()
	}, nil
}

// gpt2 is the pattern that GPT-2 splits text with.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// newByteLevel returns a splitter that writes each byte as one character, after splitting as GPT-2 does if asked.
func newByteLevel(p splitterPart) (splitter, error) {
	expression := gpt2
	cut, err := newCutter(pattern{Regex: &expression}, "Isolated", false)
	if err != nil {
		return nil, err
	}
	useRegex := p.UseRegex == nil || *p.UseRegex
	prefix := p.AddPrefixSpace == nil || *p.AddPrefixSpace
	return func(pieces []piece) []piece {
		if prefix {
			pieces = each(addSpace)(pieces)
		}
		if useRegex {
			pieces = cut(pieces)
		}
		return each(inLetters)(pieces)
	}, nil
}

// addSpace puts a space in front of a piece that does not start with one.
func addSpace(out []piece, p piece) []piece {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	return append(out, p)
}

// inLetters writes a piece's bytes as letters.
func inLetters(out []piece, p piece) []piece {
	var b strings.Builder
	b.Grow(2 * len(p.text))
	for i := range len(p.text) {
		b.WriteRune(letters[p.text[i]])
	}
	return append(out, piece{b.String(), p.first})
}

// letters maps each byte to a character, as GPT-2 introduced it: visible characters of Latin-1 stand for themselves,
// and the other bytes map, in their order, to the characters from U+0100 on.
var letters = func() (all [256]rune) {
	next := rune(0x100)
	for b := range all {
		if visible := '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || 0xae <= b; visible {
			all[b] = rune(b)
		} else {
			all[b] = next
			next++
		}
	}
	return all
}()
