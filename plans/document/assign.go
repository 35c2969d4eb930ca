package document

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// NameOf returns the default name of a list's item that was given no name, or "" if such items have no default name.
type NameOf func(item proto.Message) string

// Assign changes fields. An assignment is FIELD=VALUE: "seed=7", "loads[0].requests=50",
// "targets.dynamo.endpoints=http://h:1,http://h:2". An item of a list is given by its index, its name or its default
// name. The value is YAML. A list of plain values may be written with commas only, and a text is taken literally.
// Fields that the document does not have are added. Comments and the order of fields are kept, blank lines are not.
//
// The error names the assignment, the step at which it fails and what is there instead. What is wrong with the new
// values, Read finds; these mistakes have no line.
func (d *Document) Assign(assignments []string, nameOf NameOf) error {
	for _, text := range assignments {
		if err := nameOf.assign(d.tree.Content[0], d.desc, text); err != nil {
			return fmt.Errorf("cannot set %q: %w", withoutValue(text), err)
		}
	}
	return nil
}

// Place returns where a plan has a field, or a flag of its name, as assignments write it: at the top, in the first
// target, workload or load, or in a message within. "": nowhere.
func Place(name string) string {
	type message struct {
		path  string
		desc  protoreflect.MessageDescriptor
		depth int
	}
	name = strings.ReplaceAll(name, "-", "_")
	within := []message{{desc: (&spatev1.Plan{}).ProtoReflect().Descriptor()}}
	for ; len(within) > 0; within = within[1:] {
		at := within[0]
		for i := range at.desc.Fields().Len() {
			f := at.desc.Fields().Get(i)
			path, inner := join(at.path, f.TextName()), f.Message()
			plain := inner == nil || inner.Name() == "Duration" || inner.Name() == "Warmup"
			switch {
			case plain && f.TextName() == name:
				return path
			case plain, f.IsMap(), at.depth == 2, path == "thresholds":
				continue
			case f.IsList():
				path += "[0]"
			}
			within = append(within, message{path, inner, at.depth + 1})
		}
	}
	return ""
}

// withoutValue returns the part of an assignment that may be repeated: its value may be a secret in the wrong place.
func withoutValue(assignment string) string {
	field, _, _ := strings.Cut(assignment, "=")
	return shorten(field)
}

func (nameOf NameOf) assign(root *yaml.Node, desc protoreflect.MessageDescriptor, assignment string) error {
	field, value, ok := strings.Cut(assignment, "=")
	if !ok || field == "" {
		return errors.New("want FIELD=VALUE, such as loads[0].requests=50")
	}
	return nameOf.field(root, desc, field, value)
}

// field sets the field of a message that rest starts with, or a field within it.
func (nameOf NameOf) field(node *yaml.Node, desc protoreflect.MessageDescriptor, rest, value string) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("expected fields before %q, but the plan has %s there", rest, kindWord(node))
	}
	name := rest[:len(rest)-len(strings.TrimLeft(rest, fieldLetters))]
	rest = rest[len(name):]
	field := desc.Fields().ByTextName(name)
	if field == nil {
		return unknownStep(name, desc)
	}
	switch {
	case rest == "":
		return assignValue(node, field, value)
	case field.IsMap():
		return assignKey(child(node, name, yaml.MappingNode), field.MapValue(), step(rest), value)
	case field.IsList():
		return nameOf.item(child(node, name, yaml.SequenceNode), field, rest, value)
	case field.Message() == nil || field.Message().FullName() == "google.protobuf.Duration":
		return fmt.Errorf("%s is one value: nothing can follow it, got %q", name, rest)
	case field.Message().FullName() == "google.protobuf.Struct":
		return assignJSON(child(node, name, yaml.MappingNode), step(rest), value)
	}
	return nameOf.field(child(node, name, yaml.MappingNode), field.Message(), step(rest), value)
}

const fieldLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"

// step removes the leading dot of what follows a field.
func step(rest string) string { return strings.TrimPrefix(rest, ".") }

func unknownStep(name string, desc protoreflect.MessageDescriptor) error {
	if near := words.Nearest(name, fieldNames(desc.Fields())); near != "" {
		return fmt.Errorf("there is no field %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no field %q; there are %s", name, strings.Join(fieldNames(desc.Fields()), ", "))
}

// item sets an item of a list, or a field within it.
func (nameOf NameOf) item(list *yaml.Node, field protoreflect.FieldDescriptor, rest, value string) error {
	if list.Kind != yaml.SequenceNode {
		return fmt.Errorf("expected a list at %s, but the plan has %s there", field.TextName(), kindWord(list))
	}
	i, rest, err := nameOf.find(list, field, rest)
	switch {
	case err != nil:
		return err
	case rest != "" && field.Message() != nil:
		return nameOf.field(list.Content[i], field.Message(), step(rest), value)
	case rest != "":
		return fmt.Errorf("%s[%d] is one value: nothing can follow it, got %q", field.TextName(), i, rest)
	}
	node, err := valueNode(field, value)
	if err != nil {
		return err
	}
	replace(list.Content[i], node)
	return nil
}

// find returns the index of an item that is given by "[INDEX]" or ".NAME", and what follows. Names may contain
// dots, so the longest match is taken.
func (nameOf NameOf) find(
	list *yaml.Node, field protoreflect.FieldDescriptor, rest string,
) (index int, after string, err error) {
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		number, after, closed := strings.Cut(inner, "]")
		i, err := strconv.Atoi(number)
		switch {
		case !closed || err != nil:
			return 0, "", fmt.Errorf("expected an index like [0] after %s, got %q", field.TextName(), rest)
		case i < 0 || i >= len(list.Content):
			return 0, "", fmt.Errorf("there is no %s[%d]: the plan has %d of them, from 0", field.TextName(), i,
				len(list.Content))
		}
		return i, after, nil
	}
	rest = step(rest)
	names, best, length := nameOf.names(list, field), -1, -1
	for i, name := range names {
		after, ok := strings.CutPrefix(rest, name)
		if ok && name != "" && len(name) > length && (after == "" || after[0] == '.') {
			best, length = i, len(name)
		}
	}
	if best < 0 {
		name, _, _ := strings.Cut(rest, ".")
		return 0, "", fmt.Errorf("none of the %s is named %q; there are: %s", field.TextName(), name,
			listWords(field, names))
	}
	return best, rest[length:], nil
}

// names returns the names of a list's items, "" for items that have none.
func (nameOf NameOf) names(list *yaml.Node, field protoreflect.FieldDescriptor) []string {
	names := make([]string, len(list.Content))
	for i, node := range list.Content {
		if name := entry(node, "name"); name != nil {
			names[i] = name.Value
		} else if field.Message() != nil {
			names[i] = nameOf.defaultName(node, field.Message())
		}
	}
	return names
}

// defaultName returns the default name of a list's item, or "" if it has none or cannot be read.
func (nameOf NameOf) defaultName(node *yaml.Node, desc protoreflect.MessageDescriptor) string {
	message, err := protoregistry.GlobalTypes.FindMessageByName(desc.FullName())
	if err != nil {
		return ""
	}
	item := message.New()
	readShape(node, item)
	return nameOf(item.Interface())
}

// listWords lists the items of a list, by name or else by index.
func listWords(field protoreflect.FieldDescriptor, names []string) string {
	if len(names) == 0 {
		return "none"
	}
	var words []string
	for i, name := range names {
		words = append(words, cmp.Or(name, fmt.Sprintf("%s[%d]", field.TextName(), i)))
	}
	return strings.Join(words, ", ")
}

// assignValue sets a field of a message to a whole value.
func assignValue(node *yaml.Node, field protoreflect.FieldDescriptor, value string) error {
	made, err := fieldNode(field, value)
	if err != nil {
		return err
	}
	put(node, field.TextName(), made)
	return nil
}

// assignKey sets an entry of a map of plain values.
func assignKey(node *yaml.Node, field protoreflect.FieldDescriptor, key, value string) error {
	made, err := valueNode(field, value)
	if err != nil {
		return err
	}
	return assignEntry(node, key, made)
}

// assignEntry sets an entry of a map, whose key may be any text.
func assignEntry(node *yaml.Node, key string, value *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("expected fields before %q, but the plan has %s there", key, kindWord(node))
	}
	if key == "" {
		return errors.New("a name is missing after the dot")
	}
	put(node, key, value)
	return nil
}

// assignJSON sets a field of a request's body, or one within it.
func assignJSON(node *yaml.Node, rest, value string) error {
	if name, inner, deeper := strings.Cut(rest, "."); deeper && node.Kind == yaml.MappingNode {
		return assignJSON(child(node, name, yaml.MappingNode), inner, value)
	}
	made, err := parseValue(value)
	if err != nil {
		return err
	}
	return assignEntry(node, rest, made)
}

// fieldNode returns the value of a field. For a list of plain values, value holds them separated by commas.
func fieldNode(field protoreflect.FieldDescriptor, value string) (*yaml.Node, error) {
	if !field.IsList() || strings.HasPrefix(strings.TrimSpace(value), "[") {
		return valueNode(field, value)
	}
	if field.Message() != nil {
		return nil, fmt.Errorf("%s is a list: give it in brackets, or one of its items by its index or name",
			field.TextName())
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for part := range strings.SplitSeq(value, ",") {
		node, err := valueNode(field, strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, node)
	}
	return list, nil
}

// valueNode returns one value. A text is taken literally, so that a model's name may be 7 or "a: b"; quotes around it
// are YAML's.
func valueNode(field protoreflect.FieldDescriptor, value string) (*yaml.Node, error) {
	text := field.Kind() == protoreflect.StringKind && !field.IsMap()
	list := field.IsList() && strings.HasPrefix(strings.TrimSpace(value), "[")
	if text && !list && value != "" && !strings.ContainsAny(value[:1], `"'`) {
		return textNode(value), nil
	}
	return parseValue(value)
}

// parseValue reads a value as YAML.
func parseValue(value string) (*yaml.Node, error) {
	const path = "value"
	if ms := checkText(path, []byte(value), len(value)); ms != nil {
		return nil, ms
	}
	if strings.TrimSpace(value) == "" {
		return nil, errors.New("the value is missing after the =")
	}
	document, err := parse(path, []byte(value))
	if err != nil {
		return nil, fmt.Errorf("the value is not YAML: %w", err)
	}
	unplace(document)
	return document.Content[0], nil
}

// unplace removes the positions of nodes: they are not those of the document.
func unplace(node *yaml.Node) {
	node.Line, node.Column = 0, 0
	for _, inner := range node.Content {
		unplace(inner)
	}
}
