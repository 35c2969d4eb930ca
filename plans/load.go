package plans

import (
	"fmt"
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Load reads a plan from data and checks all of it. The error is Mistakes with everything that is wrong, sorted by
// line. path is only the file name in the mistakes. Load reads no files, and blocks only as opts.Lookup does.
func Load(path string, data []byte, opts Options) (*Plan, error) {
	opts = opts.withDefaults()
	if ms := checkText(path, data, opts.MaxBytes); ms != nil {
		return nil, ms
	}
	root, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	msg := &spatev1.Plan{}
	desc := msg.ProtoReflect().Descriptor()
	full, edits := writeOut(data, root, desc)
	s := readShape(root, desc)
	if s.nodes > maxNodes {
		return nil, Mistakes{{Path: path, Message: fmt.Sprintf("the plan has more than %d values", maxNodes)}}
	}
	decoded, ended := decode(path, full, msg)
	ms := append(s.mistakes(path, s.found), s.news(asWritten(decoded, edits))...)
	if ended {
		ms = append(ms, s.mistakes(path, s.relevant(rules(s, msg, opts)))...)
	}
	withBaseURLs(msg)
	p := &Plan{path: path, source: data, msg: msg, shape: s}
	if ended && opts.Lookup != nil {
		_, missing := p.lookUp(opts.Lookup)
		ms = append(ms, missing...)
	}
	if err := mistakesOrNil(ms); err != nil {
		return nil, err
	}
	return p, nil
}

func (s *shape) mistakes(file string, found []finding) Mistakes {
	var ms Mistakes
	for _, f := range found {
		ms = append(ms, s.mistake(file, f))
	}
	return ms
}

// news drops what the decoder reports about nodes that already have a better message.
func (s *shape) news(decoded Mistakes) Mistakes {
	known := make(map[string]bool)
	for _, m := range s.mistakes("", s.found) {
		known[fmt.Sprint(m.Line, ":", m.Column)] = true
	}
	var fresh Mistakes
	for _, m := range decoded {
		if !known[fmt.Sprint(m.Line, ":", m.Column)] {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// relevant drops findings that follow from mistakes of the tree's shape: rules broken by a value that could not be
// read, and fields that are missing because their name is misspelt.
func (s *shape) relevant(found []finding) []finding {
	var kept []finding
	for _, f := range found {
		if !s.explained(f) {
			kept = append(kept, f)
		}
	}
	return kept
}

func (s *shape) explained(f finding) bool {
	for _, wrong := range s.found {
		switch {
		case wrong.unknown && f.in == wrong.in && slices.Contains(f.cures, wrong.meant):
			return true
		case !wrong.unknown && (within(f.path, wrong.path) || f.whole && within(wrong.path, f.path)):
			return true
		}
	}
	return false
}

// within reports whether path is outer or a part of it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}
