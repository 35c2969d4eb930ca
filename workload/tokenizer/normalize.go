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
