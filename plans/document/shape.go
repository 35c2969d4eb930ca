package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/nearest"
)

// Limits on the size of a tree, so that reading one stays cheap.
const (
	maxNodes     = 100_000
	maxBodyDepth = 32
	MaxFound     = 1_000
)

// Finding is a mistake before it has a position.
type Finding struct {
	// Path of the field, as protovalidate writes it: targets[0].headers["X-Region"].
	Path    string
	Message string
	// In is the path of the message around it, if the finding is that a field is missing there.
	In string
	// Cures are fields of that message of which one would resolve the finding. A misspelt one of them explains it.
	Cures []string
	// Whole: the finding is about all values of a list, so it means nothing if one of them could not be read.
	Whole bool

	node    *yaml.Node // Position. nil: that of Path.
	unknown bool       // There is no such field.
	meant   string     // The field that the author probably meant.
}

// shape is the tree of a plan compared with the schema: the position of each field, and where the tree does not fit.
// The decoder is more lenient than a person wants: it accepts "4k" as a number, a field's number as its name, a
// duplicate key and a null. This walk makes plans strict.
type shape struct {
	at    map[string]*yaml.Node
	found []Finding
	nodes int
}

// readShape walks the tree of a plan.
func readShape(root *yaml.Node, desc protoreflect.MessageDescriptor) *shape {
	s := &shape{at: map[string]*yaml.Node{"": root}}
	s.message("", root, desc)
	return s
}

// closest returns the node at path, or the nearest node around it.
func (s *shape) closest(path string) *yaml.Node {
	for path != "" && s.at[path] == nil {
		path = Parent(path)
	}
	return s.at[path]
}

// mistake gives a finding its position.
func (s *shape) mistake(file string, f Finding) Mistake {
	node := f.node
	if node == nil {
		node = s.closest(f.Path)
	}
	return Mistake{Path: file, Line: node.Line, Column: node.Column, Field: f.Path, Message: f.Message}
}

func (s *shape) add(path string, node *yaml.Node, format string, args ...any) {
	s.keep(Finding{Path: path, node: node, Message: fmt.Sprintf(format, args...), In: Parent(path)})
}

// keep bounds the work on a file that is wrong throughout: each finding is compared with each broken rule.
func (s *shape) keep(f Finding) {
	if len(s.found) < MaxFound {
		s.found = append(s.found, f)
	}
}

// enter counts a node, and refuses aliases.
func (s *shape) enter(path string, node *yaml.Node) bool {
	if s.nodes++; s.nodes > maxNodes {
		return false
	}
	if node.Kind == yaml.AliasNode {
		s.add(path, node, "aliases (*%s) are not supported: write the value out", node.Value)
		return false
	}
	return true
}

func (s *shape) message(path string, node *yaml.Node, desc protoreflect.MessageDescriptor) {
	if isNull(node) {
		s.add(path, node, "is empty: give its fields, write {} to take the defaults, or leave it out")
		return
	}
	chosen := make(map[protoreflect.OneofDescriptor]string)
	s.mapping(path, node, func(key, value *yaml.Node) {
		field := desc.Fields().ByTextName(key.Value)
		if field == nil {
			s.unknown(path, key, desc)
			return
		}
		if choice := field.ContainingOneof(); choice != nil && !choice.IsSynthetic() {
			if first := chosen[choice]; first != "" {
				s.add(join(path, key.Value), value, "give %s or %s, not both", first, key.Value)
				return
			}
			chosen[choice] = key.Value
		}
		s.field(join(path, key.Value), value, field)
	})
}

func (s *shape) unknown(path string, key *yaml.Node, desc protoreflect.MessageDescriptor) {
	if len(s.found) >= MaxFound {
		return // A suggestion costs more than the walk.
	}
	f := Finding{In: path, Path: path, node: key, unknown: true, meant: nearest.To(key.Value, fieldNames(desc))}
	hint := fmt.Sprintf("did you mean %q?", f.meant)
	if f.meant == "" {
		hint = "expected one of " + strings.Join(fieldNames(desc), ", ")
	}
	f.Message = fmt.Sprintf("unknown field %q; %s", shorten(key.Value), hint)
	s.keep(f)
}

// mapping calls visit for each entry with a usable key that is not a duplicate.
func (s *shape) mapping(path string, node *yaml.Node, visit func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		s.add(path, node, "expected fields (name: value), got %s", kindWord(node))
		return
	}
	seen := make(map[string]*yaml.Node, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		first := seen[key.Value]
		switch {
		case !s.enter(path, key):
		case key.Tag == "!!merge":
			s.add(path, key, "merge keys (<<) are not supported: write the fields out")
		case key.Kind != yaml.ScalarNode:
			s.keep(Finding{Path: path, In: path, node: key, unknown: true,
				Message: "expected a name, got " + kindWord(key)})
		case first != nil:
			s.add(join(path, shorten(key.Value)), key, "is given twice, first in line %d", first.Line)
		default:
			seen[key.Value] = key
			visit(key, value)
		}
	}
}

func (s *shape) field(path string, node *yaml.Node, field protoreflect.FieldDescriptor) {
	s.at[path] = node
	if !s.enter(path, node) {
		return
	}
	switch {
	case field.IsList():
		s.list(path, node, field)
	case field.IsMap():
		s.stringMap(path, node, field)
	default:
		s.value(path, node, field)
	}
}

func (s *shape) list(path string, node *yaml.Node, field protoreflect.FieldDescriptor) {
	switch {
	case node.Kind != yaml.SequenceNode && !isNull(node):
		s.add(path, node, "expected a list, got %s", kindWord(node))
	case len(node.Content) == 0:
		s.add(path, node, "is an empty list: give at least one value, or leave it out")
	}
	if node.Kind != yaml.SequenceNode {
		return
	}
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		s.at[at] = item
		if s.enter(at, item) {
			s.value(at, item, field)
		}
	}
}

func (s *shape) stringMap(path string, node *yaml.Node, field protoreflect.FieldDescriptor) {
	s.mapping(path, node, func(key, value *yaml.Node) {
		at := path + "[" + strconv.Quote(key.Value) + "]"
		s.at[at] = value
		if s.enter(at, value) {
			s.value(at, value, field.MapValue())
		}
	})
}

// value checks one value of a field, or of its list or map.
func (s *shape) value(path string, node *yaml.Node, field protoreflect.FieldDescriptor) {
	desc := field.Message()
	switch {
	case desc == nil:
		s.scalar(path, node, field)
	case desc.FullName() == "google.protobuf.Duration":
		s.duration(path, node)
	case desc.FullName() == "google.protobuf.Struct":
		s.body(path, node, 1)
	default:
		s.message(path, node, desc)
	}
}

// body checks a JSON object, which may have any names and any values that can be sent exactly.
func (s *shape) body(path string, node *yaml.Node, depth int) {
	s.mapping(path, node, func(key, value *yaml.Node) {
		at := path + "[" + strconv.Quote(shorten(key.Value)) + "]"
		if depth == 1 {
			s.at[at] = value
		}
		s.bodyValue(at, value, depth)
	})
}

func (s *shape) bodyValue(path string, node *yaml.Node, depth int) {
	if !s.enter(path, node) {
		return
	}
	if depth > maxBodyDepth {
		s.add(path, node, "is nested more than %d levels deep", maxBodyDepth)
		return
	}
	switch node.Kind {
	case yaml.MappingNode:
		s.body(path, node, depth+1)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			s.bodyValue(path, item, depth+1)
		}
	default:
		s.jsonScalar(path, node)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// mistakes returns where the tree does not fit the schema.
func (s *shape) mistakes(file string) Mistakes {
	var ms Mistakes
	for _, f := range s.found {
		ms = append(ms, s.mistake(file, f))
	}
	return ms
}

// news drops what the decoder reports about nodes that already have a better message.
func (s *shape) news(decoded Mistakes) Mistakes {
	known := make(map[string]bool)
	for _, m := range s.mistakes("") {
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

// explained reports whether a finding follows from where the tree does not fit the schema.
func (s *shape) explained(f Finding) bool {
	for _, wrong := range s.found {
		switch {
		case wrong.unknown && f.In == wrong.In && slices.Contains(f.Cures, wrong.meant):
			return true
		case !wrong.unknown && (within(f.Path, wrong.Path) || f.Whole && within(wrong.Path, f.Path)):
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

func fieldNames(desc protoreflect.MessageDescriptor) []string {
	var names []string
	for i := range desc.Fields().Len() {
		names = append(names, desc.Fields().Get(i).TextName())
	}
	return names
}
