package document

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// shorthand writes out what a person may leave out: the brackets around a list of one value, and the field names of a
// warm-up by time and of a threshold's condition. It changes the tree, whose positions stay those of the original text.
// It also records the edits to the text, because the decoder reads the text.
type shorthand struct {
	lines [][]byte
	edits []edit
}

// edit puts text before and after a value.
type edit struct {
	line, column, length int // from 1, in characters
	before, behind       string
}

// writeOut returns the text of a plan with all shorthand written out, and the edits.
func writeOut(data []byte, root *yaml.Node, desc protoreflect.MessageDescriptor) ([]byte, []edit) {
	h := &shorthand{lines: bytes.SplitAfter(data, []byte("\n"))}
	h.message(root, desc)
	if len(h.edits) == 0 {
		return data, nil
	}
	slices.SortFunc(h.edits, func(a, b edit) int { return b.column - a.column }) // from right to left
	for _, e := range h.edits {
		line := h.lines[e.line-1]
		from, to := byteAt(line, e.column-1), byteAt(line, e.column-1+e.length)
		h.lines[e.line-1] = slices.Concat(line[:from], []byte(e.before), line[from:to], []byte(e.behind), line[to:])
	}
	return bytes.Join(h.lines, nil), h.edits
}

// byteAt returns the offset at which a character of a line starts.
func byteAt(line []byte, character int) int {
	at := 0
	for ; character > 0 && at < len(line); character-- {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}

// asWritten converts the columns of mistakes in the written-out text to columns of the original text.
func asWritten(found Mistakes, edits []edit) Mistakes {
	for i := range found {
		found[i].Column -= added(edits, found[i].Line, found[i].Column)
	}
	return found
}

// added returns how many characters the edits added before a position. Edits are sorted from right to left.
func added(edits []edit, line, column int) (n int) {
	for _, e := range slices.Backward(edits) {
		switch begin := e.column + n; {
		case e.line != line || column <= begin:
		case column < begin+len(e.before)+e.length:
			return n + min(len(e.before), column-begin)
		default:
			n += len(e.before) + len(e.behind)
		}
	}
	return n
}

func (h *shorthand) message(node *yaml.Node, desc protoreflect.MessageDescriptor) {
	if node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if field := desc.Fields().ByTextName(node.Content[i].Value); field != nil {
			h.field(node.Content[i+1], field)
		}
	}
}

func (h *shorthand) field(node *yaml.Node, field protoreflect.FieldDescriptor) {
	message := field.Message()
	switch {
	case field.IsMap():
	case field.IsList() && message == nil:
		h.list(node)
	case field.IsList() && node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			if message.Name() == "Threshold" {
				h.only(item, "that")
			}
			h.message(item, message)
		}
	case message != nil && message.Name() == "Warmup":
		h.warmup(node)
	case message != nil && !field.IsList():
		h.message(node, message)
	}
}

// list turns one value into a list of one.
func (h *shorthand) list(node *yaml.Node) {
	if h.wrap(node, "[", "]") {
		only := *node
		*node = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Line: node.Line,
			Column: node.Column, Content: []*yaml.Node{&only}}
	}
}

// warmup turns a duration into a warm-up of that duration.
func (h *shorthand) warmup(node *yaml.Node) {
	if _, err := time.ParseDuration(node.Value); err == nil {
		h.only(node, "duration")
	}
}

// only turns a value into a message of which only one field is given.
func (h *shorthand) only(node *yaml.Node, field string) {
	if h.wrap(node, "{"+field+": ", "}") {
		value := *node
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: field, Line: node.Line, Column: node.Column}
		*node = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle, Line: node.Line,
			Column: node.Column, Content: []*yaml.Node{key, &value}}
	}
}

// wrap records an edit around a value that is on one line as written, and reports whether it did.
func (h *shorthand) wrap(node *yaml.Node, before, behind string) bool {
	if node.Kind != yaml.ScalarNode || isNull(node) || node.Anchor != "" || node.Line < 1 || node.Line > len(h.lines) {
		return false
	}
	line := h.lines[node.Line-1]
	rest := string(line[byteAt(line, node.Column-1):])
	for _, quote := range []string{"", `"`, "'"} {
		if raw := quote + node.Value + quote; strings.HasPrefix(rest, raw) &&
			(quote == "") == (node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0) {
			if quote == "" && strings.ContainsAny(raw, "[]{},") {
				return false // it would have another meaning within brackets
			}
			h.edits = append(h.edits, edit{node.Line, node.Column, utf8.RuneCountInString(raw), before, behind})
			return true
		}
	}
	return false
}
