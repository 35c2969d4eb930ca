package plans

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Set returns a plan's YAML with other values. An assignment is FIELD=VALUE: "seed=7", "loads[0].requests=50",
// "targets.dynamo.endpoints=http://h:1,http://h:2". An item of a list is given by its index. Targets and workloads may
// also be given by their name; a workload without a name by its default name. The value is YAML. A list of plain values
// may be written with commas only, and a text is taken literally. Fields that the plan does not have are added.
// Comments and the order of fields are kept, blank lines are not.
//
// The error names the assignment, the step at which it fails and what is there instead. Load checks whether the result
// is a valid plan.
func Set(source []byte, assignments []string) ([]byte, error) {
	return edited(source, func(root *yaml.Node) error {
		for _, text := range assignments {
			if err := assign(root, text); err != nil {
				return fmt.Errorf("cannot set %q: %w", withoutValue(text), err)
			}
		}
		return nil
	})
}

// Simulate returns a plan's YAML that runs against the simulator, in time compressed by speed, which is at least 1. It
// replaces a simulation that the plan already has.
func Simulate(source []byte, speed float64) ([]byte, error) {
	return edited(source, func(root *yaml.Node) error {
		value := &yaml.Node{}
		if err := value.Encode(map[string]float64{"speed": speed}); err != nil {
			return err
		}
		value.Style = yaml.FlowStyle
		put(root, "simulation", value)
		return nil
	})
}

// Only returns a plan's YAML with only these targets, in the plan's order. The error names a target that the plan does
// not have, and those that it has.
func Only(source []byte, targets []string) ([]byte, error) {
	return edited(source, func(root *yaml.Node) error {
		list := entry(root, "targets")
		if list == nil || list.Kind != yaml.SequenceNode {
			return errors.New("the plan has no list of targets")
		}
		var names []string
		var kept []*yaml.Node
		for _, target := range list.Content {
			name := ""
			if n := entry(target, "name"); n != nil {
				name = n.Value
			}
			names = append(names, name)
			if slices.Contains(targets, name) {
				kept = append(kept, target)
			}
		}
		for _, want := range targets {
			if !slices.Contains(names, want) {
				return fmt.Errorf("there is no target %q; there are %s", shorten(want), strings.Join(names, ", "))
			}
		}
		list.Content = kept
		return nil
	})
}

// withoutValue returns the part of an assignment that may be repeated: its value may be a secret in the wrong place.
func withoutValue(assignment string) string {
	field, _, _ := strings.Cut(assignment, "=")
	return shorten(field)
}

// edited parses a plan, calls change with its tree, and writes it again.
func edited(source []byte, change func(root *yaml.Node) error) ([]byte, error) {
	const path = "plan"
	if ms := checkText(path, source, Options{}.withDefaults().MaxBytes); ms != nil {
		return nil, ms
	}
	document, err := parseDocument(path, source)
	if err != nil {
		return nil, err
	}
	root := document.Content[0]
	if s := readShape(root, (&spatev1.Plan{}).ProtoReflect().Descriptor()); s.nodes > maxNodes {
		return nil, Mistakes{{Path: path, Message: fmt.Sprintf("the plan has more than %d values", maxNodes)}}
	}
	if root.Kind != yaml.MappingNode {
		return nil, Mistakes{{Path: path, Line: root.Line, Column: root.Column,
			Message: "expected fields (name: value), got " + kindWord(root)}}
	}
	if err := change(root); err != nil {
		return nil, err
	}
	return encode(path, document)
}

// encode guards the library as parse does: among others, aliases, which a plan must not have, can point anywhere.
func encode(path string, root *yaml.Node) (text []byte, err error) {
	defer recoverMistake(path, &err)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return nil, fmt.Errorf("the plan cannot be written again: %w", err)
	}
	return b.Bytes(), nil
}

func assign(root *yaml.Node, assignment string) error {
	field, value, ok := strings.Cut(assignment, "=")
	if !ok || field == "" {
		return errors.New("want FIELD=VALUE, such as loads[0].requests=50")
	}
	return assignField(root, (&spatev1.Plan{}).ProtoReflect().Descriptor(), field, value)
}

// assignField sets the field of a message that rest starts with, or a field within it.
func assignField(node *yaml.Node, desc protoreflect.MessageDescriptor, rest, value string) error {
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
		return assignItem(child(node, name, yaml.SequenceNode), field, rest, value)
	case field.Message() == nil || field.Message().FullName() == "google.protobuf.Duration":
		return fmt.Errorf("%s is one value: nothing can follow it, got %q", name, rest)
	case field.Message().FullName() == "google.protobuf.Struct":
		return assignJSON(child(node, name, yaml.MappingNode), step(rest), value)
	}
	return assignField(child(node, name, yaml.MappingNode), field.Message(), step(rest), value)
}

const fieldLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"

// step removes the leading dot of what follows a field.
func step(rest string) string { return strings.TrimPrefix(rest, ".") }

func unknownStep(name string, desc protoreflect.MessageDescriptor) error {
	if near := meant(name, desc); near != "" {
		return fmt.Errorf("there is no field %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no field %q; there are %s", name, strings.Join(fieldNames(desc), ", "))
}

// assignItem sets an item of a list, or a field within it.
func assignItem(list *yaml.Node, field protoreflect.FieldDescriptor, rest, value string) error {
	if list.Kind != yaml.SequenceNode {
		return fmt.Errorf("expected a list as %s, but the plan has %s there", field.TextName(), kindWord(list))
	}
	i, rest, err := item(list, field, rest)
	switch {
	case err != nil:
		return err
	case rest != "" && field.Message() != nil:
		return assignField(list.Content[i], field.Message(), step(rest), value)
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

// item finds an item by "[INDEX]" or ".NAME" and returns what follows. Names may contain dots, so the longest match is
// taken.
func item(list *yaml.Node, field protoreflect.FieldDescriptor, rest string) (index int, after string, err error) {
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
	names, best, length := itemNames(list, field), -1, -1
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

// itemNames returns the names of a list's items, "" for items that have none.
func itemNames(list *yaml.Node, field protoreflect.FieldDescriptor) []string {
	names := make([]string, len(list.Content))
	for i, node := range list.Content {
		if name := entry(node, "name"); name != nil {
			names[i] = name.Value
		} else if field.TextName() == "workloads" {
			names[i] = defaultName(node)
		}
	}
	return names
}

// defaultName returns the default name of a workload, or "" if the workload cannot be read.
func defaultName(node *yaml.Node) string {
	text, err := encode("workload", &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		textNode("workloads"), {Kind: yaml.SequenceNode, Content: []*yaml.Node{node}},
	}})
	if err != nil {
		return ""
	}
	p := &spatev1.Plan{}
	if _, ended := decode("workload", text, p); !ended || len(p.GetWorkloads()) != 1 {
		return ""
	}
	return workloadName(p.GetWorkloads()[0])
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
	name, inner, deeper := strings.Cut(rest, ".")
	if deeper && node.Kind == yaml.MappingNode {
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

func textNode(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	if value == mergeKey {
		// The encoder would write it without quotes, and a reader would take it for a merge key.
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// mergeKey is YAML's key that merges the fields of another mapping.
const mergeKey = "<<"

// parseValue reads a value as YAML.
func parseValue(value string) (*yaml.Node, error) {
	const path = "value"
	if ms := checkText(path, []byte(value), Options{}.withDefaults().MaxBytes); ms != nil {
		return nil, ms
	}
	if strings.TrimSpace(value) == "" {
		return nil, errors.New("the value is missing behind the =")
	}
	node, err := parse(path, []byte(value))
	if err != nil {
		return nil, fmt.Errorf("the value is not YAML: %w", err)
	}
	return node, nil
}
