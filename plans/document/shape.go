package document

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/internal/foreign"
	"github.com/spate-load/spate/internal/words"
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

	node   *yaml.Node // Position. nil: that of Path.
	absent bool       // There is no such field, or it is missing.
	read   bool       // The value was read, and breaks a rule: what is within it is known.
	meant  string     // The field that the author probably meant.
}

// shape is the tree of a plan compared with the schema: the position of each field, and where the tree does not fit.
type shape struct {
	at    map[string]*yaml.Node
	found []Finding
}

// readShape walks the tree of a plan and fills the message.
func readShape(root *yaml.Node, into protoreflect.Message) *shape {
	s := &shape{at: map[string]*yaml.Node{"": root}}
	s.message("", root, into)
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
	node := cmp.Or(f.node, s.closest(f.Path))
	return Mistake{Path: file, Line: node.Line, Column: node.Column, Field: f.Path, Message: f.Message}
}

func (s *shape) add(path string, node *yaml.Node, format string, args ...any) {
	s.keep(Finding{Path: path, node: node, Message: fmt.Sprintf(format, args...), In: Parent(path)})
}

// breaks adds a value that was read and breaks a rule of the schema.
func (s *shape) breaks(path string, node *yaml.Node, format string, args ...any) {
	s.keep(Finding{Path: path, node: node, Message: fmt.Sprintf(format, args...), In: Parent(path), read: true})
}

// keep bounds the work on a file that is wrong throughout: each finding is compared with each broken rule.
func (s *shape) keep(f Finding) {
	if len(s.found) < MaxFound {
		s.found = append(s.found, f)
	}
}

// alias refuses aliases.
func (s *shape) alias(path string, node *yaml.Node) bool {
	if node.Kind != yaml.AliasNode {
		return false
	}
	s.add(path, node, "aliases (*%s) are not supported: write the value out", node.Value)
	return true
}

func (s *shape) message(path string, node *yaml.Node, into protoreflect.Message) {
	if isNull(node) {
		s.add(path, node, "is empty: give its fields, write {} to take the defaults, or leave it out")
		return
	}
	fields := into.Descriptor().Fields()
	if name := shorthand(into.Descriptor(), node); name != "" {
		s.field(join(path, name), node, into, fields.ByTextName(name))
		return
	}
	if into.Descriptor().Name() == "Warmup" && node.Kind == yaml.ScalarNode {
		s.add(path, node, "expected a duration like 5s, or fields such as requests: 100, got %s", kindWord(node))
		return
	}
	chosen := make(map[protoreflect.OneofDescriptor]string)
	s.mapping(path, node, func(key, value *yaml.Node) {
		field := fields.ByTextName(key.Value)
		if field == nil {
			s.unknown(path, key, into.Descriptor())
			return
		}
		if choice := field.ContainingOneof(); choice != nil && !choice.IsSynthetic() {
			if first := chosen[choice]; first != "" {
				s.add(join(path, key.Value), value, "give %s or %s, not both", first, key.Value)
				return
			}
			chosen[choice] = key.Value
		}
		s.field(join(path, key.Value), value, into, field)
	})
	if node.Kind == yaml.MappingNode && len(s.found) < MaxFound { // A file that is wrong throughout is read, no more.
		s.complete(path, node, into)
	}
}

// shorthand returns the field that a single value stands for: the duration of a warm-up, the condition of a threshold.
// Empty: none.
func shorthand(desc protoreflect.MessageDescriptor, node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode {
		return ""
	}
	switch _, err := time.ParseDuration(node.Value); {
	case desc.Name() == "Warmup" && err == nil:
		return "duration"
	case desc.Name() == "Threshold":
		return "that"
	}
	return ""
}

func (s *shape) unknown(path string, key *yaml.Node, desc protoreflect.MessageDescriptor) {
	if len(s.found) >= MaxFound {
		return // A suggestion costs more than the walk.
	}
	f := Finding{In: path, Path: path, node: key, absent: true,
		meant: words.Nearest(key.Value, fieldNames(desc.Fields()))}
	place, same := foreign.Field(key.Value), words.Alike(key.Value, f.meant)
	if same {
		place = "" // a letter is wrong
	}
	if name := place[strings.LastIndexByte(place, '.')+1:]; name != "" && desc.Fields().ByName(protoreflect.Name(name)) != nil {
		f.meant, place = name, ""
	}
	hint := fmt.Sprintf("did you mean %q?", f.meant)
	switch {
	case place != "":
		hint = "did you mean " + place + "?"
	case f.meant == "":
		hint = "expected one of " + strings.Join(fieldNames(desc.Fields()), ", ")
	}
	if owner := ownerOf(key.Value, desc.Fields()); owner != "" && !same {
		hint = fmt.Sprintf("it is a field of %s: check the indentation", owner)
	}
	f.Message = fmt.Sprintf("unknown field %q; %s", shorten(key.Value), hint)
	s.keep(f)
}

// ownerOf returns the first of some fields that itself has a field with a name, or "".
func ownerOf(name string, fields protoreflect.FieldDescriptors) string {
	for i := range fields.Len() {
		f := fields.Get(i)
		if m := f.Message(); m != nil && !f.IsMap() && m.Fields().ByName(protoreflect.Name(name)) != nil {
			return string(f.Name())
		}
	}
	return ""
}

// mapping calls visit for each entry with a usable key that is not a duplicate.
func (s *shape) mapping(path string, node *yaml.Node, visit func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		s.add(path, node, "expected fields (name: value), got %s", kindWord(node))
		return
	}
	seen := make(map[string]*yaml.Node, len(node.Content)/2)
	pairs(node, func(key, value *yaml.Node) {
		first := seen[key.Value]
		switch {
		case s.alias(path, key):
		case key.Tag == "!!merge":
			s.add(path, key, "merge keys (<<) are not supported: write the fields out")
		case key.Kind != yaml.ScalarNode:
			s.keep(Finding{Path: path, In: path, node: key, absent: true,
				Message: "expected a name, got " + kindWord(key)})
		case first != nil:
			s.add(join(path, shorten(key.Value)), key, "is given twice, first in line %d", first.Line)
		default:
			seen[key.Value] = key
			visit(key, value)
		}
	})
}

func (s *shape) field(path string, node *yaml.Node, into protoreflect.Message, field protoreflect.FieldDescriptor) {
	s.at[path] = node
	switch {
	case s.alias(path, node):
	case field.IsList():
		s.list(path, node, field, into.Mutable(field).List())
	case field.IsMap():
		s.stringMap(path, node, field, into.Mutable(field).Map())
	case field.Message() != nil:
		s.inner(path, node, into.Mutable(field).Message(), rulesOf(field))
	default:
		if v := s.scalar(path, node, field, rulesOf(field), inWords(field)); v.IsValid() {
			into.Set(field, v)
		}
	}
}

// list reads a list. One value stands for a list of one.
func (s *shape) list(path string, node *yaml.Node, field protoreflect.FieldDescriptor, into protoreflect.List) {
	items := node.Content
	switch {
	case node.Kind == yaml.ScalarNode && field.Message() == nil && !isNull(node):
		items = []*yaml.Node{node}
	case node.Kind != yaml.SequenceNode && !isNull(node):
		s.add(path, node, "expected a list, got %s", kindWord(node))
		return
	case len(items) == 0:
		s.add(path, node, "is an empty list: give at least one value, or leave it out")
	}
	rules, words, unread := rulesOf(field).GetRepeated().GetItems(), inWords(field), len(items) == 0
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		s.at[at] = item
		// An item that cannot be read has its place in the list, so that the others keep their numbers.
		if field.Message() != nil {
			if inner := into.AppendMutable().Message(); !s.alias(at, item) {
				s.inner(at, item, inner, rules)
			}
			continue
		}
		v := into.NewElement()
		if read := s.scalar(at, item, field, rules, words); read.IsValid() {
			v = read
		} else {
			unread = true
		}
		into.Append(v)
	}
	if wrong := brokenList(into, field); wrong != "" && !unread {
		s.breaks(path, node, "%s", wrong)
	}
}

func (s *shape) stringMap(path string, node *yaml.Node, field protoreflect.FieldDescriptor, into protoreflect.Map) {
	rules := rulesOf(field).GetMap()
	s.mapping(path, node, func(key, value *yaml.Node) {
		at := path + "[" + strconv.Quote(key.Value) + "]"
		s.at[at] = value
		if wrong := broken(key.Value, rules.GetKeys(), ""); wrong != "" {
			s.breaks(at, value, "its name %s", wrong)
		}
		if v := s.scalar(at, value, field.MapValue(), rules.GetValues(), ""); v.IsValid() {
			into.Set(protoreflect.ValueOfString(key.Value).MapKey(), v)
		}
	})
	if most := rules.GetMaxPairs(); most > 0 && uint64(into.Len()) > most {
		s.breaks(path, node, "must have at most %d entries", most)
	}
}

// inner reads a message within another one.
func (s *shape) inner(path string, node *yaml.Node, into protoreflect.Message, rules *validate.FieldRules) {
	switch into := into.Interface().(type) {
	case *durationpb.Duration:
		if s.duration(path, node, into) {
			s.check(path, node, into, rules, "")
		}
	case *structpb.Struct:
		s.body(path, node, into, 1)
	default:
		s.message(path, node, into.ProtoReflect())
	}
}

// body reads a JSON object, which may have any names and any values that can be sent exactly.
func (s *shape) body(path string, node *yaml.Node, into *structpb.Struct, depth int) {
	into.Fields = map[string]*structpb.Value{}
	s.mapping(path, node, func(key, value *yaml.Node) {
		at := path + "[" + strconv.Quote(shorten(key.Value)) + "]"
		if depth == 1 {
			s.at[at] = value
		}
		into.Fields[key.Value] = s.bodyValue(at, value, depth)
	})
}

func (s *shape) bodyValue(path string, node *yaml.Node, depth int) *structpb.Value {
	switch {
	case s.alias(path, node):
		return structpb.NewNullValue()
	case depth > maxBodyDepth:
		s.add(path, node, "is nested more than %d levels deep", maxBodyDepth)
		return structpb.NewNullValue()
	case node.Kind == yaml.MappingNode:
		inner := &structpb.Struct{}
		s.body(path, node, inner, depth+1)
		return structpb.NewStructValue(inner)
	case node.Kind == yaml.SequenceNode:
		list := &structpb.ListValue{}
		for _, item := range node.Content {
			list.Values = append(list.Values, s.bodyValue(path, item, depth+1))
		}
		return structpb.NewListValue(list)
	}
	return s.jsonScalar(path, node)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// explained reports whether a finding follows from where the tree does not fit the schema.
func (s *shape) explained(f Finding) bool {
	for _, wrong := range s.found {
		switch {
		case wrong.absent && f.In == wrong.In && slices.Contains(f.Cures, wrong.meant):
			return true
		case wrong.read && f.Path == wrong.Path:
			return true
		case !wrong.absent && !wrong.read && (within(f.Path, wrong.Path) || f.Whole && within(wrong.Path, f.Path)):
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

func fieldNames(fields protoreflect.FieldDescriptors) []string {
	var names []string
	for i := range fields.Len() {
		names = append(names, fields.Get(i).TextName())
	}
	return names
}
