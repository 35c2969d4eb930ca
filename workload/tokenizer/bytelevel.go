package tokenizer

import "strings"

// gpt2 is the pattern that GPT-2 cuts text with.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// newByteLevel writes each byte as a character of its own, after cutting as GPT-2 does if asked.
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
			pieces = each(spaced)(pieces)
		}
		if useRegex {
			pieces = cut(pieces)
		}
		return each(inLetters)(pieces)
	}, nil
}

// spaced puts a space before a piece that has none.
func spaced(out []piece, p piece) []piece {
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

// letters has a letter for each byte, as GPT-2 introduced them: visible characters of Latin-1 stand for themselves, and
// the others, in their order, for the characters from U+0100 on.
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
