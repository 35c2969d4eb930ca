package tokenizer

import "strings"

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
		visible := '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || 0xae <= b
		if visible {
			all[b] = rune(b)
		} else {
			all[b] = next
			next++
		}
	}
	return all
}()
