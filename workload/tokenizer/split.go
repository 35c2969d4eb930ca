package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// piece is a part of a text that is encoded by itself.
type piece struct {
	text  string
	first bool // the piece is at the start of the whole text
}

// splitter splits pieces into smaller ones.
type splitter func(pieces []piece) []piece

// splitterPart is a pre-tokenizer in the file.
type splitterPart struct {
	kind
	Parts          []json.RawMessage `json:"pretokenizers"`
	Pattern        pattern           `json:"pattern"`
	Behavior       string            `json:"behavior"`
	Invert         bool              `json:"invert"`
	AddPrefixSpace *bool             `json:"add_prefix_space"`
	UseRegex       *bool             `json:"use_regex"`
	Replacement    string            `json:"replacement"`
	PrependScheme  string            `json:"prepend_scheme"`
	Split          *bool             `json:"split"`
	Individual     bool              `json:"individual_digits"`
}

// newSplitter returns the splitter of a pre-tokenizer in the file.
func newSplitter(data json.RawMessage) (splitter, error) {
	if absent(data) {
		return func(pieces []piece) []piece { return pieces }, nil
	}
	var p splitterPart
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("its pre-tokenizer: %w", err)
	}
	switch p.Type {
	case "Sequence":
		return inSequence(p.Parts, newSplitter)
	case "Split":
		return newCutter(p.Pattern, p.Behavior, p.Invert)
	case "ByteLevel":
		return newByteLevel(p)
	case "Metaspace":
		return newMetaspace(p)
	case "Digits":
		return newCut(func(text string) []match { return runs(text, unicode.IsNumber, p.Individual) }, "Isolated", false)
	case "WhitespaceSplit":
		return newCut(func(text string) []match { return runs(text, unicode.IsSpace, false) }, "Removed", false)
	}
	return nil, unsupported("pre-tokenizer", p.Type)
}

// inSequence returns a function that applies those of several parts in sequence.
func inSequence[T any, F ~func(T) T](parts []json.RawMessage, of func(json.RawMessage) (F, error)) (F, error) {
	var all []F
	for _, part := range parts {
		f, err := of(part)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return func(v T) T {
		for _, f := range all {
			v = f(v)
		}
		return v
	}, nil
}

// each returns a splitter that splits each piece separately.
func each(split func(out []piece, p piece) []piece) splitter {
	return func(pieces []piece) []piece {
		out := make([]piece, 0, len(pieces))
		for _, p := range pieces {
			out = split(out, p)
		}
		return out
	}
}

// newCutter returns a splitter that cuts at what a pattern matches.
func newCutter(p pattern, behavior string, invert bool) (splitter, error) {
	find, err := p.finder()
	if err != nil {
		return nil, err
	}
	return newCut(find, behavior, invert)
}

// newCut returns a splitter that cuts at matches. The behavior decides what becomes of a match: a piece of its own,
// nothing, or a part of a neighbour. With invert, the text between the matches is treated as the matches.
func newCut(find finder, behavior string, invert bool) (splitter, error) {
	join, known := behaviors[behavior]
	if !known {
		return nil, unsupported("split behavior", behavior)
	}
	return each(func(out []piece, p piece) []piece {
		return join(out, p, sections(p.text, find(p.text), invert))
	}), nil
}

// section is a part of a text: a match, or the text between two matches.
type section struct {
	match
	matched bool
}

// sections covers a text with matches and the text between them.
func sections(text string, matches []match, invert bool) (all []section) {
	from := 0
	for _, m := range matches {
		if m.start > from {
			all = append(all, section{match{from, m.start}, invert})
		}
		all = append(all, section{m, !invert})
		from = m.stop
	}
	if from < len(text) {
		all = append(all, section{match{from, len(text)}, invert})
	}
	return all
}

// behaviors decide what becomes of sections.
var behaviors = map[string]func(out []piece, p piece, all []section) []piece{
	"Isolated": func(out []piece, p piece, all []section) []piece {
		return joined(out, p, all, func(_, _ section) bool { return false })
	},
	"Contiguous": func(out []piece, p piece, all []section) []piece {
		return joined(out, p, all, func(before, s section) bool { return before.matched == s.matched })
	},
	"MergedWithPrevious": func(out []piece, p piece, all []section) []piece {
		return joined(out, p, all, func(before, s section) bool { return s.matched && !before.matched })
	},
	"MergedWithNext": func(out []piece, p piece, all []section) []piece {
		return joined(out, p, all, func(before, s section) bool { return before.matched && !s.matched })
	},
	"Removed": func(out []piece, p piece, all []section) []piece {
		for _, s := range all {
			if !s.matched {
				out = append(out, p.part(s.start, s.stop))
			}
		}
		return out
	},
}

// joined appends sections as pieces. It joins each section to the one before if with returns true.
func joined(out []piece, p piece, all []section, with func(before, s section) bool) []piece {
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && with(all[end-1], all[end]) {
			end++
		}
		out = append(out, p.part(all[i].start, all[end-1].stop))
		i = end
	}
	return out
}

// part returns a part of a piece.
func (p piece) part(start, stop int) piece { return piece{p.text[start:stop], p.first && start == 0} }

// runs finds runs of characters, or, with alone, each character separately.
func runs(text string, of func(rune) bool, alone bool) (all []match) {
	start := -1
	for i, r := range text {
		inside := of(r)
		if start >= 0 && (!inside || alone) {
			all, start = append(all, match{start, i}), -1
		}
		if inside && start < 0 {
			start = i
		}
	}
	if start >= 0 {
		all = append(all, match{start, len(text)})
	}
	return all
}

// newMetaspace returns a splitter that replaces spaces by another character, may put one in front of the text, and cuts
// before each.
func newMetaspace(p splitterPart) (splitter, error) {
	prefixed, err := p.prefixed()
	if err != nil {
		return nil, err
	}
	if p.Replacement == "" {
		return nil, errors.New("its pre-tokenizer Metaspace has no replacement")
	}
	written := each(func(out []piece, whole piece) []piece {
		text := strings.ReplaceAll(whole.text, " ", p.Replacement)
		if prefixed(whole) && !strings.HasPrefix(text, p.Replacement) {
			text = p.Replacement + text
		}
		return append(out, piece{text, whole.first})
	})
	if p.Split != nil && !*p.Split {
		return written, nil
	}
	cut, err := newCut(func(text string) []match { return findText(text, p.Replacement) }, "MergedWithNext", false)
	if err != nil {
		return nil, err
	}
	return func(pieces []piece) []piece { return cut(written(pieces)) }, nil
}

// prefixed returns a function that reports whether a piece gets a space in front. Old files use another field for this.
func (p *splitterPart) prefixed() (func(piece) bool, error) {
	scheme := p.PrependScheme
	if scheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace {
		scheme = "never"
	}
	switch scheme {
	case "", "always":
		return func(piece) bool { return true }, nil
	case "first":
		return func(p piece) bool { return p.first }, nil
	case "never":
		return func(piece) bool { return false }, nil
	}
	return nil, unsupported("prepend scheme", scheme)
}
