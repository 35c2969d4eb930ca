// Package jsonschema generates the JSON Schema of a protobuf message in its YAML form. Editors use the schema to
// complete and check a plan while a person writes it. The schema contains the rules of the proto file and which fields
// exclude each other, but not all checks of the plans package. Whatever it refuses is wrong; what it accepts may still
// be wrong.
//
// The generator is our own because that of bufbuild/protoschema-plugins is in internal packages, and its command knows
// neither the shorthand of plans (one value in place of a list) nor which fields exclude each other.
//
// `make generate` runs the package through the command generate. The tests of the plans package check that the generated
// schema is current.
package jsonschema

import (
	"encoding/json"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/document"
)

// Comments are the comments of the proto file on messages and fields, by full name.
type Comments map[protoreflect.FullName]string

// Generate returns the schema of a message, Draft 2020-12, indented. Without comments the schema has no descriptions.
func Generate(root protoreflect.MessageDescriptor, comments Comments) ([]byte, error) {
	g := &generator{comments: comments, seen: make(map[protoreflect.FullName]bool)}
	g.define(root)
	g.definitions = append(g.definitions, member{"Duration", object{
		{"description", "A number with a unit, such as 500ms, 30s, 5m or 1h30m."}, {"type", "string"},
		{"pattern", durationPattern},
	}})
	data, err := json.MarshalIndent(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "Spate plan"},
		{"$ref", reference(root)},
		{"$defs", g.definitions},
	}, "", "  ")
	return append(data, '\n'), err
}

// durationPattern is the syntax of Go's time.ParseDuration, without numbers that have no unit.
const durationPattern = `^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

type generator struct {
	comments    Comments
	seen        map[protoreflect.FullName]bool
	definitions object
}

func reference(m protoreflect.MessageDescriptor) string { return "#/$defs/" + string(m.Name()) }

// define adds the definition of a message, and then those of the messages in it.
func (g *generator) define(m protoreflect.MessageDescriptor) {
	if g.seen[m.FullName()] {
		return
	}
	g.seen[m.FullName()] = true
	var required []string
	var choices []object
	for _, lack := range document.NeededBy(m) {
		switch {
		case lack.Several:
			choices = append(choices, oneOf("anyOf", lack.Fields))
		case len(lack.Fields) > 1:
			choices = append(choices, oneOf("oneOf", lack.Fields))
		default:
			required = append(required, lack.Fields...)
		}
	}
	properties, inner := object{}, []protoreflect.MessageDescriptor{}
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		properties = append(properties, member{field.TextName(), g.field(field)})
		if message := field.Message(); message != nil && !field.IsMap() && wellKnown(message) == nil {
			inner = append(inner, message)
		}
	}
	definition := append(g.described(m), object{
		{"type", "object"}, {"additionalProperties", false}, {"properties", properties},
	}...)
	if len(required) > 0 {
		definition = append(definition, member{"required", required})
	}
	choices = append(choices, alternatives(m)...)
	if len(choices) > 0 {
		definition = append(definition, member{"allOf", choices})
	}
	g.definitions = append(g.definitions, member{string(m.Name()), definition})
	for _, message := range inner {
		g.define(message)
	}
}

// described returns a schema that holds only the comment of a message or field.
func (g *generator) described(d protoreflect.Descriptor) object {
	if comment := g.comments[d.FullName()]; comment != "" {
		return object{{"description", comment}}
	}
	return nil
}

func (g *generator) field(field protoreflect.FieldDescriptor) object {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	s := g.described(field)
	switch {
	case field.IsMap():
		return append(s, mapping(field, rules.GetMap())...)
	case field.IsList():
		list := rules.GetRepeated()
		s = append(s, object{{"type", "array"}, {"items", items(field, list.GetItems())},
			{"minItems", max(1, list.GetMinItems())}}...)
		if list.HasMaxItems() {
			s = append(s, member{"maxItems", list.GetMaxItems()})
		}
		if list.GetUnique() {
			s = append(s, member{"uniqueItems", true})
		}
		if field.Message() == nil {
			return orOne(s, value(field, list.GetItems()))
		}
		return s
	case field.FullName() == "spate.v1.Target.api":
		return append(s, object{{"type", "string"}, {"enum", registry.Names()}}...)
	case field.Message() != nil && field.Message().Name() == "Warmup":
		return append(s, member{"anyOf", []object{value(field, rules), {{"$ref", "#/$defs/Duration"}}}})
	}
	return append(s, value(field, rules)...)
}

// items returns the schema of a list's items. A threshold may be only its condition.
func items(field protoreflect.FieldDescriptor, rules *validate.FieldRules) object {
	if field.Message() != nil && field.Message().Name() == "Threshold" {
		return object{{"anyOf", []object{value(field, rules), {{"type", "string"}}}}}
	}
	return value(field, rules)
}

// orOne returns the schema of a list that may also be given as its only value, without brackets.
func orOne(list, one object) object {
	var description, rest object
	for _, m := range list {
		if m.name == "description" {
			description = append(description, m)
		} else {
			rest = append(rest, m)
		}
	}
	return append(description, member{"anyOf", []object{rest, one}})
}

// mapping returns the schema of a map field, whose names are free.
func mapping(field protoreflect.FieldDescriptor, rules *validate.MapRules) object {
	s := object{{"type", "object"}, {"additionalProperties", value(field.MapValue(), rules.GetValues())}}
	if names := limits(rules.GetKeys()); len(names) > 0 {
		s = append(s, member{"propertyNames", names})
	}
	if rules.HasMaxPairs() {
		s = append(s, member{"maxProperties", rules.GetMaxPairs()})
	}
	return s
}

// value returns the schema of one value of a field.
func value(field protoreflect.FieldDescriptor, rules *validate.FieldRules) object {
	if message := field.Message(); message != nil {
		if known := wellKnown(message); known != nil {
			return known
		}
		return object{{"$ref", reference(message)}}
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return append(object{{"type", "string"}}, limits(rules)...)
	case protoreflect.BoolKind:
		return object{{"type", "boolean"}}
	case protoreflect.DoubleKind:
		return append(object{{"type", "number"}}, limits(rules)...)
	default: // Unsigned integers.
		return append(object{{"type", "integer"}, {"minimum", 0}}, limits(rules)...).last()
	}
}

// wellKnown returns the schema of a message that protobuf defines, or nil for other messages.
func wellKnown(m protoreflect.MessageDescriptor) object {
	switch m.FullName() {
	case "google.protobuf.Duration":
		return object{{"$ref", "#/$defs/Duration"}}
	case "google.protobuf.Struct":
		return object{{"type", "object"}}
	}
	return nil
}

// keywords maps rules to the keywords of JSON Schema with the same meaning.
var keywords = map[protoreflect.Name]string{
	"gte": "minimum", "gt": "exclusiveMinimum", "lte": "maximum", "lt": "exclusiveMaximum",
	"pattern": "pattern", "min_len": "minLength", "max_len": "maxLength", "in": "enum",
}

// limits returns the rules of a value as keywords of JSON Schema, in the order of the rules' field numbers.
func limits(rules *validate.FieldRules) object {
	var s object
	kind := rules.ProtoReflect().WhichOneof(rules.ProtoReflect().Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return nil
	}
	m := rules.ProtoReflect().Get(kind).Message()
	for i := range m.Descriptor().Fields().Len() {
		rule := m.Descriptor().Fields().Get(i)
		keyword := keywords[rule.Name()]
		if keyword == "" || !m.Has(rule) {
			continue
		}
		if !rule.IsList() {
			s = append(s, member{keyword, m.Get(rule).Interface()})
			continue
		}
		var values []any
		for j := range m.Get(rule).List().Len() {
			values = append(values, m.Get(rule).List().Get(j).Interface())
		}
		s = append(s, member{keyword, values})
	}
	return s
}
